//! Types and functions that every layer shares, independent of the kernel and of Lua.
//!
//! - [`event`]: an event as scripts receive it: slot, call chain, field values.
//! - [`report`]: what a run prints, as data: rows, histograms, stacks, coverage.
//! - [`text`]: numbers, units, lists and stacks as text, and the escapes of untrusted text.
//! - [`matching`]: globs, Lua patterns, suggestions for misspelt names.
//! - [`kernel`]: names of the kernel's numbers.

pub mod event;
pub mod kernel;
pub mod matching;
pub mod report;
pub mod text;
