//! The runtime's own Lua, `prelude/*.lua`: chunks that have every library, `ffi` included.

use mlua::chunk::ChunkMode;
use mlua::{FromLuaMulti, Function, IntoLua, IntoLuaMulti, LightUserData, Lua, Table};

use super::script_error::TRUSTED;

/// The tables that the preludes of the API share.
#[derive(Clone)]
pub(in crate::script) struct TrustedLua {
    lua: Lua,
    ffi: Table,
    /// The result of `view.lua`.
    pub(in crate::script) views: Table,
    /// Functions and tables that preludes set, for each other and for the host.
    pub(in crate::script) exports: Table,
}

impl TrustedLua {
    /// Creates the tables, with the views that `view.lua` makes of `native`.
    ///
    /// # Errors
    /// The prelude failed.
    pub(in crate::script) fn new(
        lua: &Lua,
        view: &str,
        native: &Table,
    ) -> mlua::Result<TrustedLua> {
        let ffi: Table = lua.globals().get::<Function>("require")?.call("ffi")?;
        let views = run(lua, "view", view, (&ffi, native))?;
        Ok(TrustedLua { lua: lua.clone(), ffi, views, exports: lua.create_table()? })
    }

    /// Returns the Lua state.
    pub(in crate::script) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Runs a prelude of the API: `local ffi, view, native, exports = ...`. `native` is its Rust
    /// half.
    ///
    /// # Errors
    /// The prelude failed.
    pub(in crate::script) fn run<R: FromLuaMulti>(
        &self,
        name: &str,
        source: &str,
        native: impl IntoLua,
    ) -> mlua::Result<R> {
        run(&self.lua, name, source, (&self.ffi, &self.views, native, &self.exports))
    }

    /// Returns a function that a prelude has exported.
    ///
    /// # Errors
    /// No prelude has.
    pub(in crate::script) fn export(&self, name: &str) -> mlua::Result<Function> {
        self.exports.get(name)
    }
}

/// Runs a chunk with every library; it is called `perilune:NAME` in tracebacks, which omit it.
///
/// # Errors
/// The chunk failed to compile or run.
pub(in crate::script) fn run<R: FromLuaMulti>(
    lua: &Lua,
    name: &str,
    source: &str,
    args: impl IntoLuaMulti,
) -> mlua::Result<R> {
    let name = format!("={TRUSTED}{name}");
    lua.load(source).set_name(name).set_mode(ChunkMode::Text).call(args)
}

/// Returns the function `fill(template, parts)` with which preludes generate code.
///
/// # Errors
/// Lua is out of memory.
pub(in crate::script) fn template_function(lua: &Lua) -> mlua::Result<Function> {
    run(lua, "template", include_str!("../prelude/template.lua"), ())
}

/// Returns the address of a leaf or of memory, for the FFI.
pub(in crate::script) fn address<T>(of: *const T) -> LightUserData {
    LightUserData(of.cast_mut().cast())
}
