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

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use mlua::{Function, Lua, ffi};

use super::fault::{TRUSTED, describe, file_name};
use super::vm::Vm;
use crate::sys::sched;
use crate::sys::signal::{self, CpuTimer};

mod hook;
pub mod pause;
mod stopped;

pub use hook::{NO_HOOK, hook_stops_compiled_loops};
pub use stopped::{Failure, Reason, Stopped};

/// Maximum period of the timer, in CPU time.
const TICK_MAX: Duration = Duration::from_millis(250);

/// Stack levels that are searched for the script's line; deeper ones belong to the runtime.
const LEVELS_MAX: i32 = 250;

/// Kind of Lua call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Handling a batch, a timer or a side-band record.
    Handler = 1,
    /// Running a file, `init` or `filter`.
    Load = 2,
    /// `interval`, `deinit`, and the functions that draw columns. The first Ctrl-C does not stop
    /// them, so that no report is lost.
    Report = 3,
    /// A line of a prompt: the user sees how long it takes, and the first Ctrl-C ends it.
    Line = 4,
}

/// Limits of CPU time per call.
#[derive(Clone, Copy, Debug)]
pub struct CpuLimits {
    /// A batch.
    pub handler: Duration,
    /// Loading a file, `init` and `filter`, each.
    pub load: Duration,
    /// `interval` or `deinit`, and drawing what they return, each.
    pub report: Duration,
}

impl Default for CpuLimits {
    fn default() -> Self {
        CpuLimits {
            handler: Duration::from_secs(1),
            load: Duration::from_secs(5),
            report: Duration::from_secs(5),
        }
    }
}

/// Guards the calls into one VM.
pub struct Guard {
    limits: CpuLimits,
    /// Called after a call was stopped.
    recover: Option<Function>,
    /// Keeps the state that [`LUA`] points to alive.
    _lua: Lua,
    _timer: CpuTimer,
    _not_send: PhantomData<*mut ()>,
}

// State of the signal handlers. Only the guard's thread writes it; the handlers run on that thread,
// too.
static LUA: AtomicPtr<ffi::lua_State> = AtomicPtr::new(ptr::null_mut());
static IN_USE: AtomicBool = AtomicBool::new(false);
/// A [`Phase`], or 0 while no Lua runs.
static PHASE: AtomicU8 = AtomicU8::new(0);
static TICKS: AtomicU32 = AtomicU32::new(0);
static TICKS_MAX: AtomicU32 = AtomicU32::new(u32::MAX);
/// Whether a second interrupt has shortened [`TICKS_MAX`].
static HURRIED: AtomicBool = AtomicBool::new(false);
/// 0, [`BY_INTERRUPT`] or [`BY_TIME`].
static ARMED: AtomicU8 = AtomicU8::new(0);
const BY_INTERRUPT: u8 = 1;
const BY_TIME: u8 = 2;

/// State that the hook recorded when it first ran; `None` until then.
static STOP_PLACE: Mutex<Option<StopPlace>> = Mutex::new(None);

struct StopPlace {
    place: Option<String>,
}

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
        // makes the system call sched_setattr and lua_sethook, see `arm`.
        let started = unsafe { CpuTimer::start(tick_of(limits), on_tick) };
        if started.is_err() {
            IN_USE.store(false, SeqCst);
        }
        let timer = started.context("failed to start the timer that stops runaway scripts")?;
        LUA.store(vm.main_state(), SeqCst);
        // SAFETY: `on_interrupt` touches atomics and calls lua_sethook, see `arm`.
        unsafe { signal::on_interrupt(Some(on_interrupt)) };
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
        let stop = STOP_PLACE.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Armed too late for the hook to run: the call ended by itself, and its result is valid.
        let Some(stop) = stop else {
            return result.map_err(|error| describe(&error).into());
        };
        let reason = match armed {
            BY_TIME => Reason::CpuTime(self.limit(phase)),
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
        LUA.store(ptr::null_mut(), SeqCst);
        IN_USE.store(false, SeqCst);
    }
}

/// Returns whether the current call is to stop. A leaf that may run for long polls this and returns
/// early.
pub(super) fn is_stopping() -> bool {
    ARMED.load(SeqCst) != 0
}

/// Returns a quarter of the shortest limit, between 1 ms and [`TICK_MAX`].
fn tick_of(limits: CpuLimits) -> Duration {
    (limits.handler.min(limits.load).min(limits.report) / 4)
        .clamp(Duration::from_millis(1), TICK_MAX)
}

/// Marks that Lua runs, until it is dropped, which always removes the hook.
struct RunningMark {
    outer: (u8, u32),
}

impl RunningMark {
    fn enter(phase: Phase, limit: Duration, tick: Duration) -> Self {
        let outer = (PHASE.load(SeqCst), TICKS_MAX.load(SeqCst));
        TICKS.store(0, SeqCst);
        let ticks = limit.as_nanos().div_ceil(tick.as_nanos().max(1));
        TICKS_MAX.store(u32::try_from(ticks).unwrap_or(u32::MAX), SeqCst);
        HURRIED.store(false, SeqCst);
        PHASE.store(phase as u8, SeqCst);
        // A Ctrl-C from before the line stops it. A later one arms by itself.
        if phase == Phase::Line && signal::interrupts() > 0 {
            arm(BY_INTERRUPT);
        }
        RunningMark { outer }
    }

