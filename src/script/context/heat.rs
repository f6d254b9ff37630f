//! Times of events for `--heatmap`: of all events, and of those that the script emitted.

use crate::base::report::heat::Heat;

/// The two collections; none without the option.
#[derive(Default)]
pub(in crate::script) struct Heats {
    /// Times of events.
    pub(in crate::script) all: Option<Heat>,
    /// Times of events that the script emitted.
    pub(in crate::script) emitted: Option<Heat>,
}

impl Heats {
    /// Adds the times of a batch.
    #[inline]
    pub(in crate::script) fn add_all(&mut self, times: impl Iterator<Item = f64>) {
        if let Some(heat) = &mut self.all {
            times.for_each(|time| heat.add(time));
        }
    }
}
