//! Decodes the records of one opening, and determines which roles take them and for which time
//! span.
//!
//! An event is enabled CPU by CPU. Until it is enabled on all, only some CPUs are seen, and a
//! script that relates events would see only part of them. A role therefore takes what was written
//! from then on, up to the moment when it was turned off, no matter when the records are read.

use std::cell::Cell;

use super::Sink;
use super::chains::Chained;
use super::open::Opening;
use crate::decode::sample::{RecordLayout, Sample};
use crate::event::catalog::EventKind;
use crate::event::filter::Bound;
use crate::sys::namespace::in_root_pid_namespace;
use perf_event_open_sys::bindings as abi;

/// Maximum number of roles that take the records of one opening: a batch keeps room for as many
/// slots.
const TAKERS: usize = 64;

/// A time span of the event clock, in nanoseconds; `to` is excluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeSpan {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl TimeSpan {
    /// Contains no time.
    pub(super) const NEVER: TimeSpan = TimeSpan { from: 0, to: 0 };

    /// Returns the span from a time on.
    pub(super) fn since(from: u64) -> TimeSpan {
        TimeSpan { from, to: u64::MAX }
    }

    #[inline(always)]
    pub(super) fn holds(self, time: u64) -> bool {
        self.from <= time && time < self.to
    }
}

/// A role that takes an opening's records.
pub(super) struct Taker {
    pub(super) role: u32,
    /// The filter that it checks in user space.
    pub(super) own: Option<Bound>,
    /// Offset in a raw record of the thread that must be watched; None if that is the thread that
    /// the sample comes from.
    pub(super) about: Option<usize>,
    /// When the records that it takes were written.
    pub(super) span: TimeSpan,
    /// Whether it is removed once these records have been handled.
    pub(super) gone: bool,
}

impl Taker {
    /// Returns whether it takes what is written now.
    pub(super) fn is_on(&self) -> bool {
        self.span.to == u64::MAX
    }

    /// Returns a taker of the records of its span only, some of which the rings may still hold.
    pub(super) fn of_previous_span(&self) -> Taker {
        Taker { own: self.own.clone(), gone: true, ..*self }
    }
}

/// Process and thread ID in a sample of a task that has ended: the kernel has released its IDs.
pub(super) const ENDED: u32 = u32::MAX;

impl Opening {
    /// Returns whether samples of this process are dropped in user space because no in-kernel
    /// filter excludes them: those of counters and clocks; those of functions, since in a container
    /// without tracefs the thread IDs for their filter are not known; and those of the scheduler,
    /// if events are not related to each other.
    pub(super) fn hides_self(&self) -> bool {
        let tracepoint = matches!(self.event.what, EventKind::Tracepoint { .. });
        let ours = self.event.is_scheduler_event() && !self.event.is_interrupt();
        !tracepoint || self.sampling.hide_self && ours
    }

    /// Returns the offset of the thread ID in a tracepoint's record; None in a PID namespace, where
    /// it differs from the thread ID that this process sees.
    pub(super) fn common_pid(&self) -> Option<usize> {
        let EventKind::Tracepoint { format } = &self.event.what else { return None };
        let field = format.field("common_pid").filter(|field| field.size == 4)?;
        in_root_pid_namespace().then_some(field.offset)
    }

    /// Returns the numbers of its roles.
    pub(super) fn named(&self) -> impl Iterator<Item = u32> {
        self.roles.iter().map(|(role, _)| *role)
    }

    /// Returns its roles, turned off.
    pub(super) fn takers(&self) -> Vec<Taker> {
        let abouts = self.about.iter().copied().chain(std::iter::repeat(None));
        let taker = |((role, own), about): (&(u32, Option<Bound>), Option<usize>)| Taker {
            role: *role,
            own: own.clone(),
            about,
            span: TimeSpan::NEVER,
            gone: false,
        };
        self.roles.iter().zip(abouts).map(taker).collect()
    }
}

