//! Messages to the user, which are kept until the run has an output.

use crate::base::report::draw::{Draw, Level};

/// Maximum number of messages kept until the run has an output; further ones are counted.
const EARLY_NOTES: usize = 100;

/// The messages from before the run had an output.
pub(super) struct EarlyNotes {
    /// Each with its level, or none for those of the function `note`; None once there is an output.
    kept: Option<Vec<(Option<Level>, String)>>,
    /// Number of messages that were not kept.
    dropped: u64,
}

impl Default for EarlyNotes {
    fn default() -> EarlyNotes {
        EarlyNotes { kept: Some(Vec::new()), dropped: 0 }
    }
}

impl EarlyNotes {
    /// Keeps a message and returns true, unless the run has an output.
    pub(super) fn keep(&mut self, level: Option<Level>, text: &str) -> bool {
        let Some(kept) = &mut self.kept else { return false };
        match kept.len() < EARLY_NOTES {
            true => kept.push((level, text.to_owned())),
            false => self.dropped += 1,
        }
        true
    }

    /// Takes the messages; no further one is kept.
    pub(super) fn take(&mut self) -> Vec<(Option<Level>, String)> {
        let mut kept = self.kept.take().unwrap_or_default();
        if self.dropped > 0 {
            let text = format!("{} more notes before the run began", self.dropped);
            kept.push((Some(Level::Info), text));
        }
        kept
    }
}

/// Output of a script that does not run; discards everything.
pub(in crate::script) struct NoOutput;

impl Draw for NoOutput {}
