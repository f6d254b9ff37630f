//! From a decoded sample to the slots of the roles that want it.

use std::collections::HashSet;

use super::chains::as_written;
use super::open::Decoder;
use super::{Batch, Sink};
use crate::base::slot::Slot;
use crate::decode::sample::{Plain, Sample};
use crate::event::filter;

/// The usual slot.
#[inline(always)]
pub(super) fn push_plain(batch: &mut Batch, role: u16, sample: &Plain<'_>, time: f64) {
    batch.push(Slot {
        time,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu as u16,
        ev: role,
        ..Slot::of(sample.raw)
    });
}

/// A slot for each role that wants the sample.
#[inline(always)]
pub(super) fn push(
    batch: &mut Batch,
    decoder: &Decoder,
    sample: &Sample<'_>,
    time: f64,
    tasks: Option<&HashSet<u32>>,
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
    for (index, (role, filter)) in decoder.roles.iter().enumerate() {
        let about = decoder.about.get(index).copied().flatten();
        if let (Some(at), Some(tasks)) = (about, tasks)
            && !thread_at(sample.raw, at).is_some_and(|tid| tasks.contains(&tid))
        {
            continue;
        }
        let seen = || filter::Context { raw: sample.raw, cpu: sample.cpu, comm: b"" };
        if decoder.off.contains(role)
            || filter.as_ref().is_some_and(|filter| !filter.passes(&seen()))
        {
            continue;
        }
        if let (false, Some(chained)) = (walked, &decoder.chained) {
            let (chain, chain_len) = batch.chains().of(chained, &decoder.layout, sample, sink);
            (slot.chain, slot.chain_len) = (chain, chain_len as u16);
            walked = true;
        }
        slot.ev = *role as u16;
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
