//! Decodes the records of one opening, and determines which roles take them and for which time
//! span.
//!
//! An event is enabled CPU by CPU. Until it is enabled on all, only some CPUs are seen, and a
//! script that relates events would see only part of them. A role therefore takes what was written
//! from then on, up to the moment when it was turned off, no matter when the records are read.

use std::cell::Cell;
use std::rc::Rc;

use super::cgroup_records::CgroupRecord;
use super::chains::Chained;
use super::group_counts::GroupCounts;
use super::watched_tasks::WatchedTasks;
use super::weights::SampleWeights;
use crate::decode::cursor::Words;
use crate::decode::sample::{PlainLayout, RecordLayout, Sample, WholeLayout, WholeSample};
use crate::decode::unset::UnsetValues;
use crate::event::filter::BoundFilter;
use crate::source::sink::Sink;
use crate::source::written_pairs::WrittenPairs;
use perf_event_open_sys::bindings as abi;

/// Registers that the samples of a function have instead of a raw record.
#[derive(Clone, Copy, Debug)]
pub(in crate::source) struct CallRegisters {
    /// The registers of the record, one bit each; further ones may be sampled, too.
    pub(in crate::source) mask: u64,
    /// Whether those of 32-bit tasks are accepted, too.
    pub(in crate::source) of_any_task: bool,
}

/// Kind of a record that is a sample.
pub(in crate::source) const SAMPLE: u32 = abi::PERF_RECORD_SAMPLE;

/// Maximum number of roles that take the records of one opening: a batch keeps room for as many
/// slots.
const TAKERS: usize = 64;

/// A time span of the event clock, in nanoseconds; `to` is excluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::source) struct TimeSpan {
    pub(in crate::source) from: u64,
    pub(in crate::source) to: u64,
}

impl TimeSpan {
    /// Contains no time.
    pub(in crate::source) const NEVER: TimeSpan = TimeSpan { from: 0, to: 0 };

    /// Returns the span from a time on.
    pub(in crate::source) fn since(from: u64) -> TimeSpan {
        TimeSpan { from, to: u64::MAX }
    }

    #[inline(always)]
    pub(in crate::source) fn holds(self, time: u64) -> bool {
        self.from <= time && time < self.to
    }
}

/// A role that takes an opening's records.
pub(in crate::source) struct Recipient {
    pub(in crate::source) role: u32,
    /// The filter that it checks in user space.
    pub(in crate::source) own: Option<BoundFilter>,
    /// Offset in a raw record of the thread that must be watched; None if that is the thread that
    /// the sample comes from.
    pub(in crate::source) about: Option<usize>,
    /// When the records that it takes were written.
    pub(in crate::source) span: TimeSpan,
    /// Whether it is removed once these records have been handled.
    pub(in crate::source) gone: bool,
}

impl Recipient {
    /// Returns whether it takes what is written now.
    pub(in crate::source) fn is_on(&self) -> bool {
        self.span.to == u64::MAX
    }

    /// Returns a recipient of the records of its span only, some of which the rings may still hold.
    pub(in crate::source) fn of_previous_span(&self) -> Recipient {
        Recipient { own: self.own.clone(), gone: true, ..*self }
    }
}

/// Process and thread ID in a sample of a task that has ended: the kernel has released its IDs.
pub(in crate::source) const ENDED: u32 = u32::MAX;

