//! Where records come from: the kernel's rings (`live`) or a text file (`replay`). Both fill batches of slots.

use crate::base::slot::{BATCH, Slot};

pub mod attr;
pub mod batch;
pub mod counts;
mod fill;
mod ids;
pub mod live;
mod narrow;
pub mod open;
pub mod replay;
mod side;

pub use batch::Batch;

/// What takes what a source yields, in the order it has to be handled.
pub trait Sink {
    /// Slots for handlers. Their pointers are good until this returns.
    fn dispatch(&mut self, batch: &mut Batch);
    /// A record that is no event of the script: applied after everything dispatched before it.
    fn side(&mut self, side: Side<'_>);
    /// Whether the run is to end: a source looks between batches.
    fn stopped(&self) -> bool;
}

/// A record beside the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side<'a> {
    /// Nanoseconds since the run began.
    pub time: f64,
    /// CPU whose ring held it.
    pub cpu: u32,
    /// What happened.
    pub what: Happening<'a>,
}

/// What a side-band record says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Happening<'a> {
    /// A task was born.
    Fork {
        /// The new process and thread.
        pid: u32,
        /// The new thread.
        tid: u32,
        /// The parent's process.
        parent_pid: u32,
        /// The parent's thread.
        parent_tid: u32,
    },
    /// A task has a new name, by exec or by itself.
    Comm {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// The name, without NUL.
        comm: &'a [u8],
        /// Whether by exec.
        exec: bool,
    },
    /// A task ended.
    Exit {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// A file was mapped.
    Mmap {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Start of the mapping.
        address: u64,
        /// Its length.
        length: u64,
        /// Offset in the file.
        offset: u64,
        /// The file.
        path: &'a [u8],
    },
    /// The ring was full: so many records are missing, between `from` and this record's time.
    Lost {
        /// Records.
        count: u64,
        /// Time of the last record before, nanoseconds since the run began.
        from: f64,
    },
    /// The kernel throttled an event, or let it go on.
    Throttled,
    /// A record that cannot be decoded.
    Undecodable,
}
