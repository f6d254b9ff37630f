//! Functions that read /proc of a process: `fd_path process`.

use mlua::{Function, MultiValue, Value};

use super::registry::Registry;
use crate::sys::clock::monotonic_ns;
use crate::sys::process_files::{file_of, status_of};

/// Adds the functions.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    api.globals.set("fd_path", fd_path(api)?)?;
    api.globals.set("process", process(api)?)
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
