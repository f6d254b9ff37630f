//! The `perilune` command: passes argv to the command line, and its result to the exit code.

use std::process::ExitCode;
use std::time::Instant;

use perilune::cli::{machine_runtime::MachineRuntime, main_with};
use perilune::sys::streams::{stderr, stdout};
use perilune::sys::{backtraces, signal};

fn main() -> ExitCode {
    backtraces::omit();
    // Does not fail for valid signal numbers; on failure the default actions stay.
    let _ = signal::install_requests();
    let mut machine = MachineRuntime::new(Instant::now());
    let argv: Vec<_> = std::env::args_os().collect();
    ExitCode::from(main_with(&argv, &mut machine, &mut stdout(), &mut stderr()))
}
