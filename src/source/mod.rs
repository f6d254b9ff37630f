//! Where records come from: the kernel's rings (`live`) or a text file (`replay`). Both fill batches of slots.

use crate::base::chain::Room;
use crate::base::slot::{BATCH, Slot};
use crate::decode::rest::Registers;
use crate::decode::side_band::MappedFile;

pub mod attr;
pub mod batch;
mod chains;
pub mod change;
pub mod clocks;
pub mod counts;
mod cpu_times;
mod decoder;
mod delivery;
mod fill;
mod groups;
mod hole;
pub mod hotplug;
mod ids;
mod left_out;
pub mod live;
mod merged;
mod narrow;
pub mod open;
pub mod probes;
pub mod replay;
mod rings;
mod side;
pub mod trial;
mod watched_tasks;

pub use batch::Batch;

/// What takes what a source yields, in the order it has to be handled.
pub trait Sink {
    /// Slots for handlers.
    ///
    /// # Safety
    /// Until this returns, the pointers of each slot are null or lead to as many bytes and entries
    /// as it says, which nothing changes; and its record is at least as long as the format of its
    /// role says.
    unsafe fn dispatch(&mut self, batch: &mut Batch);
    /// A record that is no event of the script: applied after everything dispatched before it.
    fn side(&mut self, side: Side<'_>);
    /// Walks a task's user stack, of which a sample brought a copy: pushes where it was, then the address that each caller
    /// returns to. Mappings are as the records handed on before say.
    fn unwind(&mut self, stack: &UserStack<'_>, frames: &mut Room<'_>);
    /// The process of a thread, as the records handed on before say: of a task that has ended a
    /// sample has no number.
    fn process_of(&self, _tid: u32) -> Option<u32> {
        None
    }
    /// Whether the run is to end: a source looks between batches.
    fn stopped(&self) -> bool;
}

/// What a sample brings for its user stack to be unwound: it was walked by nobody yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserStack<'a> {
    /// Process.
    pub pid: u32,
    /// Registers of user space, those of [`crate::sys::registers`].
    pub registers: Registers<'a>,
    /// The stack from its pointer upwards, as far as it was copied.
    pub bytes: &'a [u8],
}

/// A record beside the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side<'a> {
    /// Nanoseconds since the run began.
    pub time: f64,
    /// CPU whose ring held it.
    pub cpu: u32,
    /// Whether the CPU is watched and, of a record of a task, so is the task; of a fork, the
    /// parent.
    pub watched: bool,
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
    /// A file, or memory without one, was mapped to be executed.
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
        /// Which file it is.
        file: MappedFile<'a>,
        /// The file's path as the process calls it, or a name such as `[vdso]`.
        path: &'a [u8],
    },
    /// The kernel made code: a BPF program, a trampoline.
    Made {
        /// First address.
        address: u64,
        /// Bytes.
        length: u32,
        /// Whether it is a BPF program.
        bpf: bool,
        /// Its name.
        name: &'a [u8],
    },
    /// The ring was full: records are missing between `from` and `to`. Where rings are merged this comes before anything that
    /// other rings hold of that time; how many are missing is told later.
    Hole {
        /// Time of the last record before, nanoseconds since the run began.
        from: f64,
        /// Time of the first one after, or when there was room again.
        to: f64,
    },
    /// So many records are missing, between `from` and this record's time.
    Lost {
        /// Records.
        count: u64,
        /// Time of the last record before, nanoseconds since the run began.
        from: f64,
        /// Whether some of them told of tasks and their mappings.
        of_tasks: bool,
    },
    /// Records of tasks are missing from a ring that no event writes to.
    TasksLost,
    /// The kernel throttled an event, or let it go on.
    Throttled,
    /// A record that cannot be decoded.
    Undecodable,
}
