//! Function `emit`, which prints events and rows now: see `prelude/emit.lua`.

use mlua::{Function, Lua, LuaString, Table};

use super::registry::Registry;
use crate::base::report::draw::{DetailPosition, Report};
use crate::script::context::emit::EmitExtras;
use crate::script::context::leaf;
use crate::script::context::record::slot_at;
use crate::script::context::shared::SharedContext;
use crate::script::vm::cell::named;
use crate::script::vm::guard::pause::off_the_clock;
use crate::script::vm::trusted::address;

const EMIT: &str = include_str!("../prelude/emit.lua");

/// Adds the function.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let (lua, shared) = (api.lua(), api.shared);
    let native = lua.create_table()?;
    native.set("leaf", address(leaf::emit as *const ()))?;
    native.set("slot_of_kept", api.slot_of_kept()?)?;
    native.set("emit_with", emit_with(lua, shared)?)?;
    native.set("hides", hides(lua, shared)?)?;
    native.set("emit_row", emit_row(lua, shared)?)?;
    api.trusted.run::<()>("emit", EMIT, native)?;
    api.publish(&["emit"])
}

/// Creates `emit_with(address, extra, text, number, offset)`, which prints the event of a slot with
/// further fields (or nil), with this text (or nil, which prints its fields), and as part of the
/// detail of that number (or nil).
fn emit_with(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    type Asked = (f64, Option<Table>, Option<LuaString>, Option<f64>, Option<f64>);
    lua.create_function(move |_, (address, extra, text, number, offset): Asked| {
        let extra = extra.as_ref().map(named).transpose()?.unwrap_or_default();
        let text = text.as_ref().map(LuaString::as_bytes);
        let detail = number.zip(offset);
        let detail =
            detail.map(|(n, ns)| DetailPosition { number: n as u64, offset_ns: ns as i64 });
        // SAFETY: only `emit.lua` calls this, with the slot under the cursor, one that a pending
        // state keeps or the one that a history has read.
        let (slot, raw, chain) = unsafe { slot_at(address) };
        let extras = EmitExtras { text: text.as_deref(), extra: &extra, detail };
        // A long detail is not an endless loop of a script.
        off_the_clock(|| shared.with(|context| context.emit(slot, raw, chain, extras)));
        Ok(())
    })
}

/// Creates `hides(address)`: whether the event of a slot is caused by perilune and not printed.
fn hides(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, address: f64| {
        // SAFETY: only `emit.lua` calls this, with the address of a slot that it may read.
        let (slot, _, _) = unsafe { slot_at(address) };
        Ok(shared.with(|context| context.hides(slot)))
    })
}

/// Creates `emit_row(row, time)`, which prints a row at a time of the run, or at its current time
/// if `time` is negative.
fn emit_row(lua: &Lua, shared: &SharedContext) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |_, (row, time): (Table, f64)| {
        let row = Report::Row(named(&row)?);
        shared.with(|context| {
            let time = if time < 0.0 { context.now } else { time };
            let stamp = context.stamp(time);
            context.printed += 1;
            context.out.report(stamp, std::slice::from_ref(&row));
        });
        Ok(())
    })
}
