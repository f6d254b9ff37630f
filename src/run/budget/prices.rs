//! Prices of events: what each costs the traced task in the kernel.

use super::controller::Prices;
use crate::event::sampling::{CallGraph, StackSampling};
use crate::sys::tracefs::Tracefs;
use crate::sys::tracepoint_overhead::{self, StackCopy};

/// Prices of this machine's kind, in nanoseconds, if they cannot be measured.
pub(super) const USUAL: Prices =
    Prices { record: 300.0, skipped: 80.0, off: 20.0, are_counts: false };
/// The cost of an event that is counted, and of one that is not, until they are measured.
pub(super) const USUAL_COUNTED_NS: f64 = 80.0;
pub(super) const USUAL_SKIPPED_NS: f64 = 25.0;

/// Returns the part of a stack that the kernel walks or copies.
pub(super) fn copied(stack: StackSampling) -> StackCopy {
    match stack.walk {
        CallGraph::Dwarf { bytes } if stack.user() => {
            StackCopy { bytes: bytes.into(), is_walked: stack.kernel() }
        }
        _ => StackCopy { bytes: 0, is_walked: true },
    }
}

/// Returns the prices of events on this machine, or None if they cannot be measured.
pub(super) fn measured(stack: StackCopy) -> Option<Prices> {
    let tracefs = Tracefs::find().ok()?;
    let overhead = tracepoint_overhead::measure_thinned(&tracefs, stack).ok()?;
    let skipped = overhead.skipped.max(1.0);
    Some(Prices {
        record: overhead.record,
        skipped,
        off: overhead.off.min(skipped),
        are_counts: false,
    })
}
