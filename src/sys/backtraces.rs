//! Errors without backtraces, whatever `RUST_BACKTRACE` says.

use std::backtrace::Backtrace;

const VARIABLE: &str = "RUST_LIB_BACKTRACE";

/// Lets errors have no backtrace from here on: the code that LuaJIT compiles has no unwind
/// information, and the unwinder aborts the process when it reaches such code. Must be called
/// before another thread starts.
pub fn omit() {
    let given = std::env::var_os(VARIABLE);
    // SAFETY: no other thread reads the environment meanwhile. Commands inherit it unchanged.
    unsafe { std::env::set_var(VARIABLE, "0") };
    // The standard library reads the variable once.
    drop(Backtrace::capture());
    // SAFETY: still, no other thread reads the environment.
    unsafe {
        match given {
            Some(value) => std::env::set_var(VARIABLE, value),
            None => std::env::remove_var(VARIABLE),
        }
    }
}
