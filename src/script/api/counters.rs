//! Function `counters`: tables of the counts of an interval; see `prelude/counters.lua`.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua};

use super::registry::Registry;
use super::report;
use crate::script::context::state::ScriptState;

const COUNTERS: &str = include_str!("../prelude/counters.lua");

/// Adds the function.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let (lua, state) = (api.lua(), api.state);
    let native = lua.create_table()?;
    native.set("count_of", count_of(lua, state)?)?;
    native.set("counted_instances", counted_instances(lua, state)?)?;
    native.set("new_report", report::new_report(lua, &api.aggregates.shared().budget)?)?;
    api.trusted.run::<()>("counters", COUNTERS, native)?;
    api.publish(&["counters"])
}

/// Creates the function that returns what a counting evsel, or its event at a position from 1,
/// added in this interval, on one instance or on all, and the fraction of the time for which it
/// counted.
fn count_of(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (index, instance, at): CountArguments| {
        let state = state.borrow();
        let roles = state.evsels.borrow().indexes_of(index);
        let roles = roles.enumerate().filter(|(i, _)| at.is_none_or(|at| i + 1 == at));
        let (mut value, mut share, mut any) = (0.0, 1.0f64, at.is_none());
        for count in roles.flat_map(|(_, role)| state.counts_of(role as u32, instance)) {
            value += count.value;
            share = share.min(count.share);
            any = true;
        }
        Ok(any.then_some((value, share)).unzip())
    })
}

/// The evsel, the instance, and the position of an event.
type CountArguments = (usize, Option<u32>, Option<usize>);

/// Creates the function that returns the CPUs or threads that have counts in this interval, in
/// ascending order.
fn counted_instances(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, ()| Ok(state.borrow().counted_instances()))
}
