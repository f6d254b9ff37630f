//! Notes about a run that received no events, or fewer than there were, because its output looks
//! like that of a failed run.

use super::filters;
use super::request::RunRequest;
use crate::base::report::coverage::Coverage;
use crate::base::text::units::{counted, human_ns};
use crate::script::host::Host;
use crate::source::live::Live;

/// Returns a note about a run without events.
pub(super) fn no_events(
    host: &Host,
    request: &RunRequest,
    coverage: &Coverage,
    run_ns: f64,
) -> Option<String> {
    let counts = host.roles().iter().any(|role| role.sampling.count);
    if coverage.events + coverage.lost > 0 || counts {
        return None;
    }
    if coverage.filtered > 0 {
        let already_reported = request.options.stats || request.options.verbose > 0;
        return filters::rejected_in_user_space(coverage).filter(|_| !already_reported);
    }
    let why = request.monitor.idle.as_ref().map(|why| format!(": {why}"));
    Some(format!("no events in {}{}", human_ns(run_ns as u64), why.unwrap_or_default()))
}

/// Returns a note about starts without an end in a run that watches only some tasks: the interrupt
/// or worker that ends a request belongs to another task.
pub(super) fn no_ends(host: &Host, of_tasks: bool) -> Option<String> {
    let whole_cpus = |role: &crate::script::evsel::role::Role| role.sampling.whole_cpus;
    if !of_tasks || host.roles().iter().any(whole_cpus) {
        return None;
    }
    let starts = host.starts_without_any_end();
    (starts > 0).then(|| {
        let starts = counted(starts, "start");
        format!("{starts}, 0 ends: the ends may come from other tasks; -a watches all tasks")
    })
}

/// Returns a note about strings of system calls that a BPF program could not read. With `-p` it
/// reads those of all tasks; records of tasks that are not watched are dropped later.
pub(super) fn unread_texts(live: &Live) -> Option<String> {
    let unread = live.unread_texts();
    (unread > 0).then(|| {
        let unread = counted(unread, "string");
        let (of, shown) = match live.filters_by_task() {
            true => (" of all tasks", "those of watched tasks are shown as (fault) or empty"),
            false => ("", "they are shown as (fault) or empty"),
        };
        format!(
            "{unread} of system calls{of} could not be read: not in memory when the call began, or \
             at an invalid address; {shown}"
        )
    })
}

/// Returns a note about CPUs where the kernel counted many events and wrote no record of them.
pub(super) fn undelivered(live: &Live) -> Option<String> {
    let cpus: Vec<String> = live.undelivering().iter().map(u32::to_string).collect();
    (!cpus.is_empty()).then(|| {
        format!(
            "CPU {}: the kernel counted {} but wrote no records: delays that begin or end with \
             these events are missing; `perilune doctor` checks each CPU",
            cpus.join(","),
            counted(live.undelivered(), "event")
        )
    })
}

/// Returns a note about samples of software events that have the data of another program's event.
pub(super) fn prepared_elsewhere(live: &Live) -> Option<String> {
    let samples = live.prepared_elsewhere();
    (samples > 0).then(|| {
        format!(
            "at least {} of software events (page faults, context switches) may have the time, \
             stack and registers that another program requested: the kernel prepares one sample \
             for all; stop the other program, or use a tracepoint",
            counted(samples, "record")
        )
    })
}