/// Decodes one opening's records.
pub(super) struct Decoder {
    pub(super) layout: RecordLayout,
    pub(super) takers: Vec<Taker>,
    /// Samples that each CPU's ring gave so far, of a clock whose rate is checked; else empty.
    pub(super) came: Vec<(u32, Cell<u64>)>,
    /// Whether a record must be of a watched thread.
    pub(super) filtered_by_task: bool,
    /// Whether that is the thread that it comes from, not one that a field names.
    pub(super) by_thread: bool,
    /// For a function, whose samples have registers instead of a raw record: whether those of
    /// 32-bit tasks are accepted, too.
    pub(super) registers: Option<bool>,
    /// Whether the event was opened CPU-wide, not for the tasks: an exec does not enable it.
    pub(super) whole_cpus: bool,
    /// Whether the kernel checks the whole filter that was requested.
    pub(super) filtered: bool,
    /// How its chains are made; None if it has none.
    pub(super) chained: Option<Chained>,
    /// Minimum size of a raw record, in bytes.
    pub(super) raw_min: usize,
    /// The only role, if every sample has the plain layout and nothing but its time must be
    /// checked.
    pub(super) plain: Option<u16>,
    /// When the records that this role takes were written.
    pub(super) span: TimeSpan,
    /// Offset of the time in a whole record.
    pub(super) time_at: usize,
    /// Whether samples of this process are dropped here, since no in-kernel filter can exclude
    /// them.
    pub(super) hide_self: bool,
    /// Offset in a raw record of the thread that it comes from.
    pub(super) common_pid: Option<usize>,
    /// Whether there is a sample for each counted event.
    pub(super) samples_each: bool,
}

impl Decoder {
    /// Decodes a sample; None if it lacks data that its event's fields are read from.
    #[inline(always)]
    pub(super) fn sample<'a>(&self, bytes: &'a [u8]) -> Option<Sample<'a>> {
        let mut sample = self.layout.sample(bytes.get(8..)?).ok()?;
        if let Some(of_any_task) = self.registers {
            sample.raw = self.registers_of(&sample, of_any_task)?;
        }
        (sample.raw.len() >= self.raw_min).then_some(sample)
    }

    /// Returns the process and the thread that a sample comes from. After the task's end, only the
    /// raw record has the thread.
    #[inline(always)]
    pub(super) fn task(&self, ids: (u32, u32), raw: &[u8], sink: &dyn Sink) -> (u32, u32) {
        if ids.1 == ENDED { self.ended_task(ids, raw, sink) } else { ids }
    }

    #[cold]
    #[inline(never)]
    fn ended_task(&self, ids: (u32, u32), raw: &[u8], sink: &dyn Sink) -> (u32, u32) {
        let bytes = self.common_pid.and_then(|at| raw.get(at..)?.first_chunk());
        let Some(tid) = bytes.map(|bytes| u32::from_ne_bytes(*bytes)) else { return ids };
        (sink.process_of(tid).unwrap_or(ids.0), tid)
    }

    /// Returns the registers as a record; None if the ABI is not the one that the fields were made
    /// for.
    #[inline(never)]
    fn registers_of<'a>(&self, sample: &Sample<'a>, of_any_task: bool) -> Option<&'a [u8]> {
        let registers = self.layout.rest(sample).ok()?.regs_intr;
        let usual = registers.abi == u64::from(abi::PERF_SAMPLE_REGS_ABI_64);
        (usual || of_any_task).then(|| registers.values.bytes())
    }

    /// Counts a sample of the ring at `index`.
    #[inline(always)]
    pub(super) fn note_sample(&self, index: usize) {
        if let Some((_, came)) = self.came.get(index) {
            came.set(came.get() + 1);
        }
    }

    /// Returns the number of samples so far, of a CPU or of all.
    pub(super) fn came_of(&self, cpu: Option<u32>) -> u64 {
        let own = |came: &&(u32, Cell<u64>)| cpu.is_none_or(|cpu| cpu == came.0);
        self.came.iter().filter(own).map(|(_, came)| came.get()).sum()
    }

    /// Returns whether any role takes what is written now.
    pub(super) fn is_on(&self) -> bool {
        self.takers.iter().any(Taker::is_on)
    }

    /// Returns whether any role has the event, on or off.
    pub(super) fn is_wanted(&self) -> bool {
        self.takers.iter().any(|taker| !taker.gone)
    }

    /// Returns whether this role takes what is written now.
    pub(super) fn is_on_for(&self, role: u32) -> bool {
        self.takers.iter().any(|taker| taker.role == role && taker.is_on())
    }

    /// Returns whether this role takes its records, or will when it is turned on.
    pub(super) fn serves(&self, role: u32) -> bool {
        self.takers.iter().any(|taker| taker.role == role && !taker.gone)
    }

    /// Returns whether one more role can take its records as they are.
    pub(super) fn takes_more(&self) -> bool {
        self.filtered && self.takers.len() < TAKERS
    }

    /// Returns whether a sample needs no check except of its time, and counts as one event.
    fn is_plain(&self) -> bool {
        let alike = self.layout.is_plain() && self.samples_each && self.came.is_empty();
        alike && !self.filtered_by_task && !self.hide_self
    }

    /// Updates `plain` and `span`. Must be called when its takers have changed.
    pub(super) fn settle(&mut self) {
        (self.plain, self.span) = match &self.takers[..] {
            [Taker { role, own: None, span, .. }] if self.is_plain() => (Some(*role as u16), *span),
            _ => (None, TimeSpan::NEVER),
        };
    }
}
