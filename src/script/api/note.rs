//! Function `note`: see `prelude/note.lua`.

use mlua::LuaString;

use super::registry::Registry;

const NOTE: &str = include_str!("../prelude/note.lua");

/// Adds the function.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let shared = api.shared.clone();
    let print = api.lua().create_function(move |_, text: LuaString| {
        shared.with(|context| context.script_note(&text.to_string_lossy()));
        Ok(())
    })?;
    api.trusted.run::<()>("note", NOTE, print)?;
    api.publish(&["note"])
}
