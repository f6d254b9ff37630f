//! Samples whether LuaJIT runs compiled code or interprets.
//!
//! LuaJIT's own profiler takes a sample every 4 ms of CPU time of the process (SIGPROF). The signal
//! handler stores LuaJIT's state, and the interpreter reports it at its next instruction. Compiled
//! code is not changed.

use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mlua::{Lua, ffi};

use crate::script::vm::Vm;
use crate::sys::signal;

/// Minimum number of samples; with fewer, the interpreted fraction would be noise.
const ENOUGH: u64 = 25;

/// One sample every 4 ms.
const MODE: &std::ffi::CStr = c"i4";

/// Samples in machine code and in the interpreter.
static COMPILED: AtomicU64 = AtomicU64::new(0);
static INTERPRETED: AtomicU64 = AtomicU64::new(0);

type Callback = unsafe extern "C-unwind" fn(*mut c_void, *mut ffi::lua_State, c_int, c_int);

// SAFETY: as luajit.h declares them; documented in ext_profiler.html.
unsafe extern "C-unwind" {
    fn luaJIT_profile_start(
        lua: *mut ffi::lua_State,
        mode: *const c_char,
        callback: Callback,
        data: *mut c_void,
    );
    fn luaJIT_profile_stop(lua: *mut ffi::lua_State);
}

/// Takes samples until it is dropped. A process has one LuaJIT profiler.
pub(in crate::script) struct Sampler {
    lua: Lua,
    state: *mut ffi::lua_State,
    _not_send: PhantomData<*mut ()>,
}

impl Sampler {
    /// Starts sampling. No other thread of the process may take its signals.
    ///
    /// # Errors
    /// The signal handler of the profiler cannot be changed.
    pub(in crate::script) fn start(vm: &Vm) -> io::Result<Sampler> {
        COMPILED.store(0, Relaxed);
        INTERPRETED.store(0, Relaxed);
        let sampler =
            Sampler { lua: vm.lua().clone(), state: vm.main_state(), _not_send: PhantomData };
        let no_data = std::ptr::null_mut();
        // SAFETY: the state lives as long as `lua`; the mode is static, and the callback takes no
        // data.
        unsafe { luaJIT_profile_start(sampler.state, MODE.as_ptr(), sampled, no_data) };
        // Both signal handlers change the dispatch tables of LuaJIT's interpreter.
        signal::keep_apart(libc::SIGPROF)?;
        Ok(sampler)
    }

    /// Returns the fraction of the script's time that was interpreted; `None` with too few samples.
    pub(in crate::script) fn interpreted(&self) -> Option<f64> {
        let (compiled, interpreted) = (COMPILED.load(Relaxed), INTERPRETED.load(Relaxed));
        let all = compiled + interpreted;
        (all >= ENOUGH).then(|| interpreted as f64 / all as f64)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        debug_assert!(self.lua.used_memory() > 0, "the state is kept alive");
        // SAFETY: `start` began with this state, which `lua` keeps alive.
        unsafe { luaJIT_profile_stop(self.state) };
    }
}

/// Called by LuaJIT's interpreter with the state that the signal handler stored: `N` is machine
/// code, `I` the interpreter, `C` a C function or the host, `G` the collector, `J` the compiler.
unsafe extern "C-unwind" fn sampled(
    _: *mut c_void,
    _: *mut ffi::lua_State,
    samples: c_int,
    state: c_int,
) {
    let count = match u8::try_from(state) {
        Ok(b'N') => &COMPILED,
        Ok(b'I') => &INTERPRETED,
        _ => return,
    };
    count.fetch_add(u64::from(samples.unsigned_abs()), Relaxed);
}
