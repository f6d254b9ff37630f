//! Loss windows: time ranges in which a ring was full and the kernel dropped records.
//!
//! Events must not be related across a loss window, nor to events of other rings within it: the
//! event that ended a state, or started another, may be missing. A merge therefore reports a loss
//! window before it hands on anything later than the last record in front of it:
//!
//! - If a LOST record follows, it is offered twice: at the time of the record before it, to report
//!   the loss window, and at its own time.
//! - The kernel writes a LOST record only when the next record fits. When a nearly full ring has
//!   been read to its end and released, the events' own counts (`PERF_FORMAT_LOST`) show whether
//!   records were dropped meanwhile; the loss window ends then.

use super::Live;
use crate::order::Order;
use crate::source::open::opened::OpenedSource;
use crate::source::ring::cpu_ring::CpuRing;
use crate::source::ring::openings::Openings;
use crate::source::sink::{SideBand, SideBandKind, Sink};
use crate::sys::clock::monotonic_ns;
use crate::sys::ring::Piece;

/// Returns when a loss window in front of the next record of a ring must be reported, if there is
/// one: as early as possible.
pub(super) fn due_before(ring: &CpuRing, next: &Piece<'_>, order: &Order) -> Option<u64> {
    ring.loss_windows.follows_unreported_window(next).then(|| ring.last.max(order.last()))
}

/// Returns when to look for a loss window at the end of a ring, if it was nearly full.
pub(super) fn due_at_end(ring: &mut CpuRing, order: &Order) -> Option<u64> {
    ring.loss_windows.end_offered = ring.loss_windows.full;
    ring.loss_windows.full.then(|| ring.last.max(order.last()))
}

impl Live {
    /// Reports the loss window at the read position of a ring, if it has not been reported. Returns
    /// false if the record there must be handled instead.
    pub(super) fn report_loss_window(&mut self, index: usize, sink: &mut dyn Sink) -> bool {
        let OpenedSource { rings, ids, decoders, side_layout, .. } = &mut self.opened;
        let openings = Openings { ids, decoders, own_pid: self.own_pid };
        let ring = &mut rings[index];
        let to = match ring.ring.piece(ring.at, ring.head) {
            Ok(None) => return self.look_for_loss_window(index, sink),
            Ok(Some(piece)) if ring.loss_windows.follows_unreported_window(&piece) => {
                openings.time_of(&piece, ring.last, side_layout)
            }
            _ => return false,
        };
        ring.loss_windows.next_is_reported = true;
        let to = to.unwrap_or(ring.last);
        self.report_window(index, to, sink);
        true
    }

    /// Asks the kernel what it dropped from a ring that was nearly full, after making room again.
    fn look_for_loss_window(&mut self, index: usize, sink: &mut dyn Sink) -> bool {
        self.flush(sink);
        self.release(index);
        let lost = self.lost_of(index);
        let ring = &mut self.opened.rings[index];
        (ring.loss_windows.full, ring.loss_windows.end_offered) = (false, false);
        // A kernel that does not count losses may have dropped some.
        if lost.is_none_or(|lost| lost > ring.loss_windows.reported) {
            let now = monotonic_ns();
            (ring.loss_windows.reported, ring.loss_windows.reported_until) =
                (lost.unwrap_or(ring.loss_windows.reported), now);
            self.report_window(index, now, sink);
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

    pub(super) fn report_window(&mut self, index: usize, to: u64, sink: &mut dyn Sink) {
        self.flush(sink);
        let ring = &self.opened.rings[index];
        let from = self.clock.since_start(ring.last).max(0.0);
        let to = self.clock.since_start(to).max(from);
        sink.side(SideBand {
            time: from,
            cpu: ring.cpu,
            watched: true,
            what: SideBandKind::LossWindow { from, to },
        });
    }
}
