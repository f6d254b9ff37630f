//! Bytes into values: records of a ring, raw tracepoint fields, clocks. Total: bad input is an `Err`, never a panic. No I/O.

pub mod format;
