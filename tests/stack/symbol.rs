//! Names of user addresses on the running kernel: programs with known stacks call getppid from a
//! fixed chain of functions, and the built command must print exactly that chain.

pub(crate) mod heap;
pub(crate) mod jit_code;
pub(crate) mod kernel;
pub(crate) mod languages;
pub(crate) mod process_lifetime;
mod programs;
mod stacks;
pub(crate) mod stripped;
pub(crate) mod tables;

use crate::live::live_tests;
use programs::Program;
use stacks::Watched;

live_tests! {
    a_chain_of_functions_is_printed_with_their_names,
}

/// The call chain of every program, innermost first.
pub(crate) const CHAIN: [&str; 4] = ["three", "two", "one", "main"];

fn a_chain_of_functions_is_printed_with_their_names() {
    let program = Program::c(programs::CHAIN, &[]);
    let watched = Watched::run(&[], &[program.path()]);
    watched.is_only(&CHAIN, 10);
    let frame = &watched.stacks[0][0];
    assert_eq!(frame.dso, program.path());
    assert!(frame.offset > 0);
}
