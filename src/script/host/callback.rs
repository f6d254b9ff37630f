//! Calls a script's callbacks and timers, and switches off those that fail too often.

use mlua::{FromLuaMulti, IntoLuaMulti};

use super::Host;
use crate::base::report::draw::Level;
use crate::script::vm::call::{call, place_of};
use crate::script::vm::callback::Callback;
use crate::script::vm::guard::Phase;

impl Host {
    /// Calls a callback. Returns None if it is off or fails; reports and counts the failure.
    pub(in crate::script) fn call_back<R: FromLuaMulti>(
        &mut self,
        callback: &Callback,
        phase: Phase,
        args: impl IntoLuaMulti,
    ) -> Option<R> {
        if !callback.is_on() {
            return None;
        }
        let why = match call(&self.guard, phase, &callback.function, args) {
            Ok(value) => return Some(value),
            Err(why) => why,
        };
        let (text, out) = callback.failures.count(&why, self.dispatch.tolerated());
        self.failed(&text);
        if let Some(times) = out {
            let place = place_of(&callback.function).map(|place| format!("{place}: "));
            let place = place.unwrap_or_default();
            let text = format!("{place}{} {times} and is switched off", callback.name);
            self.context.note(Level::Error, &text);
            self.state.borrow_mut().timers.drop_those_off();
            if self.is_idle() {
                self.end_idle();
            }
        }
        None
    }
}
