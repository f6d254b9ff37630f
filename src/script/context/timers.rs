//! Functions that run periodically: when each is due, and how missed periods are skipped.

use std::rc::Rc;

use crate::script::vm::callback::Callback;

/// Maximum number of timers in a run: `every` in a handler would add one per event.
const TIMERS_MAX: usize = 256;

/// The timers of a run.
#[derive(Default)]
pub(in crate::script) struct Timers {
    timers: Vec<Timer>,
}

/// One `every(period, handler)`.
struct Timer {
    /// Nanoseconds.
    period: f64,
    /// Next call, in nanoseconds of the run.
    next: f64,
    /// Called with the time.
    callback: Rc<Callback>,
}

impl Timers {
    /// Adds a timer whose first call is one period after `now`. Returns false if there are too
    /// many.
    pub(in crate::script) fn add(&mut self, now: f64, period: f64, callback: Rc<Callback>) -> bool {
        let has_room = self.timers.len() < TIMERS_MAX;
        if has_room {
            self.timers.push(Timer { period, next: now + period, callback });
        }
        has_room
    }

    /// Removes all timers.
    pub(in crate::script) fn clear(&mut self) {
        self.timers.clear();
    }

    /// Returns when the next timer is due.
    pub(in crate::script) fn next_due(&self) -> Option<f64> {
        self.timers.iter().map(|t| t.next).min_by(f64::total_cmp)
    }

    /// Skips the calls of timers that were missed up to `now`, except for the last, after a pause
    /// such as a stopped process.
    pub(in crate::script) fn skip_missed(&mut self, now: f64) {
        for timer in &mut self.timers {
            timer.next = last_due(timer.next, timer.period, now);
        }
    }

    /// Returns the timers due at `now`, each with the time it was due, and sets each to its next
    /// call.
    pub(in crate::script) fn due(&mut self, now: f64) -> Vec<(Rc<Callback>, f64)> {
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
    pub(in crate::script) fn set_period(
        &mut self,
        callback: &Rc<Callback>,
        time: f64,
        period: f64,
    ) {
        for timer in &mut self.timers {
            if Rc::ptr_eq(&timer.callback, callback) {
                (timer.period, timer.next) = (period, time + period);
            }
        }
    }

    /// Removes timers whose callback is switched off.
    pub(in crate::script) fn drop_those_off(&mut self) {
        self.timers.retain(|timer| timer.callback.is_on());
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
        let mut timers = Timers::default();
        let callback = Callback::new("every", handler);
        timers.add(0.0, 10.0, callback.clone());
        assert_eq!(timers.due(10.0).len(), 1);
        timers.set_period(&callback, 10.0, f64::INFINITY);
        timers.skip_missed(1e18);
        assert_eq!((timers.next_due(), timers.due(1e18).len()), (Some(f64::INFINITY), 0));
    }

    #[test]
    fn a_timer_that_missed_ticks_fires_once() {
        let lua = mlua::Lua::new();
        let handler = lua.create_function(|_, ()| Ok(())).unwrap();
        let mut timers = Timers::default();
        let callback = Callback::new("every", handler);
        timers.add(0.0, 10.0, callback);
        assert!(timers.due(9.0).is_empty());
        timers.skip_missed(35.0);
        assert_eq!(timers.due(30.0).len(), 1);
        assert_eq!(timers.next_due(), Some(40.0));
    }
}
