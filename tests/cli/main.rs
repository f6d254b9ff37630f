//! The command line with a runtime that opens nothing: output and exit code of every kind of call.

mod bench;
mod bundled;
mod closed;
mod help;
mod hostile;
mod options;
mod refusals;
mod workload;
