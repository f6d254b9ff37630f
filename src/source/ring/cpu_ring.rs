//! One CPU's ring, how far it was read, and what is known of its losses.

use super::delivery::Delivery;
use super::loss_window::LossWindows;
use super::presence::Presence;
use super::staged::Staged;
use crate::sys::clock::monotonic_ns;
use crate::sys::perf::PerfEvent;
use crate::sys::ring::{Ring, Scratch};

/// A CPU's ring and its read position.
pub(in crate::source) struct CpuRing {
    pub(in crate::source) cpu: u32,
    /// Whether no event writes here, only records of tasks.
    pub(in crate::source) tasks_only: bool,
    pub(in crate::source) owner: PerfEvent,
    pub(in crate::source) ring: Ring,
    pub(in crate::source) scratch: Scratch,
    /// Offset of the next unread record; what precedes it may not have been released yet.
    pub(in crate::source) at: u64,
    /// The kernel's head at the last look.
    pub(in crate::source) head: u64,
    /// The event clock just after the last look: everything up to `head` was written before.
    pub(in crate::source) looked_at: u64,
    /// The event clock at the look before: nothing unread at that look was written earlier, since
    /// rings are read to their end. Samples without a time get this one.
    pub(in crate::source) looked_before: u64,
    /// The record at `at`, if rings are merged.
    pub(in crate::source) staged: Staged,
    /// Latest time read, for the window of a loss; at first, the time before the events were
    /// enabled.
    pub(in crate::source) last: u64,
    /// Whether it was nearly full, or a LOST record was seen, since its losses were last read.
    pub(in crate::source) lost_counts_stale: bool,
    /// State of its loss windows.
    pub(in crate::source) loss_windows: LossWindows,
    /// Records lost by events that wrote here and were closed.
    pub(in crate::source) lost_of_closed: u64,
    /// Records lost by earlier dummies.
    pub(in crate::source) owner_lost_before: u64,
    /// Comparison of counted and delivered samples.
    pub(in crate::source) delivery: Delivery,
    /// Whether its CPU is online.
    pub(in crate::source) presence: Presence,
}

impl CpuRing {
    /// Returns a ring that nothing was read from yet.
    pub(in crate::source) fn new(
        cpu: u32,
        owner: PerfEvent,
        ring: Ring,
        tasks_only: bool,
    ) -> CpuRing {
        CpuRing {
            cpu,
            tasks_only,
            owner,
            ring,
            scratch: Scratch::new(),
            at: 0,
            head: 0,
            looked_at: monotonic_ns(),
            looked_before: 0,
            staged: Staged::NONE,
            last: 0,
            lost_counts_stale: false,
            loss_windows: LossWindows::new(tasks_only),
            lost_of_closed: 0,
            owner_lost_before: 0,
            delivery: Delivery::default(),
            presence: Presence::default(),
        }
    }

    /// Returns how many records of tasks the kernel dropped so far; None if it does not count them
    /// (before 6.0).
    pub(in crate::source) fn lost_of_tasks(&self) -> Option<u64> {
        Some(self.owner.lost()? + self.owner_lost_before)
    }
}
