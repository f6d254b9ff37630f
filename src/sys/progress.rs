//! A line on the terminal that shows how far a long step is, removed when it ends.

use std::time::{Duration, Instant};

use super::streams;

/// Steps that take less time show nothing.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Minimum time between two updates.
const UPDATED_EVERY: Duration = Duration::from_millis(100);

/// Progress of a step, shown on stderr if that is a terminal.
pub struct Progress {
    what: &'static str,
    all: usize,
    done: usize,
    is_terminal: bool,
    /// When the line is updated next.
    next: Instant,
    is_shown: bool,
}

impl Progress {
    /// Begins a step of `all` parts: `opening events`.
    pub fn begin(what: &'static str, all: usize) -> Progress {
        let is_terminal = streams::stderr_is_terminal();
        let next = Instant::now() + SHOWN_AFTER;
        Progress { what, all, done: 0, is_terminal, next, is_shown: false }
    }

    /// Counts parts as done.
    pub fn advance(&mut self, parts: usize) {
        self.done += parts;
        let now = Instant::now();
        if self.is_terminal && now >= self.next {
            self.next = now + UPDATED_EVERY;
            self.is_shown = true;
            streams::replace_line(&format!(
                "perilune: {}: {} of {}",
                self.what, self.done, self.all
            ));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            streams::replace_line("");
        }
    }
}
