//! Registers every function of the runtime in a new VM, and loads the trusted preludes.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, IntoLuaMulti, LightUserData, Lua, MultiValue, Table, Value, Variadic};

use super::aggregate::Aggregates;
use super::dispatch::{Dispatch, Trusted};
use super::evsel::EvselInfo;
use super::functions::{self as drawing, OF_THE_SAMPLE};
use super::leaf::{self, SharedContext};
use super::state::ScriptState;
use super::vm::Vm;
use super::{control, expression, history, monitor, printer, stacks, table, view};
use crate::base::nearest::{did_you_mean, nearest};
use crate::event::rate::SamplingRate;
use crate::source::batch::Addresses;

const VIEW: &str = include_str!("prelude/view.lua");
const DRIVER: &str = include_str!("prelude/driver.lua");
const EVSEL: &str = include_str!("prelude/evsel.lua");
const FIELDS: &str = include_str!("prelude/fields.lua");
const EMIT: &str = include_str!("prelude/emit.lua");
const HISTORY: &str = include_str!("prelude/history.lua");

/// Adds all functions, and those that `globals` already holds, to the VM's environment. Returns the
/// run's dispatch.
///
/// # Errors
/// A prelude failed to load.
pub(super) fn register(
    vm: &Vm,
    state: &Rc<RefCell<ScriptState>>,
    shared: &SharedContext,
    aggregates: &Aggregates,
    globals: &Table,
) -> mlua::Result<Dispatch> {
    let lua = vm.lua();
    monitor::register(lua, globals)?;
    drawing::register(lua, globals)?;
    stacks::register(lua, globals, aggregates)?;
    globals.set("printer", printer::function(lua, state)?)?;

    let ffi: Table = lua.globals().get::<Function>("require")?.call("ffi")?;
    let leaves = leaves(lua)?;
    let address = LightUserData(shared.address().cast_mut());
    let nearest = near_field(lua, state)?;
    let hooks: Table = aggregates.trusted().get("hooks")?;
    let views: Table = vm.trusted("view", VIEW, (&ffi, &leaves, address, &nearest, hooks))?;
    control::register(lua, globals, state, shared, &views)?;

    let exports = lua.create_table()?;
    let declare = declare(lua, state)?;
    let (narrow, matching) = (narrow(lua, state)?, matching(lua, state)?);
    let (switch, replaced, fields) =
        (switch(lua, state)?, replaced(lua, state)?, fields(lua, state)?);
    let slot_of: Function = aggregates.trusted().get("slot_of")?;
    expression::register(vm, state, shared, (&ffi, &views, &leaves, slot_of), &exports)?;
    let compile = expression::compiler(vm, state, &exports)?;
    let narrowers = (declare, narrow, matching, switch, replaced, fields, compile, &exports);
    vm.trusted::<()>("evsel", EVSEL, narrowers)?;
    let looks = (views.get::<Function>("getters_of")?, nearest);
    let fields_lua = lua.clone();
    let load_fields = move || {
        let chunk = fields_lua.load(FIELDS).set_name("=perilune:fields");
        chunk.call::<Function>(looks.clone())
    };
    let parts = (
        &ffi,
        &views,
        leaves.get::<LightUserData>("emit")?,
        aggregates.trusted().get::<Function>("slot_of")?,
        leaf::emit_with(lua, shared)?,
        leaf::hides(lua, shared)?,
        table::emit_row(lua, shared)?,
        table::new_report(lua)?,
        count_of(lua, state)?,
        counted_instances(lua, state)?,
        control::stop(lua, state, shared)?,
        &exports,
    );
    vm.trusted::<()>("emit", EMIT, parts)?;
    let past = history::native(lua, state, shared, &aggregates.shared().budget)?;
    let slot_of: Function = aggregates.trusted().get("slot_of")?;
    vm.trusted::<()>("history", HISTORY, (&ffi, &views, past, slot_of, &exports))?;
    for name in ["evsel", "emit", "stop", "counters", "report", "expr_of", "exprs_of", "history"] {
        globals.set(name, exports.get::<Function>(name)?)?;
    }
    // A prompt has its own version; text that was typed there also runs in a monitor.
    globals.set("probe", exports.get::<Function>("evsel")?)?;
    // Copied into the sandbox's table directly, because scripts must not set globals there.
    for pair in globals.pairs::<String, Value>() {
        let (name, value) = pair?;
        vm.add_global(&name, value)?;
    }
    let (driver_lua, driver_ffi, driver_views) = (lua.clone(), ffi, views.clone());
    let load_driver = move |at: Addresses, failed: Function| {
        let pointer = |p: *const u8| LightUserData(p.cast_mut().cast());
        driver_lua.load(DRIVER).set_name("=perilune:driver").call::<Table>((
            &driver_ffi,
            &driver_views,
            pointer(at.slots.cast()),
            pointer(at.order.cast()),
            pointer(at.kinds.cast()),
            pointer(at.starts.cast()),
            failed,
        ))
    };
    let trusted = Trusted {
        exports,
        views,
        load_driver: Box::new(load_driver),
        load_fields: Box::new(load_fields),
    };
    Ok(Dispatch::new(lua.clone(), trusted, shared.clone()))
}

