//! From a decoded sample to the slots of the roles that want it.

use super::Batch;
use super::open::Decoder;
use crate::base::slot::Slot;
use crate::decode::sample::{Plain, Sample};
use crate::event::filter;

/// The usual slot.
#[inline(always)]
pub(super) fn push_plain(batch: &mut Batch, role: u32, sample: &Plain<'_>, time: f64) {
    batch.push(Slot {
        time,
        raw: sample.raw.as_ptr(),
        raw_size: sample.raw.len() as u32,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu,
        ev: role,
        ..Slot::EMPTY
    });
}

/// A slot for each role that wants the sample.
#[inline(always)]
pub(super) fn push(batch: &mut Batch, decoder: &Decoder, sample: &Sample<'_>, time: f64) {
    let mut slot = Slot {
        time,
        raw: sample.raw.as_ptr(),
        // An empty slice points to no place in particular.
        chain: if sample.callchain.is_empty() {
            std::ptr::null()
        } else {
            sample.callchain.as_ptr()
        },
        ip: sample.ip,
        addr: sample.addr,
        period: sample.period,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu,
        ev: 0,
        raw_size: sample.raw.len() as u32,
        chain_len: sample.callchain.len() as u32,
    };
    for (role, filter) in &decoder.roles {
        let seen = || filter::Context { raw: sample.raw, cpu: sample.cpu, comm: b"" };
        if decoder.off.contains(role)
            || filter.as_ref().is_some_and(|filter| !filter.passes(&seen()))
        {
            continue;
        }
        slot.ev = *role;
        batch.push(slot);
    }
}
