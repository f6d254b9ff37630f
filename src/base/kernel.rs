//! Names of the kernel's numbers: system calls, errors, signals, task states, exit reasons.

pub mod exit_reason;
pub mod names;
