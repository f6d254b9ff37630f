//! `decode::format` and `event`, compared with the running kernel. Most tests need root.
//!
//! A separate test program: its tests ignore signals and set timers of their process.
// A test that cannot run reports it.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod compare;
mod filters;
mod formats;
mod here;
mod kernel;
mod live_print;
mod names;
mod passes;
mod print;
mod workload;
