//! From a decoded sample to the slots of the roles that want it.

use super::chains::as_written;
use super::decoder::{Decoder, ENDED};
use super::ids::Ids;
use super::live::SAMPLE;
use super::watched_tasks::WatchedTasks;
use super::{Batch, Sink};
use crate::base::slot::Slot;
use crate::decode::sample::{Plain, Sample, identifier};
use crate::event::filter;
use crate::sys::ring::Piece;

/// The usual record, if it is one: a sample of the plain layout that does not wrap, of a task that
/// has not ended, and the role that alone takes it.
#[inline(always)]
pub(super) fn plain_at<'a>(
    piece: &Piece<'a>,
    ids: &Ids,
    decoders: &[Decoder],
) -> Option<(u16, Plain<'a>)> {
    let Piece::Single(bytes) = *piece else { return None };
    let decoder = decoders.get(ids.get(identifier(bytes)?)? as usize)?;
    let (Some(role), SAMPLE) = (decoder.plain, piece.kind()) else { return None };
    let sample = Plain::read(bytes)?;
    let usual = sample.raw.len() >= decoder.raw_min && sample.tid != ENDED;
    (usual && decoder.span.holds(sample.time)).then_some((role, sample))
}

/// Its slot, but for the time.
#[inline(always)]
pub(super) fn plain(role: u16, sample: &Plain<'_>) -> Slot {
    Slot {
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu as u16,
        ev: role,
        ..Slot::of(sample.raw)
    }
}

/// A slot for each role that takes the sample.
#[inline(always)]
pub(super) fn push(
    batch: &mut Batch,
    decoder: &Decoder,
    sample: &Sample<'_>,
    time: f64,
    tasks: Option<&WatchedTasks>,
    sink: &mut dyn Sink,
) {
    let (chain, chain_len) = as_written(sample.callchain);
    // Walked once, and only if somebody wants it.
    let mut walked = decoder.chained.is_none();
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
    for taker in decoder.takers.iter().filter(|taker| taker.span.holds(sample.time)) {
        if let (Some(at), Some(tasks)) = (taker.about, tasks)
            && !thread_at(sample.raw, at).is_some_and(|tid| tasks.contains(tid))
        {
            continue;
        }
        let seen = || filter::Context { raw: sample.raw, cpu: sample.cpu, comm: b"" };
        if taker.own.as_ref().is_some_and(|filter| !filter.passes(&seen())) {
            continue;
        }
        if let (false, Some(chained)) = (walked, &decoder.chained) {
            let (chain, chain_len) = batch.chains().of(chained, &decoder.layout, sample, sink);
            (slot.chain, slot.chain_len) = (chain, chain_len as u16);
            walked = true;
        }
        slot.ev = taker.role as u16;
        batch.push(slot);
    }
    if decoder.chained.is_some() {
        batch.settle_chains();
    }
}

/// The thread id at an offset of a raw record: four bytes, as the format said when the event was declared.
fn thread_at(raw: &[u8], at: usize) -> Option<u32> {
    let bytes = raw.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}
