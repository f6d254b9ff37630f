//! Aggregates and state that handlers add to, one call per event.
//!
//! Everything here is plain data behind a safe API; [`leaf`] makes it callable from compiled Lua.
//! An aggregate does not allocate per event in steady state, is bounded in bytes, and counts what
//! the bound evicted. Evicted rows are folded into one, so totals stay exact: a table that
//! overflowed is coarser, never wrong.
//!
//! Keys consist of [`word::Word`]s: a number or the id of an interned string, distinguished by the
//! bits themselves.

use strings::Marks;

pub mod budget;
pub mod event_copy;
pub mod heat_map;
pub mod hist;
pub mod history;
pub mod keys;
pub mod kv;
pub mod latency;
pub mod leaf;
pub mod owners;
pub mod pending;
pub mod rate;
pub mod sql;
pub mod states;
pub mod strings;
pub mod sum;
pub mod weight;
pub mod word;

/// A table that reports print: read, cleared for the next interval, and merged over a run.
pub trait Aggregate: leaf::Leaf {
    /// Removes all content but keeps the memory. Loss counts are not reset.
    fn clear(&mut self);
    /// Adds everything in `other`, a table of the same shape.
    fn merge(&mut self, other: &Self);
    /// Returns an empty table of the same shape.
    fn same_shape(&self) -> Self;
    /// Marks the strings and numbers in use.
    fn mark(&self, marks: &mut Marks);
}
