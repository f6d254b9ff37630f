//! BPF programs as plain data: an assembler, and the programs that perilune loads. Nothing here
//! calls the kernel; [`crate::sys::bpf`] loads the result.
//!
//! Programs are short and made for one run, so they need no compiler and no type information.

pub mod argument_record;
pub mod assembler;
pub mod bucket;
pub mod call_chain;
pub mod count;
pub mod expression;
pub mod function_calls;
pub mod instruction;
pub mod integer;
pub mod key;
mod map_access;
mod memory_use;
pub mod pair;
mod record_output;
pub mod record_text;
pub mod task_scope;
pub mod thinning;
pub mod user_text;
