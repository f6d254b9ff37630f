//! The guard: every call from Rust into Lua goes through it, so that a runaway script can be
//! stopped.
//!
//! A call runs in a [`Phase`]. In a handler the first Ctrl-C only sets a flag, which is read
//! between batches. The second, or a timer that sees the same call exceed its limit of CPU time,
//! *arms* the guard: it sets a count hook that raises an error at the next instruction. The hook
//! stays armed until control is back in Rust, so no pcall of the script can swallow the error.
//! While a file is loaded (also in `init` and `filter`) the first Ctrl-C arms. The first Ctrl-C
//! does not stop a report; the second shortens its time limit. Tables that are not drawn by then
//! are drawn without the script.
//!
//! The hook is not set in normal operation: an armed hook keeps LuaJIT out of its compiled code
//! (1650 ns per event instead of 1.9). Compiled loops notice it because LuaJIT is built with
//! `LUAJIT_ENABLE_CHECKHOOK`; [`hook_stops_compiled_loops`] detects a build without it.
//!
//! A C function that does not return to the interpreter cannot be stopped this way. Scripts have
//! none: long-running functions are written in Lua or poll `is_stopping` (`prelude/sandbox.lua`).
//! With `--unsafe` they have some, which only the third Ctrl-C ends.
//!
//! A process has one guard at a time, because signals belong to the process; the guard belongs to
//! the thread that made it. It keeps its VM alive, so a function inside the VM must refer to it by
//! `Weak` only: otherwise neither is ever dropped.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use anyhow::{Context as _, bail};
use mlua::{Function, Lua};

use super::Vm;
use super::script_error::describe;
use crate::sys::signal::{self, CpuTimer};
use hook::RunningMark;

pub(super) mod hook;
mod hook_check;
pub mod pause;
mod phase;
mod stopped;

pub use hook_check::{NO_HOOK, hook_stops_compiled_loops};
pub use phase::{CpuLimits, Phase};
pub use stopped::{Failure, Reason, Stopped};

/// Maximum period of the timer, in CPU time.
const TICK_MAX: Duration = Duration::from_millis(250);

/// Guards the calls into one VM.
pub struct Guard {
    limits: CpuLimits,
    /// Called after a call was stopped.
    recover: Option<Function>,
    /// Keeps the state that the hook is set on alive.
    _lua: Lua,
    _timer: CpuTimer,
    _not_send: PhantomData<*mut ()>,
}

static IN_USE: AtomicBool = AtomicBool::new(false);

impl Guard {
    /// Creates a guard with the default limits.
    ///
    /// # Errors
    ///
    /// As [`Guard::with_limits`].
    pub fn new(vm: &Vm) -> anyhow::Result<Self> {
        Self::with_limits(vm, CpuLimits::default())
    }

    /// Guards `vm` on this thread. Interrupts are counted once this thread has called
    /// [`signal::install`].
    ///
    /// # Errors
    ///
    /// A guard exists already, or the kernel provides no timer.
    pub fn with_limits(vm: &Vm, limits: CpuLimits) -> anyhow::Result<Self> {
        if IN_USE.swap(true, SeqCst) {
            bail!("failed to guard Lua: another VM is already guarded");
        }
        // SAFETY: `on_tick` touches atomics, reads thread-locals that need no initialization, and
        // makes the system call sched_setattr and lua_sethook, see `hook::arm`.
        let started = unsafe { CpuTimer::start(tick_of(limits), hook::on_tick) };
        if started.is_err() {
            IN_USE.store(false, SeqCst);
        }
        let timer = started.context("failed to start the timer that stops runaway scripts")?;
        hook::hook_on(vm.main_state());
        // SAFETY: `on_interrupt` touches atomics and calls lua_sethook, see `hook::arm`.
        unsafe { signal::on_interrupt(Some(hook::on_interrupt)) };
        Ok(Guard {
            limits,
            recover: None,
            _lua: vm.lua().clone(),
            _timer: timer,
            _not_send: PhantomData,
        })
    }

    /// Sets a function to call after each stopped call: the runtime's Lua code that was running may
    /// have left flags set.
    pub fn recover_with(&mut self, recover: Function) {
        self.recover = Some(recover);
    }

    /// Calls into Lua. Within `call`, a Rust function that Lua calls may call `run` again.
    ///
    /// # Errors
    ///
    /// The script's error, or why it was stopped. After [`Failure::Stopped`] the VM is as usable as
    /// after any error.
    pub fn run<T>(
        &self,
        phase: Phase,
        call: impl FnOnce() -> mlua::Result<T>,
    ) -> Result<T, Failure> {
        if phase == Phase::Load && self.interrupted() {
            return Err(Stopped { reason: Reason::Interrupt, phase, place: None }.into());
        }
        let running = RunningMark::enter(phase, self.limit(phase), tick_of(self.limits));
        let result = call();
        let armed = running.leave();
        let stop = hook::take_stop();
        // Armed too late for the hook to run: the call ended by itself, and its result is valid.
        let Some(stop) = stop else {
            return result.map_err(|error| describe(&error).into());
        };
        let reason = match armed {
            hook::BY_TIME => Reason::CpuTime(self.limit(phase)),
            _ => Reason::Interrupt,
        };
        // Cannot fail: it only stores, and allocates nothing.
        let _ = self.recover.as_ref().map(|recover| recover.call::<()>(()));
        Err(Stopped { reason, phase, place: stop.place }.into())
    }

    /// Returns whether the user has interrupted the run.
    pub fn interrupted(&self) -> bool {
        signal::interrupts() > 0
    }

    fn limit(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Handler => self.limits.handler,
            Phase::Load => self.limits.load,
            Phase::Report => self.limits.report,
            Phase::Line => Duration::MAX,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: nothing runs any more.
        unsafe { signal::on_interrupt(None) };
        hook::hook_on(std::ptr::null_mut());
        IN_USE.store(false, SeqCst);
    }
}

/// Returns a quarter of the shortest limit, between 1 ms and [`TICK_MAX`].
fn tick_of(limits: CpuLimits) -> Duration {
    (limits.handler.min(limits.load).min(limits.report) / 4)
        .clamp(Duration::from_millis(1), TICK_MAX)
}
