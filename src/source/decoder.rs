//! What reads the records of one opening, and which roles take them, each from when to when.
//!
//! An event is turned on CPU by CPU: until it is on everywhere only some CPUs are seen, and whoever relates events would see
//! half of what there is. So a role takes what was written from then on, and up to the moment when it was turned off, whenever
//! that is read.

use std::cell::Cell;

use super::Sink;
use super::chains::Chained;
use super::open::Opening;
use crate::decode::sample::{Layout, Sample};
use crate::event::catalog::What;
use crate::event::filter::Bound;
use crate::sys::namespace::in_root_pid_namespace;
use perf_event_open_sys::bindings as abi;

/// So many roles take the records of one opening at most: a batch keeps room for as many slots.
const TAKERS: usize = 64;

/// A time span of the event clock, in nanoseconds; without its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    /// No record is of that time.
    pub(super) const NEVER: Span = Span { from: 0, to: 0 };

    /// From some time on.
    pub(super) fn since(from: u64) -> Span {
        Span { from, to: u64::MAX }
    }

    #[inline(always)]
    pub(super) fn holds(self, time: u64) -> bool {
        self.from <= time && time < self.to
    }
}

/// A role that takes an opening's records.
pub(super) struct Taker {
    pub(super) role: u32,
    /// The filter that it checks itself.
    pub(super) own: Option<Bound>,
    /// Where in a raw record the thread stands that has to be a watched one; None where that is the one it comes from.
    pub(super) about: Option<usize>,
    /// When what it takes was written.
    pub(super) span: Span,
    /// It is to be forgotten once all of that was handled.
    pub(super) gone: bool,
}

impl Taker {
    /// Whether it takes what is written now.
    pub(super) fn is_on(&self) -> bool {
        self.span.to == u64::MAX
    }

    /// What takes the records of its span only, of which the rings may still hold some.
    pub(super) fn as_it_was(&self) -> Taker {
        Taker { own: self.own.clone(), gone: true, ..*self }
    }
}

/// What a sample has for the numbers of a task that has ended: the kernel has taken them away.
pub(super) const ENDED: u32 = u32::MAX;

impl Opening {
    /// Whether samples of this process are dropped here, since no kernel filter keeps them back:
    /// those of counters and clocks; of a function, since in a container without tracefs nobody
    /// knows the numbers of our threads for its filter; and those of the scheduler, where nothing
    /// is related to others.
    pub(super) fn hides_self(&self) -> bool {
        let tracepoint = matches!(self.event.what, What::Tracepoint { .. });
        let ours = self.event.is_a_switch() && !self.event.is_interrupt();
        !tracepoint || self.sampling.hide_self && ours
    }

    /// Where the thread stands in a tracepoint's record. In a pid namespace that is another number
    /// than ours.
    pub(super) fn common_pid(&self) -> Option<usize> {
        let What::Tracepoint { format } = &self.event.what else { return None };
        let field = format.field("common_pid").filter(|field| field.size == 4)?;
        in_root_pid_namespace().then_some(field.offset)
    }

    /// The numbers of its roles.
    pub(super) fn named(&self) -> impl Iterator<Item = u32> {
        self.roles.iter().map(|(role, _)| *role)
    }

    /// Its roles, which are off.
    pub(super) fn takers(&self) -> Vec<Taker> {
        let abouts = self.about.iter().copied().chain(std::iter::repeat(None));
        let taker = |((role, own), about): (&(u32, Option<Bound>), Option<usize>)| Taker {
            role: *role,
            own: own.clone(),
            about,
            span: Span::NEVER,
            gone: false,
        };
        self.roles.iter().zip(abouts).map(taker).collect()
    }
}

