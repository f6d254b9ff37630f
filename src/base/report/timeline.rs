//! The input of a timeline: events, spans, samples, tasks and losses, each with its time.
//! The script's side hands them over, `output` writes them.

use std::io;

use crate::base::event::value::Value;
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{OpenedEvent, Stamp};
use crate::base::report::frame::Frame;

/// The id of every call chain for which the table of chains had no room.
pub const NO_ID: u64 = 0;

/// The thread of an event or a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineThread<'a> {
    /// Thread id; 0 is the idle task of its CPU.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// The thread's name, without NUL.
    pub comm: &'a [u8],
}

/// One event, borrowed from its record.
pub struct TimelineEvent<'a> {
    /// Index of its event in the list passed to [`Timeline::opened`].
    pub role: usize,
    /// Time, in nanoseconds of the event clock.
    pub clock_ns: u64,
    /// CPU of the record.
    pub cpu: u32,
    /// The thread that the CPU was running.
    pub thread: TimelineThread<'a>,
    /// The thread id in the record, which the kernel writes without namespaces.
    pub common_pid: u32,
    /// Whether it is a sample of a counter or a clock. A sample has no fields.
    pub is_sample: bool,
    /// The count since the previous sample.
    pub period: u64,
    /// Whether the CPU was in the kernel.
    pub in_kernel: bool,
    /// The own fields with their indexes in [`OpenedEvent::fields`]; a field that the record lacks
    /// is omitted.
    pub fields: &'a [(usize, Value<'a>)],
    /// The id of its call chain, None without one; [`NO_ID`] if the chain has no id of its own.
    pub stack: Option<u64>,
    /// Appends the frames of the call chain, innermost first.
    pub frames: &'a mut dyn FnMut(&mut Vec<Frame>),
}

/// Something that lasts: `span { … }` of a script.
pub struct TimelineSpan<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The group of spans that share a track; equal to `name` if the script names none.
    pub track: &'a [u8],
    /// Begin, in nanoseconds of the event clock.
    pub begin_ns: u64,
    /// End, in nanoseconds of the event clock.
    pub end_ns: u64,
    /// The thread that it belongs to.
    pub thread: TimelineThread<'a>,
    /// The CPU on which it ended.
    pub cpu: u32,
    /// Values to show with it.
    pub fields: &'a [(String, Cell)],
}

/// A task, when it is first known or renamed.
#[derive(Clone, Copy, Debug)]
pub struct TimelineTask<'a> {
    /// Its name and ids.
    pub thread: TimelineThread<'a>,
    /// The parent of its process, or 0 if it is unknown.
    pub parent_pid: u32,
}

/// Receives what happens in a run. A failure of a write is kept and returned by
/// [`Timeline::flush`].
pub trait Timeline {
    /// Receives the events of the run, by role, before the first of them.
    fn opened(&mut self, events: &[OpenedEvent]);
    /// Adds an event.
    fn event(&mut self, event: &mut TimelineEvent<'_>);
    /// Adds a span.
    fn span(&mut self, span: &TimelineSpan<'_>);
    /// Adds a task.
    fn task(&mut self, task: &TimelineTask<'_>);
    /// Adds the loss of records of a CPU.
    fn lost(&mut self, clock_ns: u64, cpu: u32, count: u64);
    /// Writes what is complete, if it has waited long enough.
    ///
    /// # Errors
    /// The file cannot be written.
    fn flush(&mut self, clock_ns: u64) -> io::Result<()>;
    /// Writes the rest and the coverage of the run. Returns a summary.
    ///
    /// # Errors
    /// The file cannot be written.
    fn end(&mut self, now: Stamp, coverage: &Coverage) -> io::Result<String>;
}
