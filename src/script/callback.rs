//! Script functions that a run calls repeatedly, such as timers, until one fails too often.
//!
//! The rule is that of handlers: a number of errors, or one call that the guard stopped, switch a
//! callback off, which is reported once. A run ends when all handlers and callbacks are off.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{FromLuaMulti, Function, IntoLuaMulti};

use super::call::{call, place_of};
use super::guard::{Failure, Phase};
use super::host::Host;
use crate::base::draw::Level;

/// A script function and its failures.
pub(super) struct Callback {
    /// Its name in messages: `on_exit`, `every`.
    name: &'static str,
    function: Function,
    strikes: FailureCount,
}

impl Callback {
    /// Creates a callback that is on.
    pub(super) fn new(name: &'static str, function: Function) -> Rc<Callback> {
        Rc::new(Callback { name, function, strikes: FailureCount::default() })
    }

    /// Returns the script's function.
    pub(super) fn function(&self) -> &Function {
        &self.function
    }

    /// Returns whether it is still called.
    pub(super) fn is_on(&self) -> bool {
        !self.strikes.out.get()
    }
}

/// Number of failures, and whether they switched the callback off.
#[derive(Default)]
pub(super) struct FailureCount {
    errors: Cell<u64>,
    out: Cell<bool>,
}

impl FailureCount {
    /// Counts a failure. Returns its text and, if it was the last of `most` allowed failures, the
    /// reason for the final message.
    pub(super) fn count(&self, why: &Failure, most: u64) -> (String, Option<String>) {
        let errors = self.errors.get() + 1;
        self.errors.set(errors);
        let text = match why {
            // The traceback is the same each time; the first is enough.
            Failure::Script(error) if errors > 1 => error.message.clone(),
            why => why.to_string(),
        };
        let stopped = matches!(why, Failure::Stopped(_));
        let times = match errors {
            _ if stopped => Some("was stopped".to_owned()),
            1 if most == 1 => Some("failed".to_owned()),
            _ if errors >= most => Some(format!("failed {errors} times")),
            _ => None,
        };
        self.out.set(times.is_some());
        (text, times)
    }
}

impl Host {
    /// Calls a callback. Returns None if it is off or fails; reports and counts the failure.
    pub(super) fn call_back<R: FromLuaMulti>(
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
        let (text, out) = callback.strikes.count(&why, self.dispatch.tolerated());
        self.failed(&text);
        if let Some(times) = out {
            let place = place_of(&callback.function).map(|place| format!("{place}: "));
            let place = place.unwrap_or_default();
            let text = format!("{place}{} {times} and is switched off", callback.name);
            self.shared.with(|context| context.note(Level::Error, &text));
            self.state.borrow_mut().drop_timers_that_are_off();
            if self.is_idle() {
                self.end_idle();
            }
        }
        None
    }
}
