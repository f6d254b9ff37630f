//! Ends a run in which nothing would reach the script any more.

use super::Host;
use crate::base::report::draw::Level;

impl Host {
    /// Returns whether the handlers and the callbacks for tasks are switched off, and nothing is
    /// counted. A timer alone gets no new data.
    pub(super) fn is_idle(&self) -> bool {
        let counts = || self.state.borrow().evsels.borrow().roles.iter().any(|r| r.sampling.count);
        !self.may_idle && self.dispatch.spent() && !self.callbacks.has_task_callbacks() && !counts()
    }

    /// Ends a run in which nothing would reach the script any more.
    pub(super) fn end_idle(&mut self) {
        if self.state.borrow().stop.is_some() {
            return;
        }
        self.state.borrow_mut().stop = Some(String::new());
        let why = "every handler is switched off, so the run ends; fix the errors above";
        self.context.note(Level::Error, why);
    }
}
