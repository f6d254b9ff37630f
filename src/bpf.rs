//! BPF programs as plain data: an assembler, and the programs that perilune loads. Nothing here
//! calls the kernel; [`crate::sys::bpf`] loads the result.
//!
//! Programs are short and made for one event each, from its format, so they need no compiler and no
//! type information.

pub mod assembler;
pub mod user_text;
