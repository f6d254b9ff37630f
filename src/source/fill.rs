//! From a decoded sample to the slots of the roles that want it.

use super::Batch;
use super::open::Decoder;
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
pub(super) fn push(batch: &mut Batch, decoder: &Decoder, sample: &Sample<'_>, time: f64) {
    let mut slot = Slot {
        time,
        ip: sample.ip,
        addr: sample.addr,
        period: sample.period,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu as u16,
        // An empty slice points to no place in particular.
        chain: if sample.callchain.is_empty() {
            std::ptr::null()
        } else {
            sample.callchain.as_ptr()
        },
        chain_len: sample.callchain.len() as u16,
        ..Slot::of(sample.raw)
    };
    for (role, filter) in &decoder.roles {
        let seen = || filter::Context { raw: sample.raw, cpu: sample.cpu, comm: b"" };
        if decoder.off.contains(role)
            || filter.as_ref().is_some_and(|filter| !filter.passes(&seen()))
        {
            continue;
        }
        slot.ev = *role as u16;
        batch.push(slot);
    }
}
