//! What `decode::format` and `event` say, against the running kernel. Needs root for the most part.
// A test that cannot run says so.
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
