//! Real-time priority for a session that other tasks keep from running.

use crate::sys::sched::{RtBoost, waited_ns};

/// Percent of a CPU for events at real-time priority. Counting two million events a second takes a
/// tenth; a session that uses more competes as usual.
const CPU_PERCENT: u64 = 20;

/// Share of a second spent waiting for a CPU from which on the session raises its priority. Tasks
/// of another autogroup cause such waits, which last longer than a ring's capacity. Tasks of the
/// same autogroup cause waits of a twentieth; then the kernel's own workers, which echo typed keys,
/// run better without a raised session.
const STARVED_FRACTION: f64 = 0.25;

/// Check interval in nanoseconds.
const CHECK_INTERVAL_NS: f64 = 1e9;

/// The raised priority, if any, and the state of the last check.
#[derive(Default)]
pub(super) struct SessionBoost {
    front: Option<RtBoost>,
    waited: Option<u64>,
    at: f64,
}

impl SessionBoost {
    /// Checks the wait; called on the session's thread in each turn of its loop, with the session's
    /// time. Raises the priority only while a user types, who sees the effect.
    pub(super) fn turn(&mut self, now: f64, typing: bool) {
        if let Some(front) = &mut self.front {
            return front.update();
        }
        if !typing || now - self.at < CHECK_INTERVAL_NS {
            return;
        }
        let waited = waited_ns();
        if waited.zip(self.waited).is_some_and(|(waited, before)| {
            is_starved(waited.saturating_sub(before), now - self.at)
        }) {
            self.front = RtBoost::request(CPU_PERCENT);
        }
        (self.waited, self.at) = (waited, now);
    }
}

fn is_starved(waited_ns: u64, passed_ns: f64) -> bool {
    waited_ns as f64 > STARVED_FRACTION * passed_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_waits_for_a_cpu_raise_the_priority() {
        assert!(!is_starved(50_000_000, 1e9));
        assert!(is_starved(850_000_000, 1e9));
    }
}
