//! Matches text: globs, Lua patterns, and names that resemble a misspelt one.

pub mod glob;
pub mod nearest;
pub mod pattern;
