//! The first unread record of a ring in a merge.

use crate::base::event::slot::Slot;

/// The usual record, read when its ring offered it and added to the batch when it is the earliest
/// of all.
pub(in crate::source) struct Staged {
    /// The slot without its time.
    pub(in crate::source) slot: Slot,
    /// Nanoseconds of the event clock.
    pub(in crate::source) time: u64,
    /// Bytes in the ring; 0 when the first unread record is not staged.
    pub(in crate::source) length: u64,
    /// Whether its event writes a sample for each event that it counts.
    pub(in crate::source) is_each: bool,
}

impl Staged {
    /// No staged record.
    pub(in crate::source) const NONE: Staged =
        Staged { slot: Slot::EMPTY, time: 0, length: 0, is_each: false };
}