/// Decodes one opening's records.
pub(in crate::source) struct Decoder {
    pub(in crate::source) layout: RecordLayout,
    pub(in crate::source) recipients: Vec<Recipient>,
    /// Samples that each CPU's ring gave so far, of a clock whose rate is checked; else empty.
    pub(in crate::source) sample_counts: Vec<(u32, Cell<u64>)>,
    /// How its records report the control group of a thread; None if they do not follow threads.
    pub(in crate::source) cgroup: Option<Box<CgroupRecord>>,
    /// Whether a record must be of a watched thread.
    pub(in crate::source) filtered_by_task: bool,
    /// Whether that is the thread that it comes from, not one that a field names.
    pub(in crate::source) by_thread: bool,
    /// For a function, the registers that its samples have instead of a raw record.
    pub(in crate::source) registers: Option<CallRegisters>,
    /// Whether the event was opened CPU-wide, not for the tasks: an exec does not enable it.
    pub(in crate::source) whole_cpus: bool,
    /// Whether the kernel checks the whole filter that was requested.
    pub(in crate::source) filtered: bool,
    /// How its chains are made; None if it has none.
    pub(in crate::source) chained: Option<Chained>,
    /// Minimum size of a raw record, in bytes.
    pub(in crate::source) raw_min: usize,
    /// The counts of its group; None if its samples have none.
    pub(in crate::source) counts: Option<Box<GroupCounts>>,
    /// The weights of its samples; None if each stands for itself.
    pub(in crate::source) weights: Option<Box<SampleWeights>>,
    /// The values of its records that the kernel may leave unset; None if there are none.
    pub(in crate::source) unset: Option<Box<UnsetValues>>,
    /// The pairs whose programs write its records, if they do.
    pub(in crate::source) pairs: Option<Rc<WrittenPairs>>,
    /// Whether the record of a slot has a tail, for fields that few events have.
    pub(in crate::source) has_tail: bool,
    /// The only role and the layout, if every sample has a plain layout and nothing but its time
    /// must be checked.
    pub(in crate::source) plain: Option<(u16, PlainLayout)>,
    /// The only role and the layout, if every sample is handed on as it is, in a layout that is not
    /// plain, and only its time and task must be checked.
    pub(in crate::source) whole: Option<(u16, WholeLayout)>,
    /// When the records that this role takes were written.
    pub(in crate::source) span: TimeSpan,
    /// Offset of the time in a whole record; None if its samples have no time.
    pub(in crate::source) time_at: Option<usize>,
    /// Whether the task is in its samples; otherwise `common_pid` is.
    pub(in crate::source) has_task: bool,
    /// Whether its samples contain the ID of the event.
    pub(in crate::source) has_id: bool,
    /// Whether samples of this process are dropped here, since no in-kernel filter can exclude
    /// them.
    pub(in crate::source) hide_self: bool,
    /// Offset in a raw record of the thread that it comes from.
    pub(in crate::source) common_pid: Option<usize>,
    /// Whether there is a sample for each counted event.
    pub(in crate::source) samples_each: bool,
    /// Whether the kernel can put the ID and the time of another event into its samples. Their
    /// counter values then have its own ID.
    pub(in crate::source) has_own_id: bool,
}

impl Decoder {
    /// Returns whether its events stay off while those that can be thinned are paused.
    pub(in crate::source) fn waits(&self, is_paused: bool) -> bool {
        is_paused && self.weights.is_some()
    }

