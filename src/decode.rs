//! Decodes records of a ring, raw tracepoint fields and clocks. Total: invalid input is an `Err`,
//! never a panic. No I/O.

pub mod btf;
pub mod c;
pub mod clock;
pub mod ctypes;
pub mod cursor;
pub mod data_source;
pub mod dwarf;
pub mod elf;
pub mod flags;
pub mod format;
pub mod operand;
pub mod print;
pub mod read;
pub mod record;
pub mod record_attrs;
pub mod sample;
pub mod sample_extra;
pub mod side_band;
pub mod unset;

#[cfg(test)]
pub(crate) mod tests;
