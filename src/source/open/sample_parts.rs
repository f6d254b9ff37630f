//! Removes parts of samples that nothing needs.

use perf_event_open_sys::bindings as abi;

use crate::source::request::Opening;
use crate::sys::attr::Attr;

/// Removes from the samples of an opening what nothing needs: each part costs the traced task some
/// nanoseconds per event. A thread that is not in the tracepoint's record stays.
pub(in crate::source) fn omit_parts(attr: &mut Attr, opening: &Opening) {
    let raw = attr.raw();
    if !opening.parts.time {
        raw.sample_type &= !u64::from(abi::PERF_SAMPLE_TIME);
    }
    if !opening.parts.id {
        raw.sample_type &= !u64::from(abi::PERF_SAMPLE_IDENTIFIER);
    }
    if !opening.parts.process && opening.common_pid().is_some() && !opening.hides_self() {
        raw.sample_type &= !u64::from(abi::PERF_SAMPLE_TID);
    }
}
