//! State of the loss windows of one ring: time ranges in which it was full and the kernel dropped
//! records.

use crate::sys::ring::{Piece, Ring};
use perf_event_open_sys::bindings::PERF_RECORD_LOST;

/// Upper bound of a record's size, which is a `u16`.
const LONGEST: u64 = 1 << 16;
/// Offset of the number of lost records in a LOST record: after the header and an ID.
const COUNT_AT: usize = 16;

/// State of the loss windows of one ring.
#[derive(Default)]
pub(in crate::source) struct LossWindows {
    /// Whether no event writes here: a loss then breaks no relation between events.
    tasks_only: bool,
    /// Whether it was nearly full when checked and has not been read to its end since.
    pub(in crate::source) full: bool,
    /// Records lost according to the LOST records handled so far.
    recorded: u64,
    /// Records lost in loss windows that have been reported.
    pub(in crate::source) reported: u64,
    /// End of the last loss window that was found through the counts, on the event clock.
    pub(in crate::source) reported_until: u64,
    /// Whether the loss window in front of the next LOST record has been reported.
    pub(in crate::source) next_is_reported: bool,
    /// Whether the end of the ring was offered, to look for a loss window there.
    pub(in crate::source) end_offered: bool,
    /// Lost records of tasks so far.
    of_tasks: u64,
    /// A LOST record at or before this position may cover one of these.
    of_tasks_until: u64,
}

impl LossWindows {
    /// Returns the state without loss windows. In a `tasks_only` ring, which no event writes to,
    /// none is reported.
    pub(in crate::source) fn new(tasks_only: bool) -> LossWindows {
        LossWindows { tasks_only, ..LossWindows::default() }
    }

    /// Notes the fill of a ring of this capacity.
    #[inline]
    pub(in crate::source) fn note_fill(&mut self, fill: u64, capacity: u64) {
        self.full |= !self.tasks_only && fill > 0 && fill + LONGEST.max(capacity / 8) >= capacity;
    }

    /// Returns whether the end of the ring was offered to a merge.
    #[inline]
    pub(in crate::source) fn is_end_offered(&self) -> bool {
        self.end_offered
    }

    /// Handles a LOST record of `count` records, at `time` of the event clock.
    pub(in crate::source) fn add_lost(&mut self, count: u64, time: u64) {
        self.recorded += count;
        // After the last loss window found through the counts, all reported losses have been
        // recorded.
        let reported = if time > self.reported_until { 0 } else { self.reported };
        self.reported = reported.max(self.recorded);
        self.next_is_reported = false;
    }

    /// Returns whether the records lost according to a LOST record at `position` may include
    /// records of tasks.
    pub(in crate::source) fn of_tasks(
        &mut self,
        position: u64,
        of_owner: Option<u64>,
        ring: &Ring,
    ) -> bool {
        // A kernel that does not count them may have dropped some.
        if of_owner.is_none_or(|lost| lost > self.of_tasks) {
            self.of_tasks_until = ring.head();
        }
        // The count is current: its increase may belong to any loss window up to here. The LOST
        // record of the latest loss will be the first record after the head, which is not written
        // yet.
        self.of_tasks = of_owner.unwrap_or(0);
        position <= self.of_tasks_until
    }

    /// Returns whether a record follows a loss window that has not been reported.
    pub(in crate::source) fn follows_unreported_window(&self, record: &Piece<'_>) -> bool {
        let is_reported = |count| {
            self.tasks_only || self.next_is_reported || self.recorded + count <= self.reported
        };
        lost(record).is_some_and(|count| !is_reported(count))
    }
}

fn lost(record: &Piece<'_>) -> Option<u64> {
    (record.kind() == PERF_RECORD_LOST).then(|| record.u64_at(COUNT_AT)).flatten()
}
