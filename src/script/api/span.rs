//! Function `span`, which adds to the timeline: see `prelude/span.lua`.

use mlua::{Function, Lua, LuaString, Table};

use super::registry::Registry;
use crate::script::context::shared::SharedContext;
use crate::script::context::timeline::ScriptSpan;
use crate::script::vm::cell::named;

const SPAN: &str = include_str!("../prelude/span.lua");

/// Adds the function.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let native = api.lua().create_table()?;
    let shared = api.shared.clone();
    let enabled = api.lua().create_function(move |_, ()| Ok(shared.has_timeline()))?;
    native.set("enabled", enabled)?;
    native.set("add", add(api.lua(), api.shared)?)?;
    api.trusted.run::<()>("span", SPAN, native)?;
    api.publish(&["span"])
}

/// Creates `add(name, track, end, length, tid, cpu, fields)`; an end before the run is its current
/// time.
fn add(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    type Given = (LuaString, Option<LuaString>, f64, f64, f64, u32, Option<Table>);
    lua.create_function(move |_, (name, track, end, length, tid, cpu, fields): Given| {
        let fields = fields.as_ref().map(named).transpose()?.unwrap_or_default();
        let (name, track) = (name.as_bytes(), track.as_ref().map(LuaString::as_bytes));
        shared.with(|context| {
            context.add_span(&ScriptSpan {
                name: &name,
                track: track.as_deref().unwrap_or(&name),
                end: if end < 0.0 { context.now } else { end },
                length,
                tid: tid as i64 as u32,
                cpu,
                fields: &fields,
            });
        });
        Ok(())
    })
}
