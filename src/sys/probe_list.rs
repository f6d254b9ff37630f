//! The files in tracefs that list the probes on functions.

/// Returns the name of the file that lists probes in the kernel, or those in programs.
pub(super) fn probe_list(in_kernel: bool) -> &'static str {
    if in_kernel { "kprobe_events" } else { "uprobe_events" }
}
