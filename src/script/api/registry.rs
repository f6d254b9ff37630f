//! Parts of a host with which the areas of the API register their functions.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua, Table};

use crate::script::aggregate::Aggregates;
use crate::script::context::shared::SharedContext;
use crate::script::context::state::ScriptState;
use crate::script::vm::trusted::TrustedLua;

/// The parts of a host that functions of scripts use.
pub(super) struct Registry<'a> {
    /// The preludes.
    pub(super) trusted: &'a TrustedLua,
    /// Requests of scripts to the run.
    pub(super) state: &'a Rc<RefCell<ScriptState>>,
    /// The context of the run.
    pub(super) shared: &'a SharedContext,
    /// The aggregates.
    pub(super) aggregates: &'a Aggregates,
    /// The functions that scripts see, by name.
    pub(super) globals: &'a Table,
}

impl Registry<'_> {
    /// Returns the Lua state.
    pub(super) fn lua(&self) -> &Lua {
        self.trusted.lua()
    }

    /// Lets scripts see functions that a prelude has exported.
    ///
    /// # Errors
    /// There is no such function.
    pub(super) fn publish(&self, names: &[&str]) -> mlua::Result<()> {
        names.iter().try_for_each(|name| self.globals.set(*name, self.trusted.export(name)?))
    }

    /// Returns a function that returns whether the events come from this machine, not from a
    /// recording.
    pub(super) fn liveness(&self) -> impl Fn() -> bool + use<> {
        let state = self.state.clone();
        move || state.borrow().declarer.as_ref().is_some_and(|of| of.cpus.is_some())
    }

    /// Returns `slot_of(kept)`: the `const void *` slot behind `s.event`, nil for anything else.
    ///
    /// # Errors
    /// The prelude of aggregates did not run.
    pub(super) fn slot_of_kept(&self) -> mlua::Result<Function> {
        self.aggregates.trusted().get("slot_of")
    }
}
