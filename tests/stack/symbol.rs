//! Names of user addresses on the running kernel: programs with known stacks call getppid from a
//! fixed chain of functions, and the built command must print exactly that chain.

#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

mod heap;
mod kernel;
mod languages;
mod lives;
mod made;
mod programs;
mod stacks;
mod stripped;
mod tables;

use programs::Program;
use stacks::Watched;

/// Returns whether live tests can run; prints the reason if not, which is a failure on a build
/// machine.
pub(crate) fn can_watch(what: &str) -> bool {
    // SAFETY: it has no preconditions and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let can = root && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    assert!(can || std::env::var_os("CI").is_none(), "{what}: needs root on x86-64 or arm64");
    if !can {
        eprintln!("skipped: {what}: needs root on x86-64 or arm64");
    }
    can
}

/// The call chain of every program, innermost first.
pub(crate) const CHAIN: [&str; 4] = ["three", "two", "one", "main"];

#[test]
fn a_chain_of_functions_is_printed_with_their_names() {
    if !can_watch("a chain in C") {
        return;
    }
    let program = Program::c(programs::CHAIN, &[]);
    let watched = Watched::run(&[], &[program.path()]);
    watched.is_only(&CHAIN, 10);
    let frame = &watched.stacks[0][0];
    assert_eq!(frame.dso, program.path());
    assert!(frame.offset > 0);
}
