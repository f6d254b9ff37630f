//! Values as text: numbers, units, lists and stacks, parsed and formatted, and untrusted text
//! escaped for display; most functions append to a buffer.

pub mod cpulist;
pub mod digits;
pub mod escape;
pub mod fault;
pub mod field;
pub mod lua;
pub mod message;
pub mod number;
pub mod stack_style;
pub mod unescape;
pub mod units;
