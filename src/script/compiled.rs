//! What LuaJIT makes of a script, for `--stats` and `:cost`: see `prelude/compiled.lua`.

use anyhow::Context as _;
use mlua::Function;

use super::fault::ScriptError;
use super::host::Host;
use super::sampler::Sampler;
use crate::base::draw::Compiler;

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

    /// From now on samples whether the script is compiled or interpreted. Only where no other
    /// thread may take its signal.
    ///
    /// # Errors
    /// The kernel gives no timer.
    pub fn sample_interpreter(&mut self) -> anyhow::Result<()> {
        self.sampler = Some(Sampler::start(&self.vm).context("failed to sample LuaJIT")?);
        Ok(())
    }

    /// Places of the script that are not compiled, and why; nothing unless it is watched.
    pub fn uncompiled(&self) -> Vec<String> {
        self.told().map(|(lines, ..)| lines).unwrap_or_default()
    }

    /// What LuaJIT has done so far, as far as it is watched.
    pub fn compiler(&self) -> Compiler {
        let (_, traces, aborted, flushed) = self.told().unwrap_or_default();
        let interpreted = self.sampler.as_ref().and_then(Sampler::interpreted);
        Compiler { traces, aborted, flushed, interpreted }
    }

    fn told(&self) -> Option<(Vec<String>, u64, u64, u64)> {
        self.uncompiled.as_ref()?.call(()).ok()
    }
}
