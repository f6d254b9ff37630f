//! The output of a source: batches of slots, and the side-band records between them.

use super::batch::Batch;
use super::side_record::SideRecord;
use crate::base::event::chain::ChainBuilder;
use crate::decode::sample_extra::SampledRegisters;
use crate::decode::side_band::FileIdentity;

/// Receives what a source yields, in the order in which it must be handled.
pub trait Sink {
    /// Handles a batch of slots.
    ///
    /// # Safety
    /// Until this returns, each slot's pointers must be null or valid for the number of bytes and
    /// entries given in the slot, and the memory must not change. Each record must be at least as
    /// long as the format of its role.
    unsafe fn dispatch(&mut self, batch: &mut Batch);
    /// Applies a record that is not an event of the script. It takes effect after everything
    /// dispatched before it.
    fn side(&mut self, side: SideBand<'_>);
    /// Notes that all records up to a time (`CLOCK_MONOTONIC`) were handed over.
    fn handed_over(&mut self, _until_ns: u64) {}
    /// Unwinds a task's user stack from the copy in a sample: pushes the instruction pointer, then
    /// the return address of each caller. Mappings are those of the records handed over before.
    fn unwind(&mut self, stack: &UserStack<'_>, frames: &mut ChainBuilder<'_>);
    /// Returns the process of a thread according to the records handed over before. A sample of a
    /// task that has ended does not contain it.
    fn process_of(&self, _tid: u32) -> Option<u32> {
        None
    }
    /// Returns whether the run must end. A source checks this between batches.
    fn stopped(&self) -> bool;
}

/// Data of a sample from which a user stack that the kernel did not walk is unwound.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserStack<'a> {
    /// Process.
    pub pid: u32,
    /// User-space registers, in the set of [`crate::sys::registers`].
    pub registers: SampledRegisters<'a>,
    /// Copy of the stack from the stack pointer upwards.
    pub bytes: &'a [u8],
}

/// A side-band record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SideBand<'a> {
    /// Nanoseconds since the run began.
    pub time: f64,
    /// CPU of the ring that held the record.
    pub cpu: u32,
    /// Whether the CPU is watched and, if the record is about a task, the task too; for a fork, the
    /// parent.
    pub watched: bool,
    /// Content of the record.
    pub what: SideBandKind<'a>,
}

impl SideBand<'_> {
    /// Returns that a record of a CPU's ring could not be decoded.
    pub(super) fn undecodable(time: f64, cpu: u32) -> SideBand<'static> {
        SideBand { time, cpu, watched: true, what: SideBandKind::Undecodable }
    }
}

/// Content of a side-band record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SideBandKind<'a> {
    /// A task was created.
    Fork {
        /// Process of the new thread.
        pid: u32,
        /// The new thread.
        tid: u32,
        /// The parent's process.
        parent_pid: u32,
        /// The parent's thread.
        parent_tid: u32,
    },
    /// A task's name changed, through exec or otherwise.
    Comm {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// The name, without NUL.
        comm: &'a [u8],
        /// Whether exec changed it.
        exec: bool,
    },
    /// A task ended.
    Exit {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// A file, or anonymous memory, was mapped as executable.
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
        /// Identity of the file.
        file: FileIdentity<'a>,
        /// Path of the file as the process sees it, or a name such as `[vdso]`.
        path: &'a [u8],
    },
    /// The kernel generated code: a BPF program or a trampoline.
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
    /// The ring was full: records are missing between `from` and `to`. A merge reports it before
    /// any record of another ring in that time range. The number of lost records follows in `Lost`.
    LossWindow {
        /// Time of the last record before the loss, in nanoseconds since the run began.
        from: f64,
        /// Time of the first record after it, or the time when the ring had room again.
        to: f64,
    },
    /// `count` records were lost between `from` and the time of this record.
    Lost {
        /// Number of records.
        count: u64,
        /// Time of the last record before the loss, in nanoseconds since the run began.
        from: f64,
        /// Whether some of them were records of tasks and their mappings.
        of_tasks: bool,
    },
    /// The kernel's own count of losses so far, on all CPUs: it includes losses that no record
    /// reports. A live source is asked for it; a recording contains it.
    LostSoFar {
        /// Number of events.
        events: u64,
        /// Number of records of tasks from the rings of events.
        of_tasks: u64,
    },
    /// Side-band records were lost from a ring that no event writes to.
    TasksLost,
    /// A record that only scripts want.
    ForCallback(&'a SideRecord<'a>),
    /// The kernel throttled an event or ended the throttling.
    Throttled,
    /// A record that cannot be decoded.
    Undecodable,
}
