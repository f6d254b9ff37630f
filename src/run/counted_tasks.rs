//! The tasks whose events the kernel counts for a run.

use super::catalog::MachineCatalog;
use super::cgroups::outermost;
use super::request::{CountingPlace, RunRequest};
use crate::event::catalog::Catalog as _;
use crate::output::format::OutputFormat;
use crate::source::counting::followed_tasks::{
    CountedTasks, FollowedEvent, THREADS_MAX, WatchedThreads,
};
use crate::source::counting::{ProgramPlace, WITH_MISSES, WITH_ZEROED_KEYS};
use crate::source::request::SourceRequest;
use crate::symbol::RawTracepoints;
use crate::sys::cgroup;
use crate::sys::machine::is_linux_since;
use crate::sys::namespace::in_root_pid_namespace;

/// Shortest report interval, in nanoseconds: exchanging the tables takes 10 to 20 ms.
const INTERVAL_NS: u64 = 100_000_000;

/// Kernel from which on a task's perf events are closed just after `sched_process_exit`, before its
/// memory and files (`do_exit()` in kernel/exit.c).
const CLOSES_AT_EXIT: (u32, u32) = (6, 16);

/// Returns the tasks whose events the kernel counts: those of `-p`, `-t`, a command or `--cgroup`,
/// or all.
///
/// # Errors
/// Nothing is counted in the kernel in this run, for this reason.
pub(super) fn counted_tasks(
    request: &RunRequest,
    source: &SourceRequest,
    raw: &RawTracepoints,
) -> Result<CountedTasks, String> {
    let settings = &request.options;
    if let Some(why) = of_run(request) {
        return Err(why.to_owned());
    }
    if let Some(pattern) = &settings.cgroup {
        if !cgroup::is_version_2() {
            return Err("the perf_event controller has a cgroup hierarchy of version 1".to_owned());
        }
        let paths = outermost(pattern).map_err(|why| why.to_string())?;
        let folders = paths.iter().map(|path| cgroup::open(path)).collect::<Result<_, _>>();
        return folders.map(CountedTasks::Cgroups).map_err(|why| why.to_string());
    }
    let Some(threads) = source.tasks.clone() else { return Ok(CountedTasks::All) };
    if threads.len() > THREADS_MAX / 2 {
        return Err("too many threads are watched".to_owned());
    }
    let catalog = MachineCatalog::default();
    let event = |name: &str| -> Result<FollowedEvent, String> {
        let event = catalog.describe(name).map_err(|why| why.to_string())?;
        let place = ProgramPlace { raw: raw.find(&event), only_raw: false };
        Ok(FollowedEvent { event, place })
    };
    Ok(CountedTasks::Threads(WatchedThreads {
        threads,
        processes: source.processes.clone(),
        after_exec: source.workload,
        new_task: event("task:task_newtask")?,
        exit: is_linux_since(CLOSES_AT_EXIT)
            .then(|| event("sched:sched_process_exit"))
            .transpose()?,
        free: event("sched:sched_process_free")?,
        rename: event("task:task_rename")?,
    }))
}

/// Returns why nothing is counted in the kernel in this run.
fn of_run(request: &RunRequest) -> Option<&'static str> {
    let settings = &request.options;
    let interval = request.interval_ns();
    Some(match () {
        () if settings.exit_after.is_some() => "-N needs records",
        () if settings.format == OutputFormat::Events => "--events prints records",
        () if interval.is_some_and(|ns| ns < INTERVAL_NS) => "the interval is shorter than 100ms",
        () if !in_root_pid_namespace() => "perilune runs in a pid namespace",
        () if !is_linux_since(WITH_ZEROED_KEYS) => "it needs Linux 5.10",
        () if settings.counting == CountingPlace::Auto && !is_linux_since(WITH_MISSES) => {
            "before Linux 6.7, the kernel does not count what it misses"
        }
        () => return None,
    })
}
