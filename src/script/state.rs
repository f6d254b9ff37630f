//! Requests of a script to its run: stop, timers, alerts.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::callback::Callback;
use super::evsel::{Declarer, Evsels};
use super::printer::Printers;
use crate::source::counts::CountDelta;

/// State of a run that script functions change and the host reads between batches.
#[derive(Default)]
pub struct ScriptState {
    /// Set when the run is to stop: the reason passed to `stop(why)`, or empty.
    pub stop: Option<String>,
    /// Timers of `every`.
    pub timers: Vec<Timer>,
    /// Time of the last alert per key, in nanoseconds of the run.
    pub alerted: HashMap<String, f64>,
    /// Counters of the interval that is being drawn: increments since the last interval, by role
    /// and instance.
    counts: Vec<CountDelta>,
    /// Rust side of `evsel`; none while files are only loaded.
    pub declarer: Option<Declarer>,
    /// Declared evsels.
    pub evsels: Rc<RefCell<Evsels>>,
    /// Watched CPUs.
    pub cpus: Vec<u32>,
    /// Whether threads are watched (`-p`, `-t`, a workload) instead of whole CPUs.
    pub per_thread: bool,
    /// How often an expression had no value in C; compiled Lua increments it in place.
    pub undefined: Box<Cell<f64>>,
    /// Printers of events.
    pub printers: Printers,
}

/// One `every(period, handler)`.
#[derive(Clone)]
pub struct Timer {
    /// Nanoseconds.
    pub period: f64,
    /// Next call, in nanoseconds of the run.
    pub next: f64,
    /// Called with the time.
    pub(super) callback: Rc<Callback>,
}

impl ScriptState {
    /// Sets the increments of the counters in the interval that is drawn next.
    pub fn set_counts(&mut self, counts: &[CountDelta]) {
        self.counts.clear();
        self.counts.extend_from_slice(counts);
        self.counts.sort_by_key(|count| (count.role, count.instance));
    }

    /// Returns the counts of a role, on one instance or on all.
    pub(super) fn counts_of(&self, role: u32, instance: Option<u32>) -> &[CountDelta] {
        let (first, last) = (instance.unwrap_or(0), instance.unwrap_or(u32::MAX));
        let from = self.counts.partition_point(|c| (c.role, c.instance) < (role, first));
        let to = self.counts.partition_point(|c| (c.role, c.instance) <= (role, last));
        &self.counts[from..to]
    }

    /// Returns the instances that have counts, in ascending order.
    pub(super) fn counted_instances(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.counts.iter().map(|count| count.instance).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns whether events have every field that their records can have; those of a recording
    /// have the fields of its lines.
    pub fn knows_all_fields(&self) -> bool {
        self.declarer.as_ref().is_some_and(|declarer| declarer.catalog.is_whole())
    }

    /// Returns when the next timer is due.
    pub fn next_timer(&self) -> Option<f64> {
        self.timers.iter().map(|t| t.next).min_by(f64::total_cmp)
    }

    /// Skips the calls of timers that were missed up to `now`, except for the last, after a pause
    /// such as a stopped process.
    pub fn skip_missed(&mut self, now: f64) {
        for timer in &mut self.timers {
            timer.next = last_due(timer.next, timer.period, now);
        }
    }

    /// Returns the timers due at `now`, each with the time it was due, and sets each to its next
    /// call.
    pub(super) fn due(&mut self, now: f64) -> Vec<(Rc<Callback>, f64)> {
        let mut due = Vec::new();
        for timer in &mut self.timers {
            if timer.next <= now {
                due.push((timer.callback.clone(), timer.next));
                timer.next += timer.period;
            }
        }
        due.sort_by(|a, b| a.1.total_cmp(&b.1));
        due
    }

    /// Sets the period of a timer, starting from its call at `time`.
    pub(super) fn set_period(&mut self, callback: &Rc<Callback>, time: f64, period: f64) {
        for timer in &mut self.timers {
            if Rc::ptr_eq(&timer.callback, callback) {
                (timer.period, timer.next) = (period, time + period);
            }
        }
    }

    /// Removes timers whose callback is switched off.
    pub(super) fn drop_timers_that_are_off(&mut self) {
        self.timers.retain(|timer| timer.callback.is_on());
    }

    /// Returns whether an alert of `key` may be sent at `now`; it then counts as sent. The number
    /// of keys is limited: at the limit the older half is removed.
    pub fn may_alert(&mut self, key: &str, now: f64, every: f64) -> bool {
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

/// Returns `next`, moved by as many whole periods as there are up to `now`. An infinite period has
/// none.
pub fn last_due(next: f64, period: f64, now: f64) -> f64 {
    let turns = ((now - next) / period).floor();
    // 0 times an infinite period is not a number.
    if turns.is_finite() && turns > 0.0 { next + turns * period } else { next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_with_an_infinite_period_is_never_due_again() {
        let lua = mlua::Lua::new();
        let handler = lua.create_function(|_, ()| Ok(())).unwrap();
        let mut state = ScriptState::default();
        let callback = Callback::new("every", handler);
        state.timers.push(Timer { period: 10.0, next: 10.0, callback: callback.clone() });
        assert_eq!(state.due(10.0).len(), 1);
        state.set_period(&callback, 10.0, f64::INFINITY);
        state.skip_missed(1e18);
        assert_eq!((state.next_timer(), state.due(1e18).len()), (Some(f64::INFINITY), 0));
    }

    #[test]
    fn an_alert_is_reported_once_per_key_and_period() {
        let mut state = ScriptState::default();
        let sent = [("a", 0.0), ("a", 5.0), ("b", 5.0), ("a", 10.0)]
            .map(|(k, t)| state.may_alert(k, t, 10.0));
        assert_eq!(sent, [true, false, true, true]);
    }

    #[test]
    fn a_timer_that_missed_ticks_fires_once() {
        let lua = mlua::Lua::new();
        let handler = lua.create_function(|_, ()| Ok(())).unwrap();
        let mut state = ScriptState::default();
        let callback = Callback::new("every", handler);
        state.timers.push(Timer { period: 10.0, next: 10.0, callback });
        assert!(state.due(9.0).is_empty());
        state.skip_missed(35.0);
        assert_eq!(state.due(30.0).len(), 1);
        assert_eq!(state.next_timer(), Some(40.0));
    }
}
