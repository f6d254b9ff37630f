//! Holes: where a ring was full and the kernel dropped records.
//!
//! Nothing may be related across a hole, nor with what other rings hold of that time: the event that ended a state, or
//! began another, may be among the missing. So a merge tells of a hole before it hands on anything that is later than the last
//! record in front of it:
//!
//! - Where a LOST record stands behind that one, it is offered twice: at the time of the record before it, to tell of the
//!   hole, and at its own.
//! - The kernel writes that record only when the next one fits. So when a ring that was nearly full has been read to its end and
//!   given back, the events' own counts (`PERF_FORMAT_LOST`) say whether anything was dropped meanwhile: the hole ends then.

use super::live::Live;
use super::merged::time_of;
use super::open::Opened;
use super::rings::CpuRing;
use super::{Happening, Side, Sink};
use crate::order::Order;
use crate::sys::clock::monotonic_ns;
use crate::sys::ring::{Piece, Ring};
use perf_event_open_sys::bindings::PERF_RECORD_LOST;

/// No record is longer: its size is a `u16`.
const LONGEST: u64 = 1 << 16;
/// Where a LOST record counts what was lost: behind its header and an id.
const COUNT_AT: usize = 16;

/// What is known of the holes of one ring.
#[derive(Default)]
pub(super) struct Holes {
    /// No event writes here: what is missing relates nothing.
    tasks_only: bool,
    /// It had little room when it was looked at, and has not been read to its end since.
    full: bool,
    /// Records missing by the LOST records that were taken.
    recorded: u64,
    /// Records missing from holes that were told.
    told: u64,
    /// When the last of them that the counts told of ended, by the event clock.
    told_until: u64,
    /// The LOST record that comes next stands behind a hole that was told.
    announced: bool,
    /// The end of the ring was offered, to look for a hole there.
    looking: bool,
    /// Records of tasks missing so far.
    of_tasks: u64,
    /// A LOST record at or before this place may tell of one of these.
    of_tasks_until: u64,
}

impl Holes {
    /// None yet; `tasks_only` is a ring that no event writes to, which has none.
    pub(super) fn new(tasks_only: bool) -> Holes {
        Holes { tasks_only, ..Holes::default() }
    }

    /// Notes how much of a ring was filled when it was looked at.
    #[inline]
    pub(super) fn look(&mut self, fill: u64, capacity: u64) {
        self.full |= !self.tasks_only && fill > 0 && fill + LONGEST.max(capacity / 8) >= capacity;
    }

    /// Whether the end of the ring was offered to a merge.
    #[inline]
    pub(super) fn is_looking(&self) -> bool {
        self.looking
    }

    /// Takes a LOST record: so many, as the event clock stood at `time`.
    pub(super) fn took(&mut self, count: u64, time: u64) {
        self.recorded += count;
        // Behind the last hole that was told, all that was told is recorded.
        let told = if time > self.told_until { 0 } else { self.told };
        self.told = told.max(self.recorded);
        self.announced = false;
    }

    /// Whether records of tasks may be among those that a LOST record at `position` of a ring tells of.
    pub(super) fn of_tasks(&mut self, position: u64, of_owner: Option<u64>, ring: &Ring) -> bool {
        // A kernel that does not count them may have lost some.
        if of_owner.is_none_or(|lost| lost > self.of_tasks) {
            self.of_tasks_until = ring.head();
        }
        // The count is of now: any hole up to here may have what it grew by. That of the latest loss is told by the
        // first record behind the head, which is not written yet.
        self.of_tasks = of_owner.unwrap_or(0);
        position <= self.of_tasks_until
    }

    /// Whether a record stands behind a hole that was not told yet.
    fn is_behind_untold(&self, record: &Piece<'_>) -> bool {
        let is_told =
            |count| self.tasks_only || self.announced || self.recorded + count <= self.told;
        lost(record).is_some_and(|count| !is_told(count))
    }
}

/// When a hole is to be told in front of the next record of a ring, if there is one: as soon as possible.
pub(super) fn due_before(ring: &CpuRing, next: &Piece<'_>, order: &Order) -> Option<u64> {
    ring.holes.is_behind_untold(next).then(|| ring.last.max(order.last()))
}

/// When a hole is to be looked for at the end of a ring, if it was nearly full.
pub(super) fn due_at_end(ring: &mut CpuRing, order: &Order) -> Option<u64> {
    ring.holes.looking = ring.holes.full;
    ring.holes.full.then(|| ring.last.max(order.last()))
}

fn lost(record: &Piece<'_>) -> Option<u64> {
    (record.kind() == PERF_RECORD_LOST).then(|| record.u64_at(COUNT_AT)).flatten()
}

impl Live {
    /// Tells of the hole at the place where a ring is read, if it was not told yet. False when the record there is to be taken.
    pub(super) fn tell_hole(&mut self, index: usize, sink: &mut dyn Sink) -> bool {
        let Opened { rings, ids, decoders, side_layout, .. } = &mut self.opened;
        let ring = &mut rings[index];
        let to = match ring.ring.piece(ring.at, ring.head) {
            Ok(None) => return self.look_for_hole(index, sink),
            Ok(Some(piece)) if ring.holes.is_behind_untold(&piece) => {
                time_of(&piece, ids, decoders, side_layout)
            }
            _ => return false,
        };
        ring.holes.announced = true;
        let to = to.unwrap_or(ring.last);
        self.hole(index, to, sink);
        true
    }

    /// Asks the kernel what it dropped of a ring that was nearly full, once there is room again.
    fn look_for_hole(&mut self, index: usize, sink: &mut dyn Sink) -> bool {
        self.flush(sink);
        self.release(index);
        let lost = self.lost_of(index);
        let ring = &mut self.opened.rings[index];
        (ring.holes.full, ring.holes.looking) = (false, false);
        // A kernel that does not count may have dropped some.
        if lost.is_none_or(|lost| lost > ring.holes.told) {
            let now = monotonic_ns();
            (ring.holes.told, ring.holes.told_until) = (lost.unwrap_or(ring.holes.told), now);
            self.hole(index, now, sink);
        }
        true
    }

    /// Records of a ring that the kernel dropped so far; None where it does not count them (before 6.0).
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
        sink.side(Side {
            time: from,
            cpu: ring.cpu,
            watched: true,
            what: Happening::Hole { from, to },
        });
    }
}
