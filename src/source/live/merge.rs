//! Merges the rings of a run by time. The first unread record of each is staged, so that it is read
//! once.
//!
//! Records are handed on up to a limit that lies [`super::SLACK_NS`] behind the clock as read
//! before the ring heads. Everything older has been written on all CPUs, except records in flight,
//! whose order `Order` corrects. (The rings are stamped with `CLOCK_MONOTONIC` for this: with the
//! default perf clock, the latest record of any ring would have to be found as the limit, and idle
//! rings would need a record of their own.)

use super::Live;
use super::loss_windows::{due_at_end, due_before};
use crate::base::event::slot::Slot;
use crate::decode::sample::RecordLayout;
use crate::order::{NextRecord, Order};
use crate::source::open::opened::OpenedSource;
use crate::source::ring::cpu_ring::CpuRing;
use crate::source::ring::fill::{UsualSample, usual_at};
use crate::source::ring::openings::Openings;
use crate::source::ring::staged::Staged;
use crate::source::sink::Sink;

impl Live {
    /// Hands on, in order, what was written up to `until` (run time in nanoseconds).
    pub(super) fn drain_merged(&mut self, order: &mut Order, until: f64, sink: &mut dyn Sink) {
        for index in 0..self.opened.rings.len() {
            let ring = &self.opened.rings[index];
            let waiting = ring.at < ring.head || ring.loss_windows.is_end_offered();
            self.look(index);
            if !waiting {
                self.offer(order, index);
            }
        }
        let limit = self.clock.clock_ns(until);
        loop {
            let unusual = self.take_staged(order, limit);
            if let Some(next) = unusual {
                if self.report_loss_window(next.ring, sink) {
                    self.offer(order, next.ring);
                } else {
                    self.take(next.ring, Some(next.time), sink);
                    self.take_run(order, next.ring, limit);
                }
            }
            if self.batch.is_full(self.slots_per_record) {
                self.flush(sink);
                self.release_all();
                if sink.stopped() {
                    return;
                }
            } else if unusual.is_none() {
                break;
            }
        }
        self.flush(sink);
        self.release_all();
    }

    /// Adds staged records to the batch while there is room and they are the earliest of all.
    /// Returns the next record if it is not staged. This is a separate loop so that its state stays
    /// in registers.
    fn take_staged(&mut self, order: &mut Order, limit: u64) -> Option<NextRecord> {
        while !self.batch.is_full(self.slots_per_record) {
            let next = order.take(limit)?;
            let ring = &mut self.opened.rings[next.ring];
            let Staged { slot, time, length, is_each } = ring.staged;
            if length == 0 {
                return Some(next);
            }
            ring.at += length;
            ring.delivery.taken += u64::from(is_each);
            ring.last = ring.last.max(time);
            self.batch.push(Slot { time: self.clock.since_start(next.time), ..slot });
            self.take_run(order, next.ring, limit);
        }
        None
    }

    /// Adds the next records of a ring to the batch while they are the earliest of all, and offers
    /// the first one that is not.
    #[inline(always)]
    fn take_run(&mut self, order: &mut Order, index: usize, limit: u64) {
        let OpenedSource { rings, ids, decoders, side_layout, .. } = &mut self.opened;
        let openings = Openings { ids, decoders, own_pid: self.own_pid };
        let ring = &mut rings[index];
        let end = order.run_end().min(limit.saturating_add(1));
        while !self.batch.is_full(self.slots_per_record) {
            let Ok(Some(piece)) = ring.ring.piece(ring.at, ring.head) else { break };
            let Some((place, memory)) = self.batch.place() else { break };
            let used = memory.words.len();
            let usual = usual_at(&piece, openings, (ring.cpu, 0), place, Some(memory));
            let usual = usual.filter(|usual| usual.is_timed(ring.last, ring.looked_at));
            let Some(UsualSample { time, is_each, .. }) = usual else { break };
            let length = piece.len() as u64;
            if !(order.last()..end).contains(&time) {
                // A staged slot may outlive the memory of the batch.
                let is_in_ring = memory.words.len() == used;
                memory.words.truncate(used);
                let length = if is_in_ring { length } else { 0 };
                ring.staged = Staged { slot: *place, time, length, is_each };
                return order.offer(index, time);
            }
            place.time = self.clock.since_start(time);
            self.batch.add_written();
            order.pass(time);
            ring.at += length;
            ring.delivery.taken += u64::from(is_each);
            ring.last = ring.last.max(time);
        }
        stage(order, index, ring, openings, side_layout);
    }

    fn offer(&mut self, order: &mut Order, index: usize) {
        let OpenedSource { rings, ids, decoders, side_layout, .. } = &mut self.opened;
        let openings = Openings { ids, decoders, own_pid: self.own_pid };
        stage(order, index, &mut rings[index], openings, side_layout);
    }
}

/// Offers the first unread record of a ring, if there is one; stages it if it is the usual one.
#[inline(always)]
fn stage(
    order: &mut Order,
    index: usize,
    ring: &mut CpuRing,
    of: Openings<'_>,
    side: &RecordLayout,
) {
    let piece = match ring.ring.piece(ring.at, ring.head) {
        Ok(Some(piece)) => piece,
        Ok(None) => {
            ring.staged.length = 0;
            if let Some(time) = due_at_end(ring, order) {
                order.offer(index, time);
            }
            return;
        }
        Err(_) => {
            // Offered at once; `Live::take` reports it.
            ring.staged.length = 0;
            return order.offer(index, ring.last);
        }
    };
    // Every sample has a time here.
    let usual = usual_at(&piece, of, (ring.cpu, 0), &mut ring.staged.slot, None);
    let usual = usual.filter(|usual| usual.is_timed(ring.last, ring.looked_at));
    if let Some(UsualSample { time, is_each, .. }) = usual {
        let length = piece.len() as u64;
        (ring.staged.time, ring.staged.length, ring.staged.is_each) = (time, length, is_each);
        return order.offer(index, time);
    }
    // A record later than the clock would stop the ring for good: `Live::take_side` refuses it.
    let time = due_before(ring, &piece, order)
        .or_else(|| of.time_of(&piece, ring.last, side).filter(|time| *time <= ring.looked_at))
        .unwrap_or(ring.last.max(order.last()));
    ring.staged.length = 0;
    order.offer(index, time);
}
