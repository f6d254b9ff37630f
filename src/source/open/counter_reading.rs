//! Readings of a counter: what was added between two of them, and for which part of the time.

use crate::sys::perf::EventCounts;

/// A reading of a counter: its count, and for how many nanoseconds it was enabled and running.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::source) struct CounterReading {
    value: u64,
    enabled: u64,
    running: u64,
}

impl CounterReading {
    /// Returns the reading of an event.
    pub(in crate::source) fn of(counts: &EventCounts) -> CounterReading {
        let EventCounts { value, enabled, running, .. } = *counts;
        CounterReading { value, enabled, running }
    }

    /// Returns for how many nanoseconds the event was counting.
    pub(in crate::source) fn running_ns(self) -> u64 {
        self.running
    }

    /// Adds the reading of an event that continued from there.
    pub(in crate::source) fn plus(self, later: CounterReading) -> CounterReading {
        CounterReading {
            value: self.value + later.value,
            enabled: self.enabled + later.enabled,
            running: self.running + later.running,
        }
    }

    /// Adds the reading of the same counter on another CPU: a task's event is enabled on all of
    /// them at once, and runs on one.
    pub(in crate::source) fn and(self, other: CounterReading) -> CounterReading {
        CounterReading {
            value: self.value + other.value,
            enabled: self.enabled.max(other.enabled),
            running: self.running + other.running,
        }
    }

    /// Returns what was added since `before`, and the part of the time that was counted. Below 1
    /// the counter was multiplexed, and the value is an estimate. It is scaled by this interval's
    /// own times: those of the whole run would let a count decrease. Times that differ by at most
    /// `slack` nanoseconds are considered equal.
    fn since(self, before: CounterReading, slack: u64) -> (f64, f64) {
        let added = self.added(before);
        let enabled = self.enabled.saturating_sub(before.enabled);
        let running = self.running.saturating_sub(before.running);
        match running {
            _ if running + slack >= enabled => (added, 1.0),
            0 => (f64::NAN, 0.0),
            _ => (added * enabled as f64 / running as f64, running as f64 / enabled as f64),
        }
    }

    fn added(self, before: CounterReading) -> f64 {
        self.value.saturating_sub(before.value) as f64
    }
}

/// When the counters were read last, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::source) struct LastReading {
    /// Time of the run.
    pub(in crate::source) at: f64,
    /// Time since the reading before.
    pub(in crate::source) covers: f64,
    /// Duration of the reading.
    pub(in crate::source) took: f64,
}

/// Sum of the readings of an opening's events on one instance.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::source) struct ReadingSums {
    pub(in crate::source) before: CounterReading,
    pub(in crate::source) now: CounterReading,
    /// Number of events.
    pub(in crate::source) events: usize,
    /// Whether one of them could not be read.
    pub(in crate::source) unread: bool,
}

impl ReadingSums {
    /// Returns the value itself, of a counter whose count is a current value.
    pub(in crate::source) fn current(self) -> f64 {
        if self.unread { f64::NAN } else { self.now.value as f64 }
    }

    /// Returns what they added, and the part of the time that was counted. `cpus` is the number of
    /// CPUs on which a thread can run; 1 for an instance that is a CPU. `slack` is the number of
    /// nanoseconds by which the times of several events may differ, since they are read one after
    /// the other; `None` for an event that is never multiplexed.
    pub(in crate::source) fn added(self, cpus: usize, slack: Option<u64>) -> (f64, f64) {
        match slack {
            _ if self.unread => (f64::NAN, 0.0),
            // With -C, a thread was also on CPUs where nothing counted; that does not mean that the
            // counter was multiplexed.
            Some(slack) if self.events >= cpus => {
                self.now.since(self.before, if self.events > 1 { slack } else { 0 })
            }
            _ => (self.now.added(self.before), 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLACK: u64 = 1_000_000;

    /// Times in milliseconds.
    fn reading(value: u64, enabled: u64, running: u64) -> CounterReading {
        CounterReading { value, enabled: enabled * 1_000_000, running: running * 1_000_000 }
    }

    #[test]
    fn a_count_is_scaled_by_the_times_of_its_own_interval() {
        let first = reading(100, 10, 5);
        assert_eq!(first.since(CounterReading::default(), SLACK), (200.0, 0.5));
        // Not multiplexed since: exact, and never below zero.
        assert_eq!(reading(130, 20, 15).since(first, 0), (30.0, 1.0));
        let (value, share) = reading(100, 20, 5).since(first, 0);
        assert!(value.is_nan() && share == 0.0, "the value is unknown, not zero: {value}");
    }

    #[test]
    fn counts_of_a_migrating_thread_are_scaled_only_if_multiplexed() {
        let both = reading(30, 100, 30).and(reading(70, 100, 70));
        assert_eq!(both.since(CounterReading::default(), SLACK), (100.0, 1.0));
        let shared = reading(30, 100, 30).and(reading(20, 100, 20));
        assert_eq!(shared.since(CounterReading::default(), SLACK), (100.0, 0.5));
        // Never on the hardware during a short interval.
        assert!(reading(0, 2, 0).since(CounterReading::default(), SLACK).0.is_nan());
        // Read while it was running.
        assert_eq!(reading(99, 100, 99).since(CounterReading::default(), SLACK), (99.0, 1.0));
    }
}
