//! Requests of a script to its run: events, printers, timers, alerts, a stop.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::printers::Printers;
use super::timers::Timers;
use crate::script::evsel::declare::Declarer;
use crate::script::evsel::role::Evsels;
use crate::source::counts::CountDelta;

/// State of a run that script functions change and the host reads between batches.
#[derive(Default)]
pub(in crate::script) struct ScriptState {
    /// Set when the run is to stop: the reason passed to `stop(why)`, or empty.
    pub(in crate::script) stop: Option<String>,
    /// Timers of `every`.
    pub(in crate::script) timers: Timers,
    /// Time of the last alert per key, in nanoseconds of the run.
    pub(in crate::script) alerted: HashMap<String, f64>,
    /// Counters of the interval that is being drawn: increments since the last interval, by role
    /// and instance.
    counts: Vec<CountDelta>,
    /// Rust side of `evsel`; none while files are only loaded.
    pub(in crate::script) declarer: Option<Declarer>,
    /// Declared evsels.
    pub(in crate::script) evsels: Rc<RefCell<Evsels>>,
    /// Watched CPUs.
    pub(in crate::script) cpus: Vec<u32>,
    /// Whether threads are watched (`-p`, `-t`, a workload) instead of whole CPUs.
    pub(in crate::script) per_thread: bool,
    /// Whether only some tasks are watched, those of a control group included.
    pub(in crate::script) some_tasks: bool,
    /// How often an expression had no value in C; compiled Lua increments it in place.
    pub(in crate::script) undefined: Box<Cell<f64>>,
    /// Printers of events.
    pub(in crate::script) printers: Printers,
}

impl ScriptState {
    /// Sets the increments of the counters in the interval that is drawn next.
    pub(in crate::script) fn set_counts(&mut self, counts: &[CountDelta]) {
        self.counts.clear();
        self.counts.extend_from_slice(counts);
        self.counts.sort_by_key(|count| (count.role, count.instance));
    }

    /// Returns the counts of a role, on one instance or on all.
    pub(in crate::script) fn counts_of(&self, role: u32, instance: Option<u32>) -> &[CountDelta] {
        let (first, last) = (instance.unwrap_or(0), instance.unwrap_or(u32::MAX));
        let from = self.counts.partition_point(|c| (c.role, c.instance) < (role, first));
        let to = self.counts.partition_point(|c| (c.role, c.instance) <= (role, last));
        &self.counts[from..to]
    }

    /// Returns the instances that have counts, in ascending order.
    pub(in crate::script) fn counted_instances(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.counts.iter().map(|count| count.instance).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns whether events are opened on this machine, so that further fields of their samples
    /// can be requested.
    pub(in crate::script) fn records_samples(&self) -> bool {
        self.declarer.as_ref().is_some_and(|declarer| declarer.trial.is_some())
    }

    /// Returns whether events have every field that their records can have; those of a recording
    /// have the fields of its lines.
    pub(in crate::script) fn knows_all_fields(&self) -> bool {
        self.declarer.as_ref().is_some_and(|declarer| declarer.catalog.is_whole())
    }

    /// Returns whether an alert of `key` may be sent at `now`; it then counts as sent. The number
    /// of keys is limited: at the limit the older half is removed.
    pub(in crate::script) fn may_alert(&mut self, key: &str, now: f64, every: f64) -> bool {
        if self.alerted.get(key).is_some_and(|last| now - last < every) {
            return false;
        }
        const KEYS: usize = 4096;
        if self.alerted.len() >= KEYS {
            let mut times: Vec<f64> = self.alerted.values().copied().collect();
            times.sort_by(f64::total_cmp);
            let middle = times[KEYS / 2];
            self.alerted.retain(|_, time| *time > middle);
        }
        self.alerted.insert(key.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_is_reported_once_per_key_and_period() {
        let mut state = ScriptState::default();
        let sent = [("a", 0.0), ("a", 5.0), ("b", 5.0), ("a", 10.0)]
            .map(|(k, t)| state.may_alert(k, t, 10.0));
        assert_eq!(sent, [true, false, true, true]);
    }
}
