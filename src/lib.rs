//! perilune watches a Linux machine live; every monitor is a Lua script.

pub mod base;
pub mod decode;
