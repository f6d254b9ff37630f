//! Drains rings into the batch, record by record.
//!
//! A batch's slots point into the rings, so a ring's tail moves only after its batch was
//! dispatched. A record that wraps is copied into its ring's scratch; between two releases there is
//! at most one such record.

use super::{Live, SLACK_NS};
use crate::base::event::slot::Slot;
use crate::source::open::opened::OpenedSource;
use crate::source::ring::decoder::SAMPLE;
use crate::source::ring::fill::{UsualSample, plain, push, usual_at};
use crate::source::ring::openings::Openings;
use crate::source::sink::{SideBand, Sink};
use crate::sys::clock::monotonic_ns;

/// Fill level of a ring from which on its losses are read.
const NEARLY_FULL: (u64, u64) = (7, 8);
impl Live {
    /// Hands on what the rings hold, ring by ring.
    pub(super) fn drain_rings(&mut self, sink: &mut dyn Sink) {
        // Names first: a task that was forked on an unwatched CPU may have run on a watched one.
        for turn in 0..2 * self.opened.rings.len() {
            let (of_tasks, index) =
                (turn < self.opened.rings.len(), turn % self.opened.rings.len());
            if self.opened.rings[index].tasks_only != of_tasks {
                continue;
            }
            self.look(index);
            while self.opened.rings[index].at < self.opened.rings[index].head {
                self.take_plain(index);
                if !self.batch.is_full(self.slots_per_record) {
                    self.take(index, None, sink);
                }
                if self.batch.is_full(self.slots_per_record) {
                    self.flush(sink);
                    self.release(index);
                    if sink.stopped() {
                        return;
                    }
                }
            }
            self.flush(sink);
            self.release(index);
        }
    }

    /// Reads how far the kernel has written.
    pub(super) fn look(&mut self, index: usize) {
        let ring = &mut self.opened.rings[index];
        ring.head = ring.ring.head();
        (ring.looked_before, ring.looked_at) = (ring.looked_at, monotonic_ns());
        let fill = ring.head.wrapping_sub(ring.ring.tail());
        let (part, whole) = NEARLY_FULL;
        ring.lost_counts_stale |= fill * whole >= ring.ring.capacity() * part;
        ring.loss_windows.note_fill(fill, ring.ring.capacity());
    }

    /// Adds records of a ring to the batch while they are the usual ones: samples that do not wrap,
    /// for one role. The next record is for [`Live::take`]. This is a separate loop so that its
    /// state stays in registers.
    fn take_plain(&mut self, index: usize) {
        let OpenedSource { rings, ids, decoders, .. } = &mut self.opened;
        let openings = Openings { ids, decoders, own_pid: self.own_pid };
        let ring = &mut rings[index];
        let (mut at, mut last, mut taken) = (ring.at, ring.last, 0);
        let earliest = ring.looked_before;
        while !self.batch.is_full(1) {
            let Ok(Some(piece)) = ring.ring.piece(at, ring.head) else { break };
            let Some((place, memory)) = self.batch.place() else { break };
            let usual = usual_at(&piece, openings, (ring.cpu, earliest), place, Some(memory));
            let usual = usual.filter(|usual| usual.is_timed(last.max(earliest), ring.looked_at));
            let Some(UsualSample { time, is_each, .. }) = usual else { break };
            at += piece.len() as u64;
            taken += u64::from(is_each);
            last = last.max(time);
            place.time = self.clock.since_start(time);
            self.batch.add_written();
        }
        (ring.at, ring.last) = (at, last);
        ring.delivery.taken += taken;
    }

