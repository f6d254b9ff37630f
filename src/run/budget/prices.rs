//! Prices of events: what each costs the traced task in the kernel.

use super::controller::Prices;
use crate::event::filter::Filter;
use crate::event::sampling::{CallGraph, StackSampling};
use crate::script::evsel::role::Role;
use crate::source::request::Opening;
use crate::sys::tracefs::Tracefs;
use crate::sys::tracepoint_overhead::{self, StackCopy};

/// Prices of this machine's kind, in nanoseconds, if they cannot be measured.
pub(super) const USUAL: Prices =
    Prices { record: 300.0, skipped: 80.0, off: 20.0, are_counts: false, slow_path: 0.0 };
/// The cost of a program that counts an event, and of one that does not, until they are measured.
const USUAL_COUNTED_NS: f64 = 80.0;
const USUAL_SKIPPED_NS: f64 = 25.0;

/// Returns the part of a stack that the kernel walks or copies.
pub(super) fn copied(stack: StackSampling) -> StackCopy {
    match stack.walk {
        CallGraph::Dwarf { bytes } if stack.user() => {
            StackCopy { bytes: bytes.into(), is_walked: stack.kernel() }
        }
        _ => StackCopy { bytes: 0, is_walked: true },
    }
}

/// Returns the number of conditions in the kernel's filter of an opening, of which `own` exclude
/// perilune's threads, except from events of the scheduler.
pub(super) fn conditions(opening: &Opening, own: usize) -> usize {
    let own = if opening.event.is_scheduler_event() { 0 } else { own };
    opening.filter.as_ref().map_or(0, Filter::comparisons) + own
}

/// Returns the prices of events on this machine, whose filters have so many conditions, or None if
/// they cannot be measured.
pub(super) fn measured(stack: StackCopy, conditions: usize) -> Option<Prices> {
    let tracefs = Tracefs::find().ok()?;
    let overhead = tracepoint_overhead::measure_thinned(&tracefs, stack, conditions).ok()?;
    let skipped = overhead.skipped.max(1.0);
    Some(Prices {
        record: overhead.record,
        skipped,
        off: overhead.off.min(skipped),
        are_counts: false,
        slow_path: 0.0,
    })
}

/// Returns the usual prices of events that the kernel counts, of which `slow_path` is what they
/// cost beside the programs.
pub(super) fn of_counts(slow_path: f64) -> Prices {
    Prices::of_counts(USUAL_COUNTED_NS, USUAL_SKIPPED_NS, slow_path)
}

/// Returns what an event of these roles costs because system calls take the kernel's slow path
/// while programs are attached; 0 without events of system calls. Measures it, which takes some
/// 50 ms. No program must be attached: the path is slow then.
///
/// A call takes it once, also with an event at its entry and one at its return. All roles are
/// assumed to have as many events.
pub(in crate::run) fn slow_path(roles: &[Role]) -> f64 {
    let at = |end: &str| {
        let is_of = |role: &&Role| role.event.is_of_system_calls() && role.event.name.contains(end);
        roles.iter().filter(is_of).count()
    };
    match (at("sys_enter"), at("sys_")) {
        (_, 0) => 0.0,
        (entries, all) => {
            let calls = if entries > 0 { entries } else { all };
            let slower = measured(StackCopy::default(), 0).unwrap_or(USUAL).off;
            slower * calls as f64 / roles.len() as f64
        }
    }
}
