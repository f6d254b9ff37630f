//! Records as the kernel writes them against the decoders.

mod encode;
mod kernel;
mod records;
mod samples;
