//! The guard: every call from Rust into Lua goes through it, so that a runaway script can be stopped.
//!
//! A call runs in a [`Phase`]. In a handler the first Ctrl-C is only a flag, looked at between batches; the second, or a
//! timer that sees the same call for longer than its share of CPU time, *arms*: a count hook that raises an error at
//! the next instruction. It stays armed until control is back in Rust, so no pcall of the script can swallow it. While
//! a file is loaded (also `init` and `filter`) the first Ctrl-C arms. The first Ctrl-C does not
//! stop a report; the second shortens its time limit. Tables that are not drawn by then are drawn
//! without the script.
//!
//! The hook is never set in normal running: an armed hook keeps LuaJIT out of its compiled code (1.9 ns an event become
//! 1650). Compiled loops notice it because LuaJIT is built with `LUAJIT_ENABLE_CHECKHOOK`; a build that
//! missed that is told apart by [`hook_stops_compiled_loops`].
//!
//! A C function that does not return to the interpreter cannot be stopped this way. Scripts have
//! none: long-running functions are written in Lua or poll `is_stopping` (`prelude/sandbox.lua`).
//! With `--unsafe` they have some, which only the third Ctrl-C ends.
//!
//! One guard at a time in a process, because signals are the process's; it belongs to the thread that made it. It keeps
//! its machine alive, so a function inside the machine refers to it by `Weak` only: otherwise neither is ever dropped.

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
use crate::sys::signal::{self, CpuTimer};
use crate::sys::slice;

mod hook;
pub mod pause;
mod stopped;

pub use hook::{NO_HOOK, hook_stops_compiled_loops};
pub use stopped::{Failure, Reason, Stopped};

/// Ticks of the timer come this often at least, in CPU time.
const TICK_MAX: Duration = Duration::from_millis(250);

/// Stack levels that are searched for the script's line; deeper ones are the runtime's.
const LEVELS_MAX: i32 = 250;

/// What Lua is doing for us.
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
    /// A line of a prompt: whoever typed it sees how long it takes, and the first Ctrl-C ends it.
    Line = 4,
}

/// CPU time that one call may take.
#[derive(Clone, Copy, Debug)]
pub struct CpuLimits {
    /// For a batch.
    pub handler: Duration,
    /// For loading a file, for `init` and for `filter`, each.
    pub load: Duration,
    /// For `interval` or `deinit`, and for drawing what they return, each.
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

/// Guards the calls into one machine.
pub struct Guard {
    limits: CpuLimits,
    /// Called after a call was stopped.
    recover: Option<Function>,
    /// Keeps the state alive that [`LUA`] points to.
    _lua: Lua,
    _timer: CpuTimer,
    _not_send: PhantomData<*mut ()>,
}

// What the signal handlers see. All of it is written by the guard's thread, on which the handlers run, too.
static LUA: AtomicPtr<ffi::lua_State> = AtomicPtr::new(ptr::null_mut());
static TAKEN: AtomicBool = AtomicBool::new(false);
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

/// What the hook saw when it first ran; `None` until then.
static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

struct Seen {
    place: Option<String>,
}

impl Guard {
    /// A guard with the usual limits; see [`Guard::with_limits`].
    pub fn new(vm: &Vm) -> anyhow::Result<Self> {
        Self::with_limits(vm, CpuLimits::default())
    }

