//! A session in front of others, once they keep it waiting for a CPU.

use crate::sys::slice::{Front, waited_ns};

/// What of a CPU events may take there. Two million events a second that are counted take a tenth; who wants more takes turns.
const OF_A_CPU: u64 = 20;

/// This part of a second without a CPU is being kept waiting: tasks of another autogroup do that, for longer than a ring holds.
/// Those of the same one take a twentieth, and then the kernel's own workers, which a key's echo takes, are better off without it.
const KEPT_WAITING: f64 = 0.25;

/// It is looked at so often, in nanoseconds.
const LOOKED_EVERY: f64 = 1e9;

/// Whether it is there, and since when it was looked whether it has to.
#[derive(Default)]
pub(super) struct Ahead {
    front: Option<Front>,
    waited: Option<u64>,
    at: f64,
}

impl Ahead {
    /// For each turn of the session's loop, on its thread, at a time of the session. It goes only where somebody types, who sees
    /// what it does.
    pub(super) fn turn(&mut self, now: f64, typing: bool) {
        if let Some(front) = &mut self.front {
            return front.turn();
        }
        if !typing || now - self.at < LOOKED_EVERY {
            return;
        }
        let waited = waited_ns();
        if waited.zip(self.waited).is_some_and(|(waited, before)| {
            is_kept_waiting(waited.saturating_sub(before), now - self.at)
        }) {
            self.front = Front::ask(OF_A_CPU);
        }
        (self.waited, self.at) = (waited, now);
    }
}

fn is_kept_waiting(waited_ns: u64, passed_ns: f64) -> bool {
    waited_ns as f64 > KEPT_WAITING * passed_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_twentieth_stays_where_it_is_and_who_waits_for_most_does_not() {
        assert!(!is_kept_waiting(50_000_000, 1e9));
        assert!(is_kept_waiting(850_000_000, 1e9));
    }
}
