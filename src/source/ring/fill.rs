//! Turns a decoded sample into the slots of the roles that take it.

use super::chains::{Chain, as_written};
use super::decoder::{Decoder, ENDED, SAMPLE};
use super::openings::{OWN_ID, Openings};
use super::watched_tasks::WatchedTasks;
use crate::base::event::slot::Slot;
use crate::decode::sample::{Plain, Sample, WholeSample, identifier};
use crate::event::filter;
use crate::source::batch::Batch;
use crate::source::chain_memory::ChainMemory;
use crate::source::sink::{SideBand, Sink};
use crate::sys::ring::Piece;

/// A usual record: a sample that does not wrap, of a task that has not ended, and that only one
/// role takes as it is.
pub(in crate::source) struct UsualSample {
    /// Nanoseconds of the event clock.
    pub(in crate::source) time: u64,
    /// Whether its event writes a sample for each event that it counts.
    pub(in crate::source) is_each: bool,
    /// Whether its time can be that of another clock.
    may_be_foreign: bool,
}

impl UsualSample {
    /// Returns whether its time can be that of a record after `last`, up to the look at the ring.
    #[inline(always)]
    pub(in crate::source) fn is_timed(&self, last: u64, looked_at: u64) -> bool {
        !self.may_be_foreign || (last..=looked_at).contains(&self.time)
    }
}

/// Writes the slot of a record from the ring of this CPU, without its time, if the record is a
/// usual one. `earliest` becomes the time of a sample without one. The slot is written in place:
/// copying it would wait for its stores. `memory` takes the chain and the record if anything is
/// added to them; if it is None, returns None for such a record.
#[inline(always)]
pub(in crate::source) fn usual_at(
    piece: &Piece<'_>,
    of: Openings<'_>,
    (cpu, earliest): (u32, u64),
    into: &mut Slot,
    memory: Option<&mut ChainMemory>,
) -> Option<UsualSample> {
    let Piece::Single(bytes) = *piece else { return None };
    let decoder = match of.without_id() {
        Some(decoder) => decoder,
        None => of.of_id(identifier(bytes)?)?,
    };
    if piece.kind() != SAMPLE {
        return None;
    }
    let Some((role, layout)) = &decoder.plain else {
        return whole_at(bytes, decoder, of, (cpu, earliest), into, memory);
    };
    let sample = layout.read(bytes)?;
    let time = sample.time.unwrap_or(earliest);
    let usual = sample.raw.len() >= decoder.raw_min && sample.tid != ENDED;
    if !usual || !decoder.span.holds(time) {
        return None;
    }
    *into = plain(*role, &sample, cpu);
    Some(UsualSample { time, is_each: true, may_be_foreign: false })
}

/// As [`usual_at`], for a sample of any layout.
#[inline(never)]
fn whole_at<'a>(
    bytes: &[u8],
    mut decoder: &'a Decoder,
    of: Openings<'a>,
    (cpu, earliest): (u32, u64),
    into: &mut Slot,
    mut memory: Option<&mut ChainMemory>,
) -> Option<UsualSample> {
    if decoder.has_own_id {
        let id = bytes.get(OWN_ID..)?.first_chunk()?;
        decoder = of.of_own_id(u64::from_ne_bytes(*id))?;
    }
    let (ev, sample) = decoder.whole_sample(bytes)?;
    let time = sample.time.unwrap_or(earliest);
    let is_own = decoder.hide_self && sample.pid == of.own_pid;
    let is_whole = !is_own && decoder.unset_in(sample.raw).is_none();
    if sample.tid == ENDED || !is_whole || !decoder.span.holds(time) {
        return None;
    }
    let chain = match &decoder.chained {
        Some(chained) if chained.lacks_only_caller(sample.callchain) => {
            let memory = memory.as_deref_mut()?;
            memory.with_caller(&decoder.layout, sample.rest, sample.callchain)?
        }
        Some(chained) if !chained.is_complete(sample.callchain) => return None,
        _ => as_written(sample.callchain),
    };
    *into = Slot { ev, ..slot_of(&sample, chain, cpu) };
    if decoder.has_tail {
        let memory = memory.filter(|memory| !memory.is_low())?;
        (into.raw, into.raw_size) = memory.with_cgroup(&decoder.layout, &sample)?;
    }
    let (is_each, may_be_foreign) = (decoder.samples_each, decoder.has_own_id);
    Some(UsualSample { time, is_each, may_be_foreign })
}

