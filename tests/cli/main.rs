//! The command line: output and exit code of every kind of call, mostly with a runtime that opens
//! nothing; and the README and one-liners, which are calls of the built command.

mod bench;
mod bundled;
mod cases;
mod closed;
mod counts;
mod expr;
mod flame;
mod help;
mod hostile;
#[path = "../event/one_liner.rs"]
mod one_liner;
mod one_liners;
mod options;
mod other_tools;
mod output_files;
mod pages;
mod readme;
mod refusals;
mod replay;
mod replayed_runs;
mod top;
mod workload;
