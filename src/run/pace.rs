//! How long a run waits between two drains of its rings.
//!
//! Rings that fill wake a run by their watermark, and reports and timers have their own deadlines,
//! so the wait only decides how late a single event is printed. A run that prints nothing waits
//! longer and longer, which saves most of its CPU time on an idle machine.

/// Wait after something was printed, and the first wait, in milliseconds.
const PROMPT_MS: f64 = 100.0;
/// Longest wait.
const RELAXED_MS: f64 = 400.0;

/// The current wait.
pub(super) struct DrainPace {
    wait_ms: f64,
    /// Whether it may grow.
    relaxes: bool,
    /// Number of events and rows that had been printed at the last drain.
    printed: u64,
}

impl DrainPace {
    /// Starts with the shortest wait. It never grows if `polls`: the run then checks after each
    /// wait whether a command or the watched tasks have ended, or a table of the kernel is full.
    pub(super) fn new(polls: bool) -> DrainPace {
        DrainPace { wait_ms: PROMPT_MS, relaxes: !polls, printed: 0 }
    }

    /// Returns the longest time until the next drain, in milliseconds.
    pub(super) fn wait_ms(&self) -> f64 {
        self.wait_ms
    }

    /// Adapts the wait after a drain; `printed` events and rows have been printed since the start.
    pub(super) fn drained(&mut self, printed: u64) {
        let is_silent = std::mem::replace(&mut self.printed, printed) == printed;
        self.wait_ms = match is_silent && self.relaxes {
            true => (2.0 * self.wait_ms).min(RELAXED_MS),
            false => PROMPT_MS,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_while_nothing_is_printed() {
        let waits = |polls| {
            let mut pace = DrainPace::new(polls);
            let waits = [0, 0, 0, 5, 5, 5].map(|printed| {
                pace.drained(printed);
                pace.wait_ms()
            });
            waits.to_vec()
        };
        assert_eq!(waits(false), [200.0, 400.0, 400.0, 100.0, 200.0, 400.0]);
        assert_eq!(waits(true), [100.0; 6]);
    }
}