/// Reads one opening's records.
pub(super) struct Decoder {
    pub(super) layout: Layout,
    pub(super) takers: Vec<Taker>,
    /// Of a clock whose rate is judged, the samples that each CPU's ring gave so far; else nothing.
    pub(super) came: Vec<(u32, Cell<u64>)>,
    /// Whether a record has to be of a watched thread.
    pub(super) told_apart: bool,
    /// Whether that is the thread that it comes from, and not one that a field names.
    pub(super) by_thread: bool,
    /// A function's samples have registers for a raw record, and whether they have them of tasks of 32 bits, too.
    pub(super) registers: Option<bool>,
    /// Whether the event was opened for whole CPUs, not for the tasks: an exec does not turn it on.
    pub(super) whole_cpus: bool,
    /// Whether the kernel checks all of the filter that was asked for.
    pub(super) filtered: bool,
    /// What is to be done for its chains; None if it has none.
    pub(super) chained: Option<Chained>,
    /// Bytes that a raw record must have.
    pub(super) raw_min: usize,
    /// Every sample is for one role, of the plain layout, and needs no further look but for its time.
    pub(super) plain: Option<u16>,
    /// When those were written that this one takes.
    pub(super) span: Span,
    /// Offset of the time in a whole record.
    pub(super) time_at: usize,
    /// Samples of this very process are dropped here, since no kernel filter can.
    pub(super) hide_self: bool,
    /// Where in a raw record the thread stands that it comes from.
    pub(super) common_pid: Option<usize>,
    /// Whether there is a sample each time that the event is counted.
    pub(super) samples_each: bool,
}

impl Decoder {
    /// Decodes a sample; None if it does not hold what its event's fields are read from.
    #[inline(always)]
    pub(super) fn sample<'a>(&self, bytes: &'a [u8]) -> Option<Sample<'a>> {
        let mut sample = self.layout.sample(bytes.get(8..)?).ok()?;
        if let Some(of_any_task) = self.registers {
            sample.raw = self.registers_of(&sample, of_any_task)?;
        }
        (sample.raw.len() >= self.raw_min).then_some(sample)
    }

    /// The process and the thread that a sample comes from. After a task's end the record still has
    /// its thread.
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

    /// Registers as a record: none of another machine than the one that the fields were made for.
    #[inline(never)]
    fn registers_of<'a>(&self, sample: &Sample<'a>, of_any_task: bool) -> Option<&'a [u8]> {
        let registers = self.layout.rest(sample).ok()?.regs_intr;
        let usual = registers.abi == u64::from(abi::PERF_SAMPLE_REGS_ABI_64);
        (usual || of_any_task).then(|| registers.values.bytes())
    }

    /// Notes a sample of the ring at `index`.
    #[inline(always)]
    pub(super) fn note_sample(&self, index: usize) {
        if let Some((_, came)) = self.came.get(index) {
            came.set(came.get() + 1);
        }
    }

    /// Samples so far, of a CPU or of all.
    pub(super) fn came_of(&self, cpu: Option<u32>) -> u64 {
        let own = |came: &&(u32, Cell<u64>)| cpu.is_none_or(|cpu| cpu == came.0);
        self.came.iter().filter(own).map(|(_, came)| came.get()).sum()
    }

    /// Whether a role wants the event.
    pub(super) fn is_on(&self) -> bool {
        self.takers.iter().any(Taker::is_on)
    }

    /// Whether a role has it, on or off.
    pub(super) fn is_wanted(&self) -> bool {
        self.takers.iter().any(|taker| !taker.gone)
    }

    /// Whether a role takes what is written now.
    pub(super) fn is_on_for(&self, role: u32) -> bool {
        self.takers.iter().any(|taker| taker.role == role && taker.is_on())
    }

    /// Whether a role takes its records, or will when it is turned on.
    pub(super) fn serves(&self, role: u32) -> bool {
        self.takers.iter().any(|taker| taker.role == role && !taker.gone)
    }

    /// Whether one more role may take what it reads, just as it is read.
    pub(super) fn takes_more(&self) -> bool {
        self.filtered && self.takers.len() < TAKERS
    }

    /// Whether a sample needs no look but at its time, and counts as one.
    fn is_plain(&self) -> bool {
        let alike = self.layout.is_plain() && self.samples_each && self.came.is_empty();
        alike && !self.told_apart && !self.hide_self
    }

    /// To be called when its takers have changed.
    pub(super) fn settle(&mut self) {
        (self.plain, self.span) = match &self.takers[..] {
            [Taker { role, own: None, span, .. }] if self.is_plain() => (Some(*role as u16), *span),
            _ => (None, Span::NEVER),
        };
    }
}
