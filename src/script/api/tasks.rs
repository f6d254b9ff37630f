//! Functions that name tasks: `comm ancestry`.

use mlua::Function;

use super::registry::Registry;
use crate::base::text::message::utf8;
use crate::base::text::unescape::until_nul;

/// Adds the functions.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    api.globals.set("comm", comm(api)?)?;
    api.globals.set("ancestry", ancestry(api)?)
}

fn comm(api: &Registry<'_>) -> mlua::Result<Function> {
    let shared = api.shared.clone();
    api.lua().create_function(move |lua, tid: f64| {
        let name = shared.with(|context| context.comm_of(tid as u32, 0));
        lua.create_string(if tid == 0.0 { b"swapper" } else { until_nul(&name) })
    })
}

fn ancestry(api: &Registry<'_>) -> mlua::Result<Function> {
    let shared = api.shared.clone();
    api.lua().create_function(move |_, tid: f64| {
        Ok(shared.with(|context| {
            let line = context.tasks.ancestry(tid as u32);
            let names: Vec<String> = line
                .map(|tid| {
                    let name = context.comm_of(tid, 0);
                    utf8(until_nul(&name)).into_owned()
                })
                .collect();
            names.join(" <- ")
        }))
    })
}
