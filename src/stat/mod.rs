//! Aggregates and state: what handlers add to, one call an event.
//!
//! Everything here is plain data behind a safe API; [`leaf`] makes it callable from compiled Lua. An
//! aggregate never allocates per event in steady state, has a bound in bytes, and counts what the bound
//! dropped; folding keeps totals true, so a table that overflowed is coarser, never wrong.
//!
//! Keys are [`word::Word`]s: a number or the id of an interned string, told apart by the bits themselves.

use strings::Marks;

pub mod budget;
pub mod heat_map;
pub mod hist;
pub mod history;
pub mod kept;
pub mod keys;
pub mod kv;
pub mod latency;
pub mod leaf;
pub mod pending;
pub mod rate;
pub mod states;
pub mod strings;
pub mod sum;
pub mod word;

/// A table that reports cover: read, cleared for the next interval, and added up over a run.
pub trait Aggregate: leaf::Leaf {
    /// Starts over, with the memory kept; counts of what was dropped go on.
    fn clear(&mut self);
    /// Adds everything in `other`, a table of the same shape.
    fn merge(&mut self, other: &Self);
    /// An empty table of the same shape.
    fn same_shape(&self) -> Self;
    /// Marks the strings and numbers in use.
    fn mark(&self, marks: &mut Marks);
}
