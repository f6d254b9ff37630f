//! Values and foreign text as bytes that are safe to show, pushed into a buffer without allocating.

pub mod digits;
pub mod escape;
pub mod field;
pub mod message;
