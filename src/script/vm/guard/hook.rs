//! The hook that stops a call, and the signal handlers that set it.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mlua::ffi;

use super::phase::Phase;
use crate::script::vm::script_error::{TRUSTED, file_name};
use crate::sys::sched;
use crate::sys::signal;

/// Stack levels that are searched for the script's line; deeper ones belong to the runtime.
const LEVELS_MAX: i32 = 250;

// State of the signal handlers. Only the guard's thread writes it; the handlers run on that thread,
// too.
static LUA: AtomicPtr<ffi::lua_State> = AtomicPtr::new(ptr::null_mut());
/// A [`Phase`], or 0 while no Lua runs.
static PHASE: AtomicU8 = AtomicU8::new(0);
pub(super) static TICKS: AtomicU32 = AtomicU32::new(0);
pub(super) static TICKS_MAX: AtomicU32 = AtomicU32::new(u32::MAX);
/// Whether a second interrupt has shortened [`TICKS_MAX`].
static HURRIED: AtomicBool = AtomicBool::new(false);
/// 0, [`BY_INTERRUPT`] or [`BY_TIME`].
static ARMED: AtomicU8 = AtomicU8::new(0);
const BY_INTERRUPT: u8 = 1;
pub(super) const BY_TIME: u8 = 2;

/// State that the hook recorded when it first ran; `None` until then.
static STOP_PLACE: Mutex<Option<StopPlace>> = Mutex::new(None);

/// Where a call was stopped.
pub(super) struct StopPlace {
    /// The innermost line of the script.
    pub(super) place: Option<String>,
}

/// Sets the state on which the hook is set; null for none.
pub(super) fn hook_on(lua: *mut ffi::lua_State) {
    LUA.store(lua, SeqCst);
}

/// Returns where the hook stopped the last call, if it did.
pub(super) fn take_stop() -> Option<StopPlace> {
    STOP_PLACE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns whether the current call is to stop. A leaf that may run for long polls this and returns
/// early.
pub(in crate::script) fn is_stopping() -> bool {
    ARMED.load(SeqCst) != 0
}

/// Marks that Lua runs, until it is dropped, which always removes the hook.
pub(super) struct RunningMark {
    outer: (u8, u32),
}

impl RunningMark {
    /// Begins the marking, with this limit of CPU time.
    pub(super) fn enter(phase: Phase, limit: Duration, tick: Duration) -> Self {
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
    pub(super) fn leave(self) -> u8 {
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
pub(super) fn on_interrupt(count: u32) {
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
pub(super) fn on_tick() {
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
        // SAFETY: `lua` is the guarded state, which lives until it is removed from `LUA`;
        // lua_sethook may be called at any time.
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
    // SAFETY: LuaJIT passes the state that runs, in which an error may be raised. It unwinds
    // through this frame, which owns nothing any more.
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
        // SAFETY: `lua` is the running state; "Sl" writes into `frame` only.
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
