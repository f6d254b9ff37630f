//! The prompt: sessions over recordings, over the kernel, and on a terminal.

use std::process::{Command, Stdio};

pub(crate) mod cgroups;
pub(crate) mod counts;
pub(crate) mod files;
pub(crate) mod live;
pub(crate) mod mistakes;
mod piped;
pub(crate) mod sessions;
pub(crate) mod typed;
pub(crate) mod user;

/// Prepares the prompt of a command, with pipes and a fixed environment.
fn piped(mut command: Command) -> Command {
    command.arg("repl").env_remove("PERILUNE_PATH").env("NO_COLOR", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Like [`piped`], for the built command.
fn prompt() -> Command {
    piped(Command::new(env!("CARGO_BIN_EXE_perilune")))
}
