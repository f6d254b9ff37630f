//! Disables backtraces of errors, regardless of `RUST_BACKTRACE`.

use std::backtrace::Backtrace;

const VARIABLE: &str = "RUST_LIB_BACKTRACE";

/// Disables backtraces of errors: the code that LuaJIT compiles has no unwind information, and the
/// unwinder aborts the process when it reaches such code. Commands inherit the variable unchanged.
/// Does nothing if another thread runs, which may read the environment.
pub fn omit() {
    if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
        return;
    }
    let given = std::env::var_os(VARIABLE);
    // SAFETY: this is the only thread, as was just read.
    unsafe { std::env::set_var(VARIABLE, "0") };
    // The standard library reads the variable once.
    drop(Backtrace::capture());
    // SAFETY: this is still the only thread, since nothing here starts another one.
    unsafe {
        match given {
            Some(value) => std::env::set_var(VARIABLE, value),
            None => std::env::remove_var(VARIABLE),
        }
    }
}
