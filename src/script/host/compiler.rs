//! Watches what LuaJIT compiles of a script, for `--stats` and `:cost`: see `prelude/compiled.lua`.

use anyhow::Context as _;
use mlua::Function;

use crate::base::report::run_stats::JitStats;
use crate::script::vm::Vm;
use crate::script::vm::sampler::Sampler;
use crate::script::vm::script_error::ScriptError;

const COMPILED: &str = include_str!("../prelude/compiled.lua");

/// The watch over LuaJIT's compiler.
#[derive(Default)]
pub(super) struct CompilerWatch {
    /// Reports the attempts to compile, if they are recorded.
    report: Option<Function>,
    sampler: Option<Sampler>,
}

impl CompilerWatch {
    /// Starts to record LuaJIT's attempts to compile.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub(super) fn record(&mut self, vm: &Vm) -> anyhow::Result<()> {
        let report = vm.trusted::<Function>("compiled", COMPILED, ());
        self.report = Some(report.map_err(ScriptError::from).context("failed to watch LuaJIT")?);
        Ok(())
    }

    /// Starts to sample whether the script is compiled or interpreted.
    ///
    /// # Errors
    /// The signal handler of the profiler cannot be changed.
    pub(super) fn sample(&mut self, vm: &Vm) -> anyhow::Result<()> {
        self.sampler = Some(Sampler::start(vm).context("failed to sample LuaJIT")?);
        Ok(())
    }

    /// Returns the script lines that are not compiled, with the reason.
    pub(super) fn uncompiled(&self) -> Vec<String> {
        self.report().map(|(lines, ..)| lines).unwrap_or_default()
    }

    /// Returns LuaJIT's counters.
    pub(super) fn stats(&self) -> JitStats {
        let (_, traces, aborted, flushed) = self.report().unwrap_or_default();
        let interpreted = self.sampler.as_ref().and_then(Sampler::interpreted);
        JitStats { traces, aborted, flushed, interpreted }
    }

    fn report(&self) -> Option<(Vec<String>, u64, u64, u64)> {
        self.report.as_ref()?.call(()).ok()
    }
}