    /// Guards `vm` on this thread. Interrupts count once [`signal::install`] was called, here.
    ///
    /// # Errors
    ///
    /// There is a guard already, or the kernel gives no timer.
    pub fn with_limits(vm: &Vm, limits: CpuLimits) -> anyhow::Result<Self> {
        if TAKEN.swap(true, SeqCst) {
            bail!("failed to guard Lua: another machine is guarded already");
        }
        // SAFETY: `on_tick` touches atomics, reads thread-locals that need no initialization, and
        // makes the system call sched_setattr and lua_sethook, see `arm`.
        let started = unsafe { CpuTimer::start(tick_of(limits), on_tick) };
        if started.is_err() {
            TAKEN.store(false, SeqCst);
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

    /// Calls `recover` after each call that is stopped: Lua code of the runtime that was running
    /// may have left flags set.
    pub fn recover_with(&mut self, recover: Function) {
        self.recover = Some(recover);
    }

    /// Calls into Lua. Inside of `call` a Rust function that Lua calls may come back here.
    ///
    /// # Errors
    ///
    /// What the script did wrong, or why it was stopped. After [`Failure::Stopped`] the machine is as usable as after
    /// any error.
    pub fn run<T>(
        &self,
        phase: Phase,
        call: impl FnOnce() -> mlua::Result<T>,
    ) -> Result<T, Failure> {
        if phase == Phase::Load && self.interrupted() {
            return Err(Stopped { reason: Reason::Interrupt, phase, place: None }.into());
        }
        let running = Running::enter(phase, self.limit(phase), tick_of(self.limits));
        let result = call();
        let armed = running.leave();
        let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Armed too late to be noticed: the call ended by itself, and its result counts.
        let Some(seen) = seen else {
            return result.map_err(|error| describe(&error).into());
        };
        let reason = match armed {
            BY_TIME => Reason::CpuTime(self.limit(phase)),
            _ => Reason::Interrupt,
        };
        // It only stores; a failure would be a failure to allocate, and nothing is allocated.
        let _ = self.recover.as_ref().map(|recover| recover.call::<()>(()));
        Err(Stopped { reason, phase, place: seen.place }.into())
    }

    /// Whether somebody has asked the run to end.
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
        TAKEN.store(false, SeqCst);
    }
}

/// Whether the current call is to stop. A leaf that may run for long polls this and returns early.
pub(super) fn is_stopping() -> bool {
    ARMED.load(SeqCst) != 0
}

/// Four ticks in the shortest limit, and no more than are needed.
fn tick_of(limits: CpuLimits) -> Duration {
    (limits.handler.min(limits.load).min(limits.report) / 4)
        .clamp(Duration::from_millis(1), TICK_MAX)
}

/// Marks that Lua runs, until it is dropped; then the hook is gone, whatever happened.
struct Running {
    outer: (u8, u32),
}

impl Running {
    fn enter(phase: Phase, limit: Duration, tick: Duration) -> Self {
        let outer = (PHASE.load(SeqCst), TICKS_MAX.load(SeqCst));
        TICKS.store(0, SeqCst);
        let ticks = limit.as_nanos().div_ceil(tick.as_nanos().max(1));
        TICKS_MAX.store(u32::try_from(ticks).unwrap_or(u32::MAX), SeqCst);
        HURRIED.store(false, SeqCst);
        PHASE.store(phase as u8, SeqCst);
        // A Ctrl-C that came before the line began stops it. An interrupt from here on arms by
        // itself.
        if phase == Phase::Line && signal::interrupts() > 0 {
            arm(BY_INTERRUPT);
        }
        Running { outer }
    }

    /// Ends the marking; gives what had armed the hook.
    fn leave(self) -> u8 {
        let armed = ARMED.load(SeqCst);
        drop(self);
        armed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // First the phase: from here on no handler arms. Then the hook.
        PHASE.store(0, SeqCst);
        disarm();
        TICKS.store(0, SeqCst);
        TICKS_MAX.store(self.outer.1, SeqCst);
        PHASE.store(self.outer.0, SeqCst);
    }
}

/// In the signal handler.
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

/// In the signal handler.
fn on_tick() {
    // A line or a handler that runs for long is nothing to go first with.
    slice::step_back();
    if PHASE.load(SeqCst) == 0 {
        return;
    }
    let armed = ARMED.load(SeqCst);
    if armed != 0 {
        // Once more: the first time may have hit LuaJIT while it was changing its dispatch tables itself.
        arm(armed);
    // The first tick may come at once, so a limit of n ticks has passed for sure at the one after n.
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
    // SAFETY: the guard keeps the state alive, and this is its thread. lua_sethook may be called from a signal handler
    // at any moment (LuaJIT's own front end does); it allocates nothing and touches no Lua stack. Taking the hook
    // away first makes LuaJIT write its dispatch tables again even when it believes that they are right.
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

/// The hook: notes where the script is, the first time, and raises an error, every time.
unsafe extern "C-unwind" fn stop(lua: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
    {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_none() {
            // SAFETY: LuaJIT calls a hook with the state that runs.
            *seen = Some(Seen { place: unsafe { script_place(lua) } });
        }
    }
    // SAFETY: as above. The error unwinds through this frame, which owns nothing any more.
    unsafe { ffi::luaL_error(lua, c"stopped".as_ptr()) };
}

/// `file.lua:31` of the innermost frame that is not the runtime's.
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