/// Returns the addresses of the leaves that views and `emit` call.
fn leaves(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, address) in [
        ("text_len", view::text_len as *const ()),
        ("glob", view::glob as *const ()),
        ("loc_at", view::loc_at as *const ()),
        ("loc_len", view::loc_len as *const ()),
        ("comm", leaf::comm as *const ()),
        ("own_comm", leaf::own_comm as *const ()),
        ("stack", leaf::stack_of as *const ()),
        ("function", leaf::function_of as *const ()),
        ("text", leaf::text_of as *const ()),
        ("text_size", leaf::text_size as *const ()),
        ("met", leaf::met as *const ()),
        ("emit", leaf::emit as *const ()),
        ("show", leaf::show as *const ()),
    ] {
        table.set(name, LightUserData(address.cast_mut().cast()))?;
    }
    Ok(table)
}

/// Creates the function that suggests fields of the event for a misspelt one.
fn near_field(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (role, name): (usize, String)| {
        let state = state.borrow();
        let evsels = state.evsels.borrow();
        let Some(format) = evsels.roles.get(role).and_then(|r| r.event.format()) else {
            let near = nearest(&name, OF_THE_SAMPLE.into_iter());
            return Ok(match near.is_empty() {
                true => format!("; it has {}", OF_THE_SAMPLE.join(", ")),
                false => did_you_mean(&near),
            });
        };
        let own: Vec<&str> =
            format.fields.iter().filter(|f| !f.common).map(|f| f.name.as_str()).collect();
        let fields = format.fields.iter().map(|f| f.name.as_str());
        let near = nearest(&name, fields.chain(OF_THE_SAMPLE));
        Ok(match near.is_empty() {
            true => format!("; it has {}", own.join(", ")),
            false => did_you_mean(&near),
        })
    })
}

fn declare(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, (selector, options): (Value, Table)| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "call evsel in init: no event is opened while a file is loaded");
        };
        match declarer.declare(&selector, &options) {
            Ok(Some((index, info))) => {
                (index, info_table(lua, &info)?, attrs(lua, &info)?).into_lua_multi(lua)
            }
            Ok(None) => Ok(MultiValue::new()),
            Err(why) => refuse(lua, &why),
        }
    })
}

fn refuse(lua: &Lua, why: &str) -> mlua::Result<MultiValue> {
    (Value::Nil, why).into_lua_multi(lua)
}

fn info_table(lua: &Lua, info: &EvselInfo) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("name", info.name.as_str())?;
    table.set("id", info.first)?;
    table.set("title", info.title.as_deref())?;
    table.set("count", info.count_only)?;
    table.set("names", info.names.clone())?;
    match info.rate {
        Some(SamplingRate::Frequency(hz)) => table.set("freq", hz)?,
        Some(SamplingRate::Period(events)) => table.set("period", events)?,
        None => {}
    }
    table.set("roles", (info.first..info.first + info.names.len()).collect::<Vec<_>>())?;
    Ok(table)
}