    /// Ends the marking and returns what armed the hook.
    fn leave(self) -> u8 {
        let armed = ARMED.load(SeqCst);
        drop(self);
        armed
    }
}

impl Drop for RunningMark {
    fn drop(&mut self) {
        // Clear the phase first, so that no signal handler arms any more; then remove the hook.
        PHASE.store(0, SeqCst);
        disarm();
        TICKS.store(0, SeqCst);
        TICKS_MAX.store(self.outer.1, SeqCst);
        PHASE.store(self.outer.0, SeqCst);
    }
}

/// Runs in the signal handler.
fn on_interrupt(count: u32) {
    let phase = PHASE.load(SeqCst);
    let at_first = phase == Phase::Load as u8 || phase == Phase::Line as u8;
    if at_first || (phase == Phase::Handler as u8 && count >= 2) {
        arm(BY_INTERRUPT);
    } else if phase == Phase::Report as u8 && count >= 2 {
        // The report has one more tick to finish.
        HURRIED.store(true, SeqCst);
        TICKS_MAX.fetch_min(TICKS.load(SeqCst) + 1, SeqCst);
    }
}

/// Runs in the signal handler.
fn on_tick() {
    // A line or a handler that runs for long must not keep its raised priority.
    sched::suspend_boost();
    if PHASE.load(SeqCst) == 0 {
        return;
    }
    let armed = ARMED.load(SeqCst);
    if armed != 0 {
        // Arm again: the first time, LuaJIT may have been changing its dispatch tables itself.
        arm(armed);
    // The first tick may come at once, so a limit of n ticks has certainly passed at the tick after
    // n.
    } else if TICKS.fetch_add(1, SeqCst) >= TICKS_MAX.load(SeqCst) {
        arm(if HURRIED.load(SeqCst) { BY_INTERRUPT } else { BY_TIME });
    }
}

fn arm(reason: u8) {
    let lua = LUA.load(SeqCst);
    if lua.is_null() {
        return;
    }
    ARMED.store(reason, SeqCst);
    // SAFETY: the guard keeps the state alive, and this is its thread. lua_sethook may be called
    // from a signal handler at any moment (LuaJIT's own front end does); it allocates nothing and
    // touches no Lua stack. Removing the hook first makes LuaJIT rewrite its dispatch tables even
    // if it considers them up to date.
    unsafe {
        ffi::lua_sethook(lua, None, 0, 0);
        ffi::lua_sethook(lua, Some(stop), ffi::LUA_MASKCOUNT, 1);
    }
}

fn disarm() {
    let lua = LUA.load(SeqCst);
    if ARMED.swap(0, SeqCst) != 0 && !lua.is_null() {
        // SAFETY: as in `arm`.
        unsafe { ffi::lua_sethook(lua, None, 0, 0) };
    }
}

/// The hook: records the script's line at the first call, and raises an error at every call.
unsafe extern "C-unwind" fn stop(lua: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    {
        let mut first = STOP_PLACE.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            // SAFETY: LuaJIT calls a hook with the state that runs.
            *first = Some(StopPlace { place: unsafe { script_place(lua) } });
        }
    }
    // SAFETY: as above. The error unwinds through this frame, which owns nothing any more.
    unsafe { ffi::luaL_error(lua, c"stopped".as_ptr()) };
}

/// Returns `file.lua:31` of the innermost frame that is not the runtime's.
///
/// # Safety
///
/// `lua` is the running state.
unsafe fn script_place(lua: *mut ffi::lua_State) -> Option<String> {
    for level in 0..LEVELS_MAX {
        // SAFETY: lua_Debug is plain data, for which zeros are a value.
        let mut frame: ffi::lua_Debug = unsafe { std::mem::zeroed() };
        // SAFETY: the caller's promise; "Sl" writes into `frame` only.
        let source = unsafe {
            if ffi::lua_getstack(lua, level, &mut frame) == 0
                || ffi::lua_getinfo(lua, c"Sl".as_ptr(), &mut frame) == 0
            {
                return None;
            }
            CStr::from_ptr(frame.source).to_string_lossy()
        };
        let trusted = source.strip_prefix('=').is_some_and(|name| name.starts_with(TRUSTED));
        if frame.currentline > 0 && !trusted {
            let file = match source.strip_prefix(['@', '=']) {
                Some(path) => file_name(path).to_owned(),
                // The chunk is named by its own text; the short form is `[string "…"]`.
                // SAFETY: lua_getinfo has put a text that ends in NUL there.
                None => unsafe { CStr::from_ptr(frame.short_src.as_ptr()) }
                    .to_string_lossy()
                    .into_owned(),
            };
            return Some(format!("{file}:{}", frame.currentline));
        }
    }
    None
}
