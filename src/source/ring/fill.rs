//! Turns a decoded sample into the slots of the roles that take it.

use super::chains::as_written;
use super::decoder::{Decoder, ENDED, SAMPLE};
use super::ids::Ids;
use super::watched_tasks::WatchedTasks;
use crate::base::event::slot::Slot;
use crate::decode::sample::{Plain, Sample, identifier};
use crate::event::filter;
use crate::source::batch::Batch;
use crate::source::sink::{SideBand, Sink};
use crate::sys::ring::Piece;

/// A usual record: a sample of a plain layout that does not wrap, of a task that has not ended, and
/// that only one role takes.
pub(in crate::source) struct UsualSample<'a> {
    pub(in crate::source) role: u16,
    pub(in crate::source) sample: Plain<'a>,
    /// Nanoseconds of the event clock.
    pub(in crate::source) time: u64,
}

/// Returns the record if it is a usual one. `earliest` becomes the time of a sample without one.
#[inline(always)]
pub(in crate::source) fn usual_at<'a>(
    piece: &Piece<'a>,
    ids: &Ids,
    decoders: &[Decoder],
    earliest: u64,
) -> Option<UsualSample<'a>> {
    let Piece::Single(bytes) = *piece else { return None };
    let decoder = decoders.get(ids.get(identifier(bytes)?)? as usize)?;
    let (Some((role, layout)), SAMPLE) = (&decoder.plain, piece.kind()) else { return None };
    let sample = layout.read(bytes)?;
    let time = sample.time.unwrap_or(earliest);
    let usual = sample.raw.len() >= decoder.raw_min && sample.tid != ENDED;
    (usual && decoder.span.holds(time)).then_some(UsualSample { role: *role, sample, time })
}

/// Returns the slot of a sample from the ring of this CPU, without its time.
#[inline(always)]
pub(in crate::source) fn plain(role: u16, sample: &Plain<'_>, cpu: u32) -> Slot {
    Slot { pid: sample.pid, tid: sample.tid, cpu: cpu as u16, ev: role, ..Slot::of(sample.raw) }
}

/// Adds a slot for each role that takes the sample. `weight` is None if no sample of the event is
/// weighed.
#[inline(always)]
pub(in crate::source) fn push(
    batch: &mut Batch,
    decoder: &Decoder,
    sample: &Sample<'_>,
    (time, weight): (f64, Option<u32>),
    tasks: Option<&WatchedTasks>,
    sink: &mut dyn Sink,
) {
    let (chain, chain_len) = as_written(sample.callchain);
    // The chain and the tail are made once, and only if a role takes the sample.
    let mut walked = decoder.chained.is_none();
    let (mut tailed, layout) = (!decoder.has_tail, &decoder.layout);
    let mut slot = Slot {
        time,
        chain,
        chain_len: chain_len as u16,
        ip: sample.ip,
        addr: sample.addr,
        period: sample.period,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu as u16,
        ..Slot::of(sample.raw)
    };
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
    if decoder.chained.is_some() || decoder.has_tail {
        batch.mark_full_if_chains_low();
    }
}

/// Returns the thread ID at an offset of a raw record. It has four bytes, which was checked against
/// the format when the event was declared.
fn thread_at(raw: &[u8], at: usize) -> Option<u32> {
    let bytes = raw.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
