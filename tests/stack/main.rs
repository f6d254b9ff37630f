//! Stacks of real programs on the running kernel: unwound, and with the names of their functions.

mod symbol;
mod unwind;
