//! The command line against a runtime that opens nothing: what each way of calling says and how it ends.

mod bench;
mod bundled;
mod closed;
mod help;
mod hostile;
mod options;
mod refusals;
mod workload;
