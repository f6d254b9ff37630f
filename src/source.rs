//! Sources of records: the kernel's rings, or a text file. Both fill batches of slots.
//!
//! - [`request`] is what a source is asked for; [`sink`] and [`batch`] are what it yields.
//! - [`open`] decides what to open and how: attributes, filters, groups, rings.
//! - `ring` is one CPU's ring: its state, and how its records become slots.
//! - [`live`] is the loop over all rings: merge, side-band records, losses, counters, changes.
//! - [`counting`] counts events in the kernel instead of reading records.
//! - [`replay`] reads a recording.
//!
//! Imports point from `live` to `open` to `ring` to the interface.

pub mod batch;
mod chain_memory;
pub mod counted_chain;
pub mod counted_row;
pub mod counting;
pub mod counts;
pub mod live;
pub mod open;
pub mod replay;
pub mod request;
mod ring;
pub mod side_record;
pub mod sink;
pub mod written_pairs;

pub use batch::Batch;
pub use sink::{SideBand, SideBandKind, Sink, UserStack};
