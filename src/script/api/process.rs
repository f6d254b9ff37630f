//! Functions that read a process: `fd_path process variable_name futex_holder`.

use std::cell::RefCell;

use mlua::{Function, MultiValue, Value};

use super::registry::Registry;
use crate::base::text::number::parse_u64;
use crate::symbol::ProcessVariables;
use crate::sys::clock::monotonic_ns;
use crate::sys::futex;
use crate::sys::process_files::{file_of, status_of};

/// Adds the functions.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    api.globals.set("fd_path", fd_path(api)?)?;
    api.globals.set("process", process(api)?)?;
    api.globals.set("variable_name", variable_name(api)?)?;
    api.globals.set("futex_holder", futex_holder(api)?)
}

/// Returns `fd_path(pid, fd)`: the file and the time of the run; nil if it cannot be read.
fn fd_path(api: &Registry<'_>) -> mlua::Result<Function> {
    let (is_live, shared) = (api.liveness(), api.shared.clone());
    api.lua().create_function(move |lua, (pid, fd): (f64, f64)| {
        if !is_live() || !(0.0..=f64::from(i32::MAX)).contains(&fd) {
            return Ok(MultiValue::from_iter([Value::Nil]));
        }
        let Ok(path) = file_of(pid as u32, fd as u32) else {
            return Ok(MultiValue::from_iter([Value::Nil]));
        };
        let time = shared.with(|context| context.clock.since_start(monotonic_ns()));
        Ok(MultiValue::from_iter([Value::String(lua.create_string(path)?), Value::Number(time)]))
    })
}

/// Returns `process(pid)`: a table; nil if there is no such process, and in a replay.
fn process(api: &Registry<'_>) -> mlua::Result<Function> {
    let (is_live, shared) = (api.liveness(), api.shared.clone());
    api.lua().create_function(move |lua, pid: f64| {
        if !is_live() {
            return Ok(None);
        }
        let Ok(status) = status_of(pid as u32) else { return Ok(None) };
        let table = lua.create_table_with_capacity(0, 4)?;
        table.set("args", lua.create_string(status.arguments)?)?;
        table.set("uid", status.uid)?;
        table.set("ppid", status.ppid)?;
        table.set("time", shared.with(|context| context.clock.since_start(monotonic_ns())))?;
        Ok(Some(table))
    })
}

/// Returns `variable_name(pid, address)`: the name; nil if the memory has none, and in a replay.
/// Process 0 is the kernel.
fn variable_name(api: &Registry<'_>) -> mlua::Result<Function> {
    let (is_live, shared) = (api.liveness(), api.shared.clone());
    let variables = RefCell::<ProcessVariables>::default();
    api.lua().create_function(move |_, (pid, address): (f64, Value)| {
        let Some(address) = address_of(&address).filter(|_| is_live()) else { return Ok(None) };
        if pid != 0.0 {
            return Ok(variables.borrow_mut().name(pid as u32, address));
        }
        let symbols = shared.with(|context| context.symbols.clone());
        let found = symbols.find(address);
        Ok(found.map(|symbol| match symbol.offset {
            0 => symbol.name.to_owned(),
            offset => format!("{}+{offset:#x}", symbol.name),
        }))
    })
}

/// Returns `futex_holder(pid, address, pi)`: the thread and the time of the run; nil if it is not
/// known, and in a replay.
fn futex_holder(api: &Registry<'_>) -> mlua::Result<Function> {
    let (is_live, shared) = (api.liveness(), api.shared.clone());
    api.lua().create_function(move |_, (pid, address, pi): (f64, Value, Option<bool>)| {
        let address = address_of(&address).filter(|_| is_live());
        let read = address.map(|address| futex::holder(pid as u32, address, pi == Some(true)));
        let Some(Ok(Some(tid))) = read else { return Ok((None, None)) };
        let time = shared.with(|context| context.clock.since_start(monotonic_ns()));
        Ok((Some(tid), Some(time)))
    })
}

/// Returns the address that a script passes: a number, negative for the upper half of the address
/// space, or its text.
fn address_of(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(address) => Some(*address as u64),
        Value::Number(address) if *address < 0.0 => Some(*address as i64 as u64),
        Value::Number(address) => Some(*address as u64),
        Value::String(address) => parse_u64(&address.to_string_lossy()),
        _ => None,
    }
}
