//! Bytes into values: records of a ring, raw tracepoint fields, clocks. Total: bad input is an `Err`, never a panic. No I/O.

pub mod btf;
pub mod c;
pub mod clock;
pub mod elf;
pub mod flags;
pub mod format;
pub mod print;
pub mod read;
pub mod record;
pub mod rest;
pub mod sample;
pub mod side_band;
pub mod words;

#[cfg(test)]
pub(crate) mod tests;
