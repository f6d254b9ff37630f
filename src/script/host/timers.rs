//! Timers of `every`: when the next is due, and calls of those that are.

use mlua::{FromLua, Lua, Value};

use super::Host;
use crate::script::api::period::Period;
use crate::script::vm::guard::Phase;

impl Host {
    /// Returns when the next timer of `every` is due.
    pub fn next_timer(&self) -> Option<f64> {
        self.state.borrow().timers.next_due()
    }

    /// Skips the missed calls of timers up to `now`, except for the last.
    pub fn skip_missed_timers(&mut self, now: f64) {
        self.state.borrow_mut().timers.skip_missed(now);
    }

    /// Calls the timers that are due. A period that the function returns is used from now on.
    pub fn fire_timers(&mut self, now: f64) {
        let due = self.state.borrow_mut().timers.due(now);
        for (callback, time) in due {
            let returned = self.call_back::<Returned>(&callback, Phase::Handler, time);
            if let Some(Returned(Some(period))) = returned {
                self.state.borrow_mut().timers.set_period(&callback, time, period.ns);
            }
        }
    }
}

/// The result of a timer's function: its period from now on, if any.
struct Returned(Option<Period>);

impl FromLua for Returned {
    fn from_lua(value: Value, lua: &Lua) -> mlua::Result<Returned> {
        // `return cond and f()` may return false.
        if matches!(value, Value::Nil | Value::Boolean(false)) {
            return Ok(Returned(None));
        }
        let period = Period::from_lua(value, lua).map_err(|why| {
            mlua::Error::runtime(format!("every: its function returned no period: {why}"))
        })?;
        Ok(Returned(Some(period)))
    }
}
