//! Names of the kernel's numbers: system calls, errors, signals, task states, exit reasons; and its
//! half of the address space.

pub mod address;
pub mod exit_reason;
pub mod names;
