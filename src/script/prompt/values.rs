//! Values of a line: what they are, how they are drawn, and what can be completed.

use mlua::Value;

use super::{Prompt, failure};
use crate::base::report::draw::Report;
use crate::script::vm::guard::Phase;
use crate::source::counts::CountDelta;

impl Prompt {
    /// Returns whether the last line defined something, and whether other lines may need it.
    pub fn line_defined(&self) -> (bool, bool) {
        self.ask("touched", ()).unwrap_or_default()
    }

    /// Returns the names of the globals that were assigned, in order, and whether an event has no
    /// handler of its own.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn definitions(&self) -> mlua::Result<(Vec<String>, bool)> {
        self.ask("definitions", ())
    }

    /// Returns a value as text, if it is not a table of results.
    pub fn text_of(&self, value: &Value) -> String {
        let text = self.host.guard.run(Phase::Line, || self.ask("text_of", value));
        text.unwrap_or_else(|why| failure(&why))
    }

    /// Returns whether a value is an event that was declared.
    pub fn is_evsel(&self, value: &Value) -> bool {
        self.ask("is_evsel", value).unwrap_or(false)
    }

    /// Returns the names that may be completed: all globals if `of` is empty, else the fields of
    /// that global.
    pub fn names(&self, of: &str) -> Vec<String> {
        self.ask("names", of).unwrap_or_default()
    }

    /// Returns what a value draws; `None` if it is not an aggregate, counters or a report.
    ///
    /// # Errors
    /// Drawing failed or was stopped.
    pub fn drawn(
        &mut self,
        value: &Value,
        counts: &[CountDelta],
    ) -> anyhow::Result<Option<Vec<Report>>> {
        self.host.state.borrow_mut().set_counts(counts);
        if !self.host.dispatch.can_draw(&self.host.aggregates, value)? {
            return Ok(None);
        }
        let wanted = std::slice::from_ref(value);
        let draw = || self.host.dispatch.draw(&self.host.aggregates, counts, Some(wanted));
        let drawn = self.host.guard.run(Phase::Line, draw);
        drawn.map(Some).map_err(|why| anyhow::Error::msg(failure(&why)))
    }

    /// Restarts a table.
    pub fn restart(&self, value: &Value) {
        self.host.aggregates.reset_after_interval(Some(std::slice::from_ref(value)));
    }
}
