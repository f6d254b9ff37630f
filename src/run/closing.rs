//! Messages about the end of a run: the watched tasks have ended, or closing events takes seconds.

use super::kernel_counts::KernelCounts;
use crate::base::text::units::counted;
use crate::source::live::Live;
use crate::source::open::probe_limit;
use crate::sys::{signal, streams};

/// The note about the end of all tasks that -p or -t watches.
pub(super) const TASKS_ENDED: &str = "the watched tasks have ended";
/// Closing is announced if it takes at least this long.
const CLOSING_NOTE_MS: usize = 1000;
/// Time that the kernel takes to close a tracepoint.
const TRACEPOINT_MS: usize = 35;

/// Closes the events, after everything is written. The last close of a tracepoint waits until no
/// CPU is inside it, 35 ms or more, one tracepoint after the other (`perf_trace_event_unreg` holds
/// `event_mutex` meanwhile). Another order, more threads or earlier disabling do not shorten this,
/// and a killed process waits as long in its exit.
pub(super) fn close(live: Live, counts: KernelCounts, quiet: bool) {
    // From here on Ctrl-C could only change the exit code. On failure the handlers stay as they
    // are.
    let _ = signal::ignore_interrupts();
    let tracepoints = (live.tracepoints() + counts.tracepoints(), "tracepoint", TRACEPOINT_MS);
    let probes = (live.probes(), "probe", probe_limit::CLOSED_IN_MS);
    let (count, what, each) = std::cmp::max_by_key(tracepoints, probes, |(n, _, ms)| n * ms);
    if count * each >= CLOSING_NOTE_MS && !quiet {
        let count = counted(count as u64, what);
        let text = format!("all results are written; closing {count} takes {each} ms each");
        streams::print_message(&format!("note: {text}"));
    }
    drop(counts);
    live.end();
}
