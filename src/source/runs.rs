//! The usual records, many in a row: plain samples of one ring, taken in loops whose state stays in registers.
//!
//! What is not plain (a record of a task, one that wraps, an event that two roles want) is for [`Live::take`](super::live).

use super::fill::push_plain;
use super::ids::Ids;
use super::live::{Live, SAMPLE};
use super::open::{CpuRing, Decoder, Opened};
use crate::decode::sample::{Plain, identifier};
use crate::order::{Next, Order};
use crate::sys::ring::Piece;

impl Live {
    /// Takes records of a ring as long as they are the usual ones: samples of the plain layout that do not wrap, for
    /// one role. What comes then is for [`Live::take`]. A loop of its own, so that its state stays in registers.
    pub(super) fn take_plain(&mut self, index: usize) {
        let Opened { rings, ids, decoders, .. } = &mut self.opened;
        let ring = &mut rings[index];
        let (mut at, mut last) = (ring.at, ring.last);
        while !self.batch.is_full(1) {
            let Some(((role, sample), length)) = plain_at(ring, at, ids, decoders) else { break };
            at += length;
            last = last.max(sample.time);
            push_plain(&mut self.batch, role, &sample, self.clock.since_start(sample.time));
        }
        (ring.at, ring.last) = (at, last);
    }

    /// Takes the record that is the earliest and those behind it, as long as they are plain, the earliest in their turn and not
    /// out of order; then offers what comes. False, with nothing done, if that first one is not plain.
    pub(super) fn take_run(&mut self, order: &mut Order, first: Next, limit: u64) -> bool {
        let until = order.run_until(limit);
        let Opened { rings, ids, decoders, .. } = &mut self.opened;
        let ring = &mut rings[first.ring];
        let (mut at, mut taken) = (ring.at, None);
        let next = loop {
            let Some((plain, length)) = plain_at(ring, at, ids, decoders) else { break None };
            let (role, sample) = plain;
            let time = match taken {
                None => first.time,
                Some(last) if sample.time < last => break None,
                Some(_) if sample.time >= until || self.batch.is_full(self.room) => {
                    break Some(sample.time);
                }
                Some(_) => sample.time,
            };
            at += length;
            taken = Some(time);
            // Before the last ring was enabled, only some CPUs were seen: nothing can be related yet.
            if time >= self.start {
                push_plain(&mut self.batch, role, &sample, self.clock.since_start(time));
            }
        };
        let Some(last) = taken else { return false };
        ring.at = at;
        ring.last = ring.last.max(last);
        order.took(last);
        match next {
            Some(time) => order.offer(first.ring, time),
            None => self.offer(order, first.ring),
        }
        true
    }
}

/// The usual record, if it is one that stands at `at`: a sample of the plain layout that does not wrap, and the only role
/// that wants it. And its length.
#[inline(always)]
fn plain_at<'a>(
    ring: &'a CpuRing,
    at: u64,
    ids: &Ids,
    decoders: &[Decoder],
) -> Option<((u16, Plain<'a>), u64)> {
    let Ok(Some(piece)) = ring.ring.piece(at, ring.head) else { return None };
    let Piece::Single(bytes) = piece else { return None };
    let decoder = decoders.get(ids.get(identifier(bytes)?)? as usize)?;
    let (Some(role), SAMPLE) = (decoder.plain, piece.kind()) else { return None };
    let sample = Plain::read(bytes)?;
    (sample.raw.len() >= decoder.raw_min).then_some(((role, sample), bytes.len() as u64))
}
