//! Readings of what a run costs.

use super::controller::Load;
use crate::source::counts::Tally;

/// The cost counters at some time.
#[derive(Clone, Copy, Default)]
pub(super) struct CostReading {
    pub(super) at: u64,
    pub(super) own_ns: u64,
    pub(super) tally: Tally,
    /// Events that are system calls.
    pub(super) calls: u64,
    /// System calls while their events were off, as estimated from the others.
    pub(super) off: f64,
}

impl CostReading {
    /// Returns the load since another reading.
    pub(super) fn load_since(&self, before: &CostReading, cpus: f64) -> Load {
        Load {
            capacity: self.at.saturating_sub(before.at) as f64 * cpus,
            events: self.tally.events.saturating_sub(before.tally.events) as f64,
            samples: self.tally.samples.saturating_sub(before.tally.samples) as f64,
            calls: (self.calls - before.calls) as f64,
            off: self.off - before.off,
        }
    }
}
