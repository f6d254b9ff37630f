//! Tests of the decoders with records in the kernel's layout.

pub(crate) mod encode;
mod kernel;
mod long_records;
mod records;
pub(crate) mod samples;
