//! The functions that scripts call, one file per area, and their registration in a new VM.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Table, Value};

use super::aggregate::Aggregates;
use super::context::shared::SharedContext;
use super::context::state::ScriptState;
use super::dispatch::view;
use super::load::monitor;
use super::vm::Vm;
use super::vm::trusted::TrustedLua;
use registry::Registry;

mod control;
mod counters;
mod emit;
mod evsel;
mod expression;
pub mod format;
mod history;
mod machine;
mod note;
mod paired;
pub(super) mod period;
mod printer;
mod process;
mod raise;
mod registry;
mod report;
mod sample_fields;
mod source;
mod span;
mod stacks;
mod tasks;

/// Adds all functions, and those that `globals` already holds, to the VM's environment. Returns the
/// tables of the preludes.
///
/// # Errors
/// A prelude failed to load.
pub(super) fn register(
    vm: &Vm,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
    aggregates: &Aggregates,
    globals: &Table,
) -> mlua::Result<TrustedLua> {
    let lua = vm.lua();
    let trusted = view::views(lua, state, shared, aggregates.trusted().get("hooks")?)?;
    let api = Registry { trusted: &trusted, state, shared, aggregates, globals };
    monitor::register(lua, globals)?;
    format::register(lua, globals)?;
    stacks::register(lua, globals, aggregates)?;
    printer::register(&api)?;
    control::register(&api)?;
    tasks::register(&api)?;
    machine::register(&api)?;
    process::register(&api)?;
    note::register(&api)?;
    sample_fields::register(&api)?;
    expression::register(&api)?;
    evsel::register(&api, vm.is_unsafe())?;
    paired::register(&api, vm.is_unsafe())?;
    emit::register(&api)?;
    span::register(&api)?;
    source::register(&api, vm.loader())?;
    report::register(&api)?;
    counters::register(&api)?;
    history::register(&api)?;
    // Copied into the sandbox's table directly, because scripts must not set globals there.
    for pair in globals.pairs::<String, Value>() {
        let (name, value) = pair?;
        vm.add_global(&name, value)?;
    }
    Ok(trusted)
}