    /// Decodes a sample from the ring of this CPU; None if it lacks data that its event's fields
    /// are read from. `earliest` becomes its time if it has none.
    #[inline(always)]
    pub(in crate::source) fn sample<'a>(
        &self,
        bytes: &'a [u8],
        cpu: u32,
        earliest: u64,
    ) -> Option<Sample<'a>> {
        let mut sample = self.layout.sample(bytes.get(8..)?).ok()?;
        sample.cpu = cpu;
        if self.time_at.is_none() {
            sample.time = earliest;
        }
        if !self.has_task {
            sample.tid = self.thread_in(sample.raw)?;
        }
        if let Some(registers) = self.registers {
            sample.raw = self.registers_of(self.layout.rest_words(&sample), registers)?;
        }
        (sample.raw.len() >= self.raw_min).then_some(sample)
    }

    /// Returns the process and the thread that a sample comes from. After the task's end, only the
    /// raw record has the thread.
    #[inline(always)]
    pub(in crate::source) fn task(
        &self,
        ids: (u32, u32),
        raw: &[u8],
        sink: &dyn Sink,
    ) -> (u32, u32) {
        if ids.1 == ENDED { self.ended_task(ids, raw, sink) } else { ids }
    }

    #[cold]
    #[inline(never)]
    fn ended_task(&self, ids: (u32, u32), raw: &[u8], sink: &dyn Sink) -> (u32, u32) {
        let Some(tid) = self.thread_in(raw) else { return ids };
        (sink.process_of(tid).unwrap_or(ids.0), tid)
    }

    /// Returns the thread in a raw record.
    #[inline(always)]
    fn thread_in(&self, raw: &[u8]) -> Option<u32> {
        let bytes = raw.get(self.common_pid?..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// Returns the registers as a record, from the words after the raw data; None if the ABI is not
    /// the one that the fields were made for.
    #[inline(always)]
    fn registers_of<'a>(&self, rest: Words<'a>, wanted: CallRegisters) -> Option<&'a [u8]> {
        let registers = self.layout.registers(rest)?;
        let usual = registers.abi == u64::from(abi::PERF_SAMPLE_REGS_ABI_64);
        (usual || wanted.of_any_task).then(|| registers.values.bytes())
    }

    /// Decodes a sample, as [`Decoder::sample`] does, if it is handed on as it is; also returns its
    /// role.
    #[inline(always)]
    pub(in crate::source) fn whole_sample<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Option<(u16, WholeSample<'a>)> {
        let (role, layout) = self.whole.as_ref()?;
        let mut sample = layout.read(bytes)?;
        if !self.has_task {
            sample.tid = self.thread_in(sample.raw)?;
        }
        if let Some(registers) = self.registers {
            sample.raw = self.registers_of(sample.rest, registers)?;
        }
        (sample.raw.len() >= self.raw_min).then_some((*role, sample))
    }

    /// Returns whether a sample is of another task than the watched ones, or of this process.
    #[inline(always)]
    pub(in crate::source) fn drops(
        &self,
        sample: &Sample<'_>,
        tasks: Option<&WatchedTasks>,
        own_pid: u32,
    ) -> bool {
        let is_foreign = || tasks.is_some_and(|tasks| !tasks.contains(sample.tid));
        self.by_thread && is_foreign() || self.hide_self && sample.pid == own_pid
    }

    /// Counts a sample of the ring at `index`.
    #[inline(always)]
    pub(in crate::source) fn note_sample(&self, index: usize) {
        if let Some((_, count)) = self.sample_counts.get(index) {
            count.set(count.get() + 1);
        }
    }

    /// Returns the number of samples so far, of a CPU or of all.
    pub(in crate::source) fn came_of(&self, cpu: Option<u32>) -> u64 {
        let own = |count: &&(u32, Cell<u64>)| cpu.is_none_or(|cpu| cpu == count.0);
        self.sample_counts.iter().filter(own).map(|(_, count)| count.get()).sum()
    }

    /// Returns how to clear a record with values that the kernel did not set; None if it has none.
    #[inline(always)]
    pub(in crate::source) fn unset_in(&self, raw: &[u8]) -> Option<&UnsetValues> {
        self.unset.as_deref().filter(|unset| !unset.all_set(raw))
    }

    /// Returns whether what is written now is taken, by a role or to follow threads.
    pub(in crate::source) fn is_on(&self) -> bool {
        self.cgroup.is_some() || self.recipients.iter().any(Recipient::is_on)
    }

    /// Returns whether any role has the event, on or off, or it follows threads.
    pub(in crate::source) fn is_wanted(&self) -> bool {
        self.cgroup.is_some() || self.recipients.iter().any(|recipient| !recipient.gone)
    }

    /// Returns whether this role takes what is written now.
    pub(in crate::source) fn is_on_for(&self, role: u32) -> bool {
        self.recipients.iter().any(|recipient| recipient.role == role && recipient.is_on())
    }

    /// Returns the earliest time, from this one on, at which a role takes samples.
    pub(in crate::source) fn earliest_time(&self, from: u64) -> u64 {
        let on = self.recipients.iter().filter(|recipient| recipient.is_on());
        from.max(on.map(|recipient| recipient.span.from).min().unwrap_or(0))
    }

    /// Returns whether this role takes its records, or will when it is turned on.
    pub(in crate::source) fn serves(&self, role: u32) -> bool {
        self.recipients.iter().any(|recipient| recipient.role == role && !recipient.gone)
    }

    /// Returns whether one more role can take its records as they are.
    pub(in crate::source) fn takes_more(&self) -> bool {
        self.filtered && self.recipients.len() < TAKERS
    }

    /// Returns the layout of its samples if these need no check except of their time, and each
    /// counts as one event.
    fn plain_layout(&self) -> Option<PlainLayout> {
        let alike = self.samples_each && self.sample_counts.is_empty();
        let checked = self.filtered_by_task || self.hide_self || self.unset.is_some();
        let is_plain = alike && !checked;
        self.layout.plain(self.common_pid).filter(|_| is_plain)
    }

    /// Returns whether a slot needs nothing but the fields that each sample has, and the id of a
    /// cgroup. A sample with that has no copy of a stack, from which a caller could be added.
    fn is_whole(&self) -> bool {
        let has_tail =
            self.has_tail && !(self.layout.has_only_cgroup() && self.registers.is_none());
        let adds = has_tail || self.counts.is_some() || self.weights.is_some();
        !adds && !self.filtered_by_task && self.sample_counts.is_empty()
    }

    /// Updates `plain`, `whole` and `span`. Must be called when its recipients have changed.
    pub(in crate::source) fn update_plain(&mut self) {
        (self.plain, self.whole, self.span) = (None, None, TimeSpan::NEVER);
        if self.pairs.is_some() {
            return;
        }
        let [Recipient { role, own: None, span, .. }] = self.recipients[..] else { return };
        self.plain = self.plain_layout().map(|layout| (role as u16, layout));
        if self.plain.is_some() {
            self.span = span;
        } else if self.is_whole() {
            self.whole = self.layout.whole().map(|layout| (role as u16, layout));
            self.span = span;
        }
    }
}