/// Returns the slot of a sample from the ring of this CPU, without its time.
#[inline(always)]
pub(in crate::source) fn plain(role: u16, sample: &Plain<'_>, cpu: u32) -> Slot {
    Slot { pid: sample.pid, tid: sample.tid, cpu: cpu as u16, ev: role, ..Slot::of(sample.raw) }
}

/// Returns the slot of a sample with this chain, without time and role.
#[inline(always)]
fn slot_of(sample: &WholeSample<'_>, (chain, chain_len): Chain, cpu: u32) -> Slot {
    Slot {
        chain,
        chain_len: chain_len as u16,
        ip: sample.ip,
        addr: sample.addr,
        period: sample.period,
        pid: sample.pid,
        tid: sample.tid,
        cpu: cpu as u16,
        ..Slot::of(sample.raw)
    }
}

/// Adds a slot for each role that takes the sample. `weight` is None if no sample of the event is
/// weighed. `is_copy`: its record is not one of the ring.
#[inline(always)]
pub(in crate::source) fn push(
    batch: &mut Batch,
    decoder: &Decoder,
    sample: &Sample<'_>,
    (time, weight, is_copy): (f64, Option<u32>, bool),
    tasks: Option<&WatchedTasks>,
    sink: &mut dyn Sink,
) {
    // The chain and the tail are made once, and only if a role takes the sample.
    let mut walked = decoder.chained.is_none();
    let (mut tailed, layout) = (!decoder.has_tail, &decoder.layout);
    let chain = as_written(sample.callchain);
    let mut slot = Slot { time, ..slot_of(&sample.whole(), chain, sample.cpu) };
    // The record of `sample` is one of the ring, or a copy that the next sample replaces.
    let mut kept = !is_copy || decoder.has_tail;
    for recipient in decoder.recipients.iter().filter(|recipient| recipient.span.holds(sample.time))
    {
        if let (Some(at), Some(tasks)) = (recipient.about, tasks)
            && !thread_at(sample.raw, at).is_some_and(|tid| tasks.contains(tid))
        {
            continue;
        }
        let input = || filter::FilterInput { raw: sample.raw, cpu: sample.cpu, comm: b"" };
        if recipient.own.as_ref().is_some_and(|filter| !filter.passes(&input())) {
            continue;
        }
        if let (false, Some(chained)) = (walked, &decoder.chained) {
            let (chain, chain_len) = batch.chains().of(chained, &decoder.layout, sample, sink);
            (slot.chain, slot.chain_len) = (chain, chain_len as u16);
            walked = true;
        }
        if !kept {
            (slot.raw, slot.raw_size) = batch.chains().copy(sample.raw);
            kept = true;
        }
        if !tailed {
            let counts = decoder.counts.as_deref();
            let made = batch.chains().with_tail(layout, decoder.registers, counts, sample);
            let Some((raw, size)) = made else {
                return sink.side(SideBand::undecodable(slot.time, slot.cpu.into()));
            };
            (slot.raw, slot.raw_size) = (raw, size);
            tailed = true;
        }
        slot.ev = recipient.role as u16;
        batch.push(slot);
        if let Some(weight) = weight {
            batch.weigh_last(weight);
        }
    }
    if !tailed && let Some(counts) = &decoder.counts {
        counts.pass(sample);
    }
    if decoder.chained.is_some() || decoder.has_tail || is_copy {
        batch.mark_full_if_chains_low();
    }
}

/// Returns the thread ID at an offset of a raw record. It has four bytes, which was checked against
/// the format when the event was declared.
fn thread_at(raw: &[u8], at: usize) -> Option<u32> {
    let bytes = raw.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
