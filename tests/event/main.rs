//! `decode::format` and `event`, compared with the running kernel; and what the program makes from
//! its events: types, new monitors, the commands of the documents. Most tests need root.
//!
//! A separate test program: its tests ignore signals and set timers of their process.
// Tests print how much of the kernel they compared.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod compare;
mod documents;
mod filters;
mod formats;
mod here;
mod kernel;
#[path = "../kernel/live.rs"]
mod live;
mod live_print;
mod names;
mod new_monitor;
mod one_liner;
mod passes;
mod print;
mod types;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    live::run([
        documents::tests(),
        filters::tests(),
        formats::tests(),
        live_print::tests(),
        names::tests(),
        new_monitor::tests(),
        passes::tests(),
        print::tests(),
        types::tests(),
    ])
}
