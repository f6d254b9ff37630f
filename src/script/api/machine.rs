//! Functions that describe the machine: `machine sysctl cpu_times pressure cgroups
//! block_device`.

use mlua::{Function, IntoLua as _, Lua, Table, Value};

use super::registry::Registry;
use crate::base::matching::glob;
use crate::sys::cgroup;
use crate::sys::clock::tsc_khz;
use crate::sys::cpu_model::{CpuModel, split_lock_detection};
use crate::sys::cpu_time::away_times;
use crate::sys::cpus::online_cpus;
use crate::sys::machine;
use crate::sys::pressure::{self, Stall};

/// Adds the functions.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let lua = api.lua();
    api.globals.set("machine", machine_table(lua)?)?;
    api.globals.set("sysctl", lua.create_function(|lua, name: String| sysctl(lua, &name))?)?;
    api.globals.set("cgroups", cgroups(api)?)?;
    api.globals.set("block_device", block_device(api)?)?;
    api.globals.set("cpu_times", cpu_times(api)?)?;
    api.globals.set("pressure", pressure(api)?)
}

fn machine_table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("kernel", machine::kernel_release())?;
    table.set("cpus", online_cpus().len())?;
    table.set("page_size", machine::page_size())?;
    // Measured or read only on access.
    let lazy = lua.create_table()?;
    let measured = |lua: &Lua, (_, name): (Value, String)| match name.as_str() {
        "tsc_khz" => tsc_khz().map(|khz| khz as f64).into_lua(lua),
        "cpu" => cpu_model(lua)?.into_lua(lua),
        "split_lock_detect" => split_lock_detection().into_lua(lua),
        _ => Ok(Value::Nil),
    };
    lazy.set("__index", lua.create_function(measured)?)?;
    lazy.set("__metatable", false)?;
    table.set_metatable(Some(lazy))?;
    Ok(table)
}

fn cpu_model(lua: &Lua) -> mlua::Result<Table> {
    let model = CpuModel::read();
    let table = lua.create_table()?;
    table.set("vendor", model.vendor)?;
    table.set("family", model.family)?;
    table.set("model", model.model)?;
    table.set("name", model.name)?;
    Ok(table)
}

/// Returns the value of a sysctl, as a number if it is one; nil if there is none.
fn sysctl(lua: &Lua, name: &str) -> mlua::Result<Value> {
    let path = name.replace('.', "/");
    if path.split('/').any(str::is_empty) {
        return Ok(Value::Nil);
    }
    let Some(text) = machine::sysctl::<String>(&path) else { return Ok(Value::Nil) };
    match text.parse() {
        Ok(number) => Ok(Value::Number(number)),
        Err(_) => text.into_lua(lua),
    }
}

/// Returns the paths of the cgroups that a glob matches, or nil and the reason; the text itself if
/// it is not a glob, or for a recording.
fn cgroups(api: &Registry<'_>) -> mlua::Result<Function> {
    let is_live = api.liveness();
    api.lua().create_function(move |lua, pattern: String| {
        let found = match is_live() && glob::is_glob(&pattern) {
            true => cgroup::matching_at_most(&pattern),
            false => Ok(vec![pattern]),
        };
        Ok(match found {
            Ok(paths) => (Some(lua.create_sequence_from(paths)?), None),
            Err(why) => (None, Some(format!("{why:#}"))),
        })
    })
}

/// Returns major and minor number of a block device by name, and the disk of a partition; nil if
/// there is none, and for a recording, whose machine may have other numbers.
fn block_device(api: &Registry<'_>) -> mlua::Result<Function> {
    let is_live = api.liveness();
    api.lua().create_function(move |_, name: String| {
        let found = is_live().then(|| machine::block_device(&name)).flatten();
        let (major, minor) = found.unzip();
        Ok((major, minor, found.and_then(machine::disk_of_partition)))
    })
}

/// Returns idle and stolen time of each CPU; empty for a recording.
fn cpu_times(api: &Registry<'_>) -> mlua::Result<Function> {
    let is_live = api.liveness();
    api.lua().create_function(move |lua, ()| {
        let table = lua.create_table()?;
        let times = if is_live() { away_times() } else { Vec::new() };
        for (cpu, away) in times {
            let of_cpu = lua.create_table_with_capacity(0, 2)?;
            of_cpu.set("idle", away.idle_ns as f64)?;
            of_cpu.set("stolen", away.stolen_ns as f64)?;
            table.set(cpu, of_cpu)?;
        }
        Ok(table)
    })
}

/// Returns `pressure(resource)`: a table with `some` and `full`; nil if the kernel does not measure
/// it, and in a replay.
fn pressure(api: &Registry<'_>) -> mlua::Result<Function> {
    let is_live = api.liveness();
    api.lua().create_function(move |lua, resource: String| {
        if !is_live() {
            return Ok(None);
        }
        let Ok(found) = pressure::pressure(&resource) else { return Ok(None) };
        let table = lua.create_table_with_capacity(0, 2)?;
        table.set("some", stall(lua, found.some)?)?;
        table.set("full", found.full.map(|full| stall(lua, full)).transpose()?)?;
        Ok(Some(table))
    })
}

fn stall(lua: &Lua, stall: Stall) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 4)?;
    for (name, average) in ["avg10", "avg60", "avg300"].into_iter().zip(stall.averages) {
        table.set(name, average)?;
    }
    table.set("total", stall.total_us as f64 * 1e3)?;
    Ok(table)
}
