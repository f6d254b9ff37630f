//! Probes whether this binary's LuaJIT checks the hook inside compiled loops.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use mlua::{Lua, ffi};

/// Returns whether a loop that LuaJIT has compiled checks the hook. Runs a probe once, in well
/// under 2 ms.
///
/// The probe is a compiled loop that calls a function which sets the hook half way; the loop either
/// stops there or runs to its end.
pub fn hook_stops_compiled_loops() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| probe().unwrap_or(false))
}

/// Message of a binary for which [`hook_stops_compiled_loops`] is false.
pub const NO_HOOK: &str = "this build cannot stop a script's endless loop (only the third Ctrl-C \
     can): LuaJIT lacks its hook check; build inside the checkout, or set \
     TARGET_FLAGS=-DLUAJIT_ENABLE_CHECKHOOK";

const PROBE: &str = "
local ffi, turn, state = ...
turn = ffi.cast('void (*)(void *, int32_t)', turn)
for i = 1, 4000 do turn(state, i) end
";
const PROBE_SETS_AT: i32 = 2000;

fn probe() -> mlua::Result<bool> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn turn(lua: *mut ffi::lua_State, i: i32) {
        LAST.store(i.unsigned_abs(), SeqCst);
        if i == PROBE_SETS_AT {
            // SAFETY: the state belongs to the caller; lua_sethook may be called at any time, see
            // `arm`.
            unsafe { ffi::lua_sethook(lua, Some(give_up), ffi::LUA_MASKCOUNT, 1) };
        }
    }
    unsafe extern "C-unwind" fn give_up(lua: *mut ffi::lua_State, _: *mut ffi::lua_Debug) {
        // SAFETY: LuaJIT calls a hook with the running state; this frame owns nothing.
        unsafe { ffi::luaL_error(lua, c"stopped".as_ptr()) };
    }
    // SAFETY: the chunk above is the only code that runs in this state.
    let lua = unsafe { Lua::unsafe_new() };
    let mut state = ptr::null_mut();
    // SAFETY: the closure only copies the pointer.
    unsafe { lua.exec_raw::<()>((), |s| state = s) }?;
    let ffi_library: mlua::Value = lua.load("return require 'ffi'").eval()?;
    let pointer = |p: *mut std::ffi::c_void| mlua::LightUserData(p);
    let stopped = lua
        .load(PROBE)
        .call::<()>((ffi_library, pointer(turn as *mut _), pointer(state.cast())))
        .is_err();
    Ok(stopped && LAST.load(SeqCst) == PROBE_SETS_AT.unsigned_abs())
}
