//! An event as scripts receive it: its slot, its call chain, and the values of its fields.

pub mod chain;
pub mod slot;
pub mod value;
