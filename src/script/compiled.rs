//! What of a script LuaJIT cannot compile, for `--stats` and `:cost`: see `prelude/compiled.lua`.

use anyhow::Context as _;
use mlua::Function;

use super::fault::ScriptError;
use super::host::Host;

const COMPILED: &str = include_str!("prelude/compiled.lua");

impl Host {
    /// From now on keeps what LuaJIT says of its attempts to compile.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn watch_compiler(&mut self) -> anyhow::Result<()> {
        let told = self.vm.trusted::<Function>("compiled", COMPILED, ());
        self.uncompiled = Some(told.map_err(ScriptError::from).context("failed to watch LuaJIT")?);
        Ok(())
    }

    /// Places of the script that are not compiled, and why; nothing unless it is watched.
    pub fn uncompiled(&self) -> Vec<String> {
        let told = self.uncompiled.as_ref().map(|told| told.call::<Vec<String>>(()));
        told.and_then(Result::ok).unwrap_or_default()
    }
}
