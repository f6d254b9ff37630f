//! Instructions that let a program count one event in N.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, JumpIf};
use super::map_access::look_up;

/// The size of what a program needs to count one event in N, in words of 8 bytes: runs so far, runs
/// until the next one that counts, N (0 counts as 1), and runs that counted.
pub const RUN_BYTES: usize = 32;
const RUNS_AT: i16 = 0;
const LEFT_AT: i16 = 8;
const PERIOD_AT: i16 = 16;
/// Where the runs are that counted.
pub const COUNTED_AT: i16 = 24;

/// Returns instructions in front of a program that count its runs in `runs`, an array per CPU of
/// [`RUN_BYTES`], and end all runs but one in N. R1 is that of the program, R0 and R2 to R6 are
/// overwritten.
pub fn one_in(runs: i32) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let [last, end] = [(); 2].map(|()| code.label());
    code.copy(R6, R1);
    look_up(&mut code, runs, 0);
    code.jump_if(JumpIf::Equal, R0, 0, end);
    increment(&mut code, RUNS_AT);
    code.load(AccessSize::B8, R1, R0, LEFT_AT);
    code.jump_if(JumpIf::Less, R1, 2, last);
    code.add_constant(R1, -1);
    code.store(AccessSize::B8, R0, LEFT_AT, R1);
    code.set(R0, 1);
    code.exit();
    code.place(last);
    code.load(AccessSize::B8, R1, R0, PERIOD_AT);
    code.store(AccessSize::B8, R0, LEFT_AT, R1);
    increment(&mut code, COUNTED_AT);
    code.place(end);
    code.copy(R1, R6);
    code.finish()
}

/// Adds 1 to the word at an offset of the element in R0; changes R1.
fn increment(code: &mut Assembler, at: i16) {
    code.load(AccessSize::B8, R1, R0, at);
    code.add_constant(R1, 1);
    code.store(AccessSize::B8, R0, at, R1);
}
