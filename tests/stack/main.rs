//! Stacks of real programs on the running kernel: unwound, and with the names of their functions.

#[path = "../kernel/live.rs"]
mod live;
mod symbol;
mod unwind;

use std::process::ExitCode;

fn main() -> ExitCode {
    live::run([
        unwind::tests(),
        symbol::tests(),
        symbol::heap::tests(),
        symbol::kernel::tests(),
        symbol::languages::tests(),
        symbol::jit_code::tests(),
        symbol::process_lifetime::tests(),
        symbol::stripped::tests(),
        symbol::tables::tests(),
    ])
}
