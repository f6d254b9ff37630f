//! Holes: time ranges in which a ring was full and the kernel dropped records.
//!
//! Events must not be related across a hole, nor to events of other rings within it: the event that
//! ended a state, or started another, may be missing. A merge therefore reports a hole before it
//! hands on anything later than the last record in front of it:
//!
//! - If a LOST record follows, it is offered twice: at the time of the record before it, to report
//!   the hole, and at its own time.
//! - The kernel writes a LOST record only when the next record fits. When a nearly full ring has
//!   been read to its end and released, the events' own counts (`PERF_FORMAT_LOST`) show whether
//!   records were dropped meanwhile; the hole ends then.

use super::live::Live;
use super::merged::time_of;
use super::open::OpenedSource;
use super::rings::CpuRing;
use super::{Happening, SideBand, Sink};
use crate::order::Order;
use crate::sys::clock::monotonic_ns;
use crate::sys::ring::{Piece, Ring};
use perf_event_open_sys::bindings::PERF_RECORD_LOST;

/// Upper bound of a record's size, which is a `u16`.
const LONGEST: u64 = 1 << 16;
/// Offset of the number of lost records in a LOST record: after the header and an ID.
const COUNT_AT: usize = 16;

/// State of the holes of one ring.
#[derive(Default)]
pub(super) struct LossWindows {
    /// Whether no event writes here: a loss then breaks no relation between events.
    tasks_only: bool,
    /// Whether it was nearly full when checked and has not been read to its end since.
    full: bool,
    /// Records lost according to the LOST records handled so far.
    recorded: u64,
    /// Records lost in holes that have been reported.
    reported: u64,
    /// End of the last hole that was found through the counts, on the event clock.
    reported_until: u64,
    /// Whether the hole in front of the next LOST record has been reported.
    next_is_reported: bool,
    /// Whether the end of the ring was offered, to look for a hole there.
    end_offered: bool,
    /// Lost records of tasks so far.
    of_tasks: u64,
    /// A LOST record at or before this position may cover one of these.
    of_tasks_until: u64,
}

impl LossWindows {
    /// Returns the state without holes. In a `tasks_only` ring, which no event writes to, none is
    /// reported.
    pub(super) fn new(tasks_only: bool) -> LossWindows {
        LossWindows { tasks_only, ..LossWindows::default() }
    }

    /// Notes the fill of a ring of this capacity.
    #[inline]
    pub(super) fn note_fill(&mut self, fill: u64, capacity: u64) {
        self.full |= !self.tasks_only && fill > 0 && fill + LONGEST.max(capacity / 8) >= capacity;
    }

    /// Returns whether the end of the ring was offered to a merge.
    #[inline]
    pub(super) fn is_end_offered(&self) -> bool {
        self.end_offered
    }

    /// Handles a LOST record of `count` records, at `time` of the event clock.
    pub(super) fn add_lost(&mut self, count: u64, time: u64) {
        self.recorded += count;
        // After the last hole found through the counts, all reported losses have been recorded.
        let reported = if time > self.reported_until { 0 } else { self.reported };
        self.reported = reported.max(self.recorded);
        self.next_is_reported = false;
    }

    /// Returns whether the records lost according to a LOST record at `position` may include
    /// records of tasks.
    pub(super) fn of_tasks(&mut self, position: u64, of_owner: Option<u64>, ring: &Ring) -> bool {
        // A kernel that does not count them may have dropped some.
        if of_owner.is_none_or(|lost| lost > self.of_tasks) {
            self.of_tasks_until = ring.head();
        }
        // The count is current: its increase may belong to any hole up to here. The LOST record of
        // the latest loss will be the first record after the head, which is not written yet.
        self.of_tasks = of_owner.unwrap_or(0);
        position <= self.of_tasks_until
    }

    /// Returns whether a record follows a hole that has not been reported.
    fn follows_unreported_hole(&self, record: &Piece<'_>) -> bool {
        let is_reported = |count| {
            self.tasks_only || self.next_is_reported || self.recorded + count <= self.reported
        };
        lost(record).is_some_and(|count| !is_reported(count))
    }
}

/// Returns when a hole in front of the next record of a ring must be reported, if there is one: as
/// early as possible.
pub(super) fn due_before(ring: &CpuRing, next: &Piece<'_>, order: &Order) -> Option<u64> {
    ring.holes.follows_unreported_hole(next).then(|| ring.last.max(order.last()))
}

/// Returns when to look for a hole at the end of a ring, if it was nearly full.
pub(super) fn due_at_end(ring: &mut CpuRing, order: &Order) -> Option<u64> {
    ring.holes.end_offered = ring.holes.full;
    ring.holes.full.then(|| ring.last.max(order.last()))
}

fn lost(record: &Piece<'_>) -> Option<u64> {
    (record.kind() == PERF_RECORD_LOST).then(|| record.u64_at(COUNT_AT)).flatten()
}

impl Live {
    /// Reports the hole at the read position of a ring, if it has not been reported. Returns false
    /// if the record there must be handled instead.
    pub(super) fn report_hole(&mut self, index: usize, sink: &mut dyn Sink) -> bool {
        let OpenedSource { rings, ids, decoders, side_layout, .. } = &mut self.opened;
        let ring = &mut rings[index];
        let to = match ring.ring.piece(ring.at, ring.head) {
            Ok(None) => return self.look_for_hole(index, sink),
            Ok(Some(piece)) if ring.holes.follows_unreported_hole(&piece) => {
                time_of(&piece, ids, decoders, side_layout)
            }
            _ => return false,
        };
        ring.holes.next_is_reported = true;
        let to = to.unwrap_or(ring.last);
        self.hole(index, to, sink);
        true
    }

    /// Asks the kernel what it dropped from a ring that was nearly full, after making room again.
    fn look_for_hole(&mut self, index: usize, sink: &mut dyn Sink) -> bool {
        self.flush(sink);
        self.release(index);
        let lost = self.lost_of(index);
        let ring = &mut self.opened.rings[index];
        (ring.holes.full, ring.holes.end_offered) = (false, false);
        // A kernel that does not count losses may have dropped some.
        if lost.is_none_or(|lost| lost > ring.holes.reported) {
            let now = monotonic_ns();
            (ring.holes.reported, ring.holes.reported_until) =
                (lost.unwrap_or(ring.holes.reported), now);
            self.hole(index, now, sink);
        }
        true
    }

    /// Returns how many records of a ring the kernel dropped so far; None if it does not count them
    /// (before 6.0).
    fn lost_of(&self, index: usize) -> Option<u64> {
        let ring = &self.opened.rings[index];
        let open = self.opened.events.iter().filter(|open| open.cpu == ring.cpu);
        let of_events = open.map(|open| open.event.lost()).sum::<Option<u64>>()?;
        Some(of_events + ring.lost_of_tasks()? + ring.lost_of_closed)
    }

    pub(super) fn hole(&mut self, index: usize, to: u64, sink: &mut dyn Sink) {
        self.flush(sink);
        let ring = &self.opened.rings[index];
        let from = self.clock.since_start(ring.last).max(0.0);
        let to = self.clock.since_start(to).max(from);
        sink.side(SideBand {
            time: from,
            cpu: ring.cpu,
            watched: true,
            what: Happening::Hole { from, to },
        });
    }
}
