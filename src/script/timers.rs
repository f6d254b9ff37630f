//! Timers of `every`: when the next is due, and calls of those that are.

use super::control::Period;
use super::guard::Phase;
use super::host::Host;

impl Host {
    /// Returns when the next timer of `every` is due.
    pub fn next_timer(&self) -> Option<f64> {
        self.state.borrow().next_timer()
    }

    /// Skips the missed calls of timers up to `now`, except for the last.
    pub fn skip_missed_timers(&mut self, now: f64) {
        self.state.borrow_mut().skip_missed(now);
    }

    /// Calls the timers that are due. A timer that returns a period has it from this call on.
    pub fn fire_timers(&mut self, now: f64) {
        let due = self.state.borrow_mut().due(now);
        for (callback, time) in due {
            let period = self.call_back::<Option<Period>>(&callback, Phase::Handler, time);
            if let Some(period) = period.flatten() {
                self.state.borrow_mut().set_period(&callback, time, period.ns);
            }
        }
    }
}