fn attrs(lua: &Lua, info: &EvselInfo) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in &info.attrs {
        match value {
            Some(value) => table.set(name.as_str(), value.as_str())?,
            None => table.set(name.as_str(), true)?,
        }
    }
    Ok(table)
}

fn narrow(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, (index, format, args): (usize, String, Variadic<Value>)| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "there is no run to filter");
        };
        match declarer.narrow(index, &format, &args) {
            Ok(()) => true.into_lua_multi(lua),
            Err(why) => refuse(lua, &why),
        }
    })
}

fn matching(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, (index, field, list): (usize, String, String)| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "there is no run to filter");
        };
        match declarer.matching(index, &field, &list) {
            Ok(()) => true.into_lua_multi(lua),
            Err(why) => refuse(lua, &why),
        }
    })
}

fn switch(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (index, on): (usize, bool)| {
        if let Some(declarer) = &state.borrow().declarer {
            declarer.switch(index, on);
        }
        Ok(())
    })
}

fn replaced(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, index: usize| {
        let state = state.borrow();
        let Some(declarer) = &state.declarer else {
            return refuse(lua, "there is no run whose handler can be replaced");
        };
        match declarer.replaced(index) {
            Ok(()) => true.into_lua_multi(lua),
            Err(why) => refuse(lua, &why),
        }
    })
}

fn fields(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |lua, index: usize| match &state.borrow().declarer {
        Some(declarer) => declarer.fields(lua, index),
        None => lua.create_table(),
    })
}

/// Creates the function that returns what a counting evsel added in this interval, on one instance
/// or on all, and the fraction of the time for which it counted.
fn count_of(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, (index, instance): (usize, Option<u32>)| {
        let state = state.borrow();
        let roles = state.evsels.borrow().indexes_of(index);
        let (mut value, mut share) = (0.0, 1.0f64);
        for count in roles.flat_map(|role| state.counts_of(role as u32, instance)) {
            value += count.value;
            share = share.min(count.share);
        }
        Ok((value, share))
    })
}

/// Creates the function that returns the CPUs or threads that have counts in this interval, in
/// ascending order.
fn counted_instances(lua: &Lua, state: &Rc<RefCell<ScriptState>>) -> mlua::Result<Function> {
    let state = state.clone();
    lua.create_function(move |_, ()| Ok(state.borrow().counted_instances()))
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;
    use crate::base::slot::Slot;
    use crate::script::vm::Limits;

    #[test]
    fn the_slot_in_lua_has_the_layout_of_the_slot_in_rust() {
        let vm = Vm::new(Limits { memory: 0 }).unwrap();
        let lua = vm.lua();
        let ffi: Table = lua.globals().get::<Function>("require").unwrap().call("ffi").unwrap();
        let nearest = lua.create_function(|_, ()| Ok("")).unwrap();
        let hooks = lua.create_table().unwrap();
        let context = LightUserData(std::ptr::null_mut());
        vm.trusted::<Table>("view", VIEW, (&ffi, leaves(lua).unwrap(), context, nearest, hooks))
            .unwrap();
        let ask = |what: &str| ffi.get::<Function>(what).unwrap();
        let size: usize = ask("sizeof").call("perilune_slot").unwrap();
        assert_eq!(size, size_of::<Slot>());
        for (field, offset) in [
            ("time", offset_of!(Slot, time)),
            ("raw", offset_of!(Slot, raw)),
            ("chain", offset_of!(Slot, chain)),
            ("ip", offset_of!(Slot, ip)),
            ("addr", offset_of!(Slot, addr)),
            ("period", offset_of!(Slot, period)),
            ("pid", offset_of!(Slot, pid)),
            ("tid", offset_of!(Slot, tid)),
            ("cpu", offset_of!(Slot, cpu)),
            ("ev", offset_of!(Slot, ev)),
            ("raw_size", offset_of!(Slot, raw_size)),
            ("chain_len", offset_of!(Slot, chain_len)),
        ] {
            let declared: usize = ask("offsetof").call(("perilune_slot", field)).unwrap();
            assert_eq!(declared, offset, "{field}");
        }
    }
}
