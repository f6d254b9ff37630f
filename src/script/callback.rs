//! Functions of a script that a run calls again and again, until one of them fails too often.
//!
//! The rule is that of handlers: so many errors, or one call that the guard had to stop, switch it off, which
//! is said once. A run whose handlers and callbacks are all switched off ends.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{FromLuaMulti, Function, IntoLuaMulti};

use super::call::{call, place_of};
use super::guard::{Failure, Phase};
use super::host::Host;
use crate::base::draw::Level;

/// One of them.
pub(super) struct Callback {
    /// As messages call it: `on_exit`, `every`.
    name: &'static str,
    function: Function,
    strikes: Strikes,
}

impl Callback {
    /// A function that is on.
    pub(super) fn new(name: &'static str, function: Function) -> Rc<Callback> {
        Rc::new(Callback { name, function, strikes: Strikes::default() })
    }

    /// What it calls.
    pub(super) fn function(&self) -> &Function {
        &self.function
    }

    /// Whether it is still called.
    pub(super) fn is_on(&self) -> bool {
        !self.strikes.out.get()
    }
}

/// How often something has failed.
#[derive(Default)]
pub(super) struct Strikes {
    errors: Cell<u64>,
    out: Cell<bool>,
}

impl Strikes {
    /// Counts a failure, of which `most` are allowed; the failure's text, and what follows from it when it was the last one.
    pub(super) fn count(&self, why: &Failure, most: u64) -> (String, Option<String>) {
        let errors = self.errors.get() + 1;
        self.errors.set(errors);
        let text = match why {
            // The way there is the same each time; once is enough.
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
    /// Calls a callback; gives nothing if it is off, or failed, which is shown and counted.
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
