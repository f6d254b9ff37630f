//! `decode::format` and `event`, compared with the running kernel. Most tests need root.
//!
//! A separate test program: its tests ignore signals and set timers of their process.
// Tests print how much of the kernel they compared.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod compare;
mod filters;
mod formats;
mod here;
mod kernel;
#[path = "../kernel/live.rs"]
mod live;
mod live_print;
mod names;
mod passes;
mod print;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    live::run([
        filters::tests(),
        formats::tests(),
        live_print::tests(),
        names::tests(),
        passes::tests(),
        print::tests(),
    ])
}
