//! Reports what LuaJIT compiles of a script, for `--stats` and `:cost`: see `prelude/compiled.lua`.

use anyhow::Context as _;
use mlua::Function;

use super::fault::ScriptError;
use super::host::Host;
use super::sampler::Sampler;
use crate::base::draw::JitStats;

const COMPILED: &str = include_str!("prelude/compiled.lua");

impl Host {
    /// Starts to record LuaJIT's attempts to compile.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn watch_compiler(&mut self) -> anyhow::Result<()> {
        let report = self.vm.trusted::<Function>("compiled", COMPILED, ());
        self.uncompiled =
            Some(report.map_err(ScriptError::from).context("failed to watch LuaJIT")?);
        Ok(())
    }

    /// Starts to sample whether the script is compiled or interpreted. No other thread of the
    /// process may take the profiler's signal.
    ///
    /// # Errors
    /// The signal handler of the profiler cannot be changed.
    pub fn sample_interpreter(&mut self) -> anyhow::Result<()> {
        self.sampler = Some(Sampler::start(&self.vm).context("failed to sample LuaJIT")?);
        Ok(())
    }

    /// Returns the script lines that are not compiled, with the reason; nothing unless LuaJIT is
    /// watched.
    pub fn uncompiled(&self) -> Vec<String> {
        self.compiler_report().map(|(lines, ..)| lines).unwrap_or_default()
    }

    /// Returns LuaJIT's counters as far as it is watched.
    pub fn compiler(&self) -> JitStats {
        let (_, traces, aborted, flushed) = self.compiler_report().unwrap_or_default();
        let interpreted = self.sampler.as_ref().and_then(Sampler::interpreted);
        JitStats { traces, aborted, flushed, interpreted }
    }

    fn compiler_report(&self) -> Option<(Vec<String>, u64, u64, u64)> {
        self.uncompiled.as_ref()?.call(()).ok()
    }
}
