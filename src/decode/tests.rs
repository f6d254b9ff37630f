//! Records as the kernel writes them against the decoders.

pub(crate) mod encode;
mod kernel;
mod records;
mod samples;