    /// Handles the next record of a ring: adds it to the batch, or passes it to the sink after the
    /// batch. `merge_time` is its time in a merge, which never decreases.
    pub(super) fn take(&mut self, index: usize, merge_time: Option<u64>, sink: &mut dyn Sink) {
        let OpenedSource { rings, ids, decoders, .. } = &mut self.opened;
        let openings = Openings { ids, decoders, own_pid: self.own_pid };
        let ring = &mut rings[index];
        let piece = match ring.ring.piece(ring.at, ring.head) {
            Ok(Some(piece)) => piece,
            Err(_) => {
                // Its length cannot be trusted: no record up to the head can be found any more.
                ring.at = ring.head;
                ring.delivery.broken = true;
                return sink.side(SideBand::undecodable(0.0, ring.cpu));
            }
            Ok(None) => return,
        };
        if piece.kind() != SAMPLE {
            return self.take_side(index, merge_time, sink);
        }
        ring.at += piece.len() as u64;
        let of_sample = openings.of_sample(|at| piece.u64_at(at));
        let bytes = piece.bytes(&mut ring.scratch);
        let Some((decoder, id)) = of_sample else {
            return sink.side(SideBand::undecodable(0.0, ring.cpu));
        };
        ring.delivery.taken += u64::from(decoder.samples_each);
        if let Some((role, layout)) = &decoder.plain {
            let Some(mut sample) = layout.read(bytes).filter(|s| s.raw.len() >= decoder.raw_min)
            else {
                return sink.side(SideBand::undecodable(0.0, ring.cpu));
            };
            (sample.pid, sample.tid) = decoder.task((sample.pid, sample.tid), sample.raw, sink);
            let time = sample.time.unwrap_or(ring.looked_before);
            ring.last = ring.last.max(time);
            if decoder.span.holds(time) {
                let time = self.clock.since_start(merge_time.unwrap_or(time));
                self.batch.push(Slot { time, ..plain(*role, &sample, ring.cpu) });
            }
            return;
        }
        let Some(mut sample) = decoder.sample(bytes, ring.cpu, ring.looked_before) else {
            return sink.side(SideBand::undecodable(0.0, ring.cpu));
        };
        (sample.pid, sample.tid) = decoder.task((sample.pid, sample.tid), sample.raw, sink);
        if decoder.has_own_id {
            // Records in flight may be older than the record before them.
            let possible = ring.last.saturating_sub(SLACK_NS)..=ring.looked_at;
            let from = merge_time.unwrap_or(ring.last.max(ring.looked_before));
            let is_foreign = openings.correct_foreign(decoder, &mut sample, possible, from);
            self.prepared_elsewhere += u64::from(is_foreign);
        }
        sample.id = id;
        ring.last = ring.last.max(sample.time);
        if let Some(pairs) = &decoder.pairs {
            return pairs.records.push(&mut self.batch, &sample, &self.clock, sink);
        }
        decoder.note_sample(index);
        if let (Some(cgroup), Some(tasks)) = (&decoder.cgroup, &mut self.tasks) {
            return cgroup.apply(&sample, &decoder.layout, tasks);
        }
        // Also of a sample that is dropped below: the next one must not stand for its events.
        let weight = decoder.weights.as_ref().map(|weights| weights.weigh(&sample));
        if weight == Some(0) {
            return;
        }
        let earliest = if decoder.has_own_id { sample.time } else { 0 };
        let time = merge_time.map_or(sample.time, |time| time.max(earliest));
        let tasks = self.tasks.as_ref();
        if !decoder.drops(&sample, tasks, self.own_pid) {
            let at = self.clock.since_start(time);
            let unset = decoder.unset_in(sample.raw);
            if let Some(unset) = unset {
                self.cleared.clear();
                self.cleared.extend_from_slice(sample.raw);
                unset.clear(&mut self.cleared);
                sample.raw = &self.cleared;
            }
            push(&mut self.batch, decoder, &sample, (at, weight, unset.is_some()), tasks, sink);
        } else if let Some(counts) = &decoder.counts {
            counts.pass(&sample);
        }
    }

    pub(super) fn flush(&mut self, sink: &mut dyn Sink) {
        if !self.batch.is_empty() {
            // SAFETY: the slots point into records that have not been released to the kernel yet,
            // into the copies of those that wrap, and into the batch's own chains; `release` comes
            // later. Each record was at least as long as its decoder's `raw_min`; that of a written
            // pair is a copy, as long as the format of its side.
            unsafe { sink.dispatch(&mut self.batch) };
            self.batch.clear();
        }
    }

    /// Releases what was read to the kernel.
    pub(super) fn release(&mut self, index: usize) {
        let ring = &mut self.opened.rings[index];
        ring.ring.release(ring.at);
    }

    pub(super) fn release_all(&mut self) {
        for index in 0..self.opened.rings.len() {
            self.release(index);
        }
    }
}
