//! Script functions that a run calls repeatedly, such as timers, until one fails too often.
//!
//! The rule is that of handlers: a number of errors, or one call that the guard stopped, switch a
//! callback off, which is reported once. A run ends when all handlers and callbacks are off.

use std::cell::Cell;
use std::rc::Rc;

use mlua::Function;

use super::guard::Failure;

/// A script function and its failures.
pub(in crate::script) struct Callback {
    /// Its name in messages: `on_exit`, `every`.
    pub(in crate::script) name: &'static str,
    /// The script's function.
    pub(in crate::script) function: Function,
    /// How often it failed.
    pub(in crate::script) failures: FailureCount,
}

impl Callback {
    /// Creates a callback that is on.
    pub(in crate::script) fn new(name: &'static str, function: Function) -> Rc<Callback> {
        Rc::new(Callback { name, function, failures: FailureCount::default() })
    }

    /// Returns whether it is still called.
    pub(in crate::script) fn is_on(&self) -> bool {
        !self.failures.out.get()
    }
}

/// Number of failures, and whether they switched the callback off.
#[derive(Default)]
pub(in crate::script) struct FailureCount {
    errors: Cell<u64>,
    out: Cell<bool>,
}

impl FailureCount {
    /// Returns the number of failures so far.
    pub(in crate::script) fn so_far(&self) -> u64 {
        self.errors.get()
    }

    /// Counts a failure. Returns its text and, if it was the last of `most` allowed failures, the
    /// reason for the final message.
    pub(in crate::script) fn count(&self, why: &Failure, most: u64) -> (String, Option<String>) {
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
