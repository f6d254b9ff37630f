//! Formats values and untrusted text safely for display; most functions append to a buffer.

pub mod digits;
pub mod escape;
pub mod field;
pub mod message;
pub mod unescape;
