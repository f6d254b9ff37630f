//! The steps between the opening of a live run and its first event.

use std::collections::BTreeSet;

use super::catalog::MachineCatalog;
use super::exports::Exports;
use super::machine::{existing_task, mounted, name_stacks, print_by_formats};
use super::request::{RunOptions, RunRequest};
use super::scope::WatchScope;
use crate::base::report::draw::{Draw, Level, Stamp};
use crate::base::report::run_record::RunRecord;
use crate::output::screen::Screen;
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::script::vm::guard::{NO_HOOK, hook_stops_compiled_loops};
use crate::source::live::Live;
use crate::source::request::SourceRequest;
use crate::sys::child::Workload;
use crate::sys::clock::wall_and_monotonic;
use crate::sys::tasks::{process_of, task_names};
use crate::task::Tasks;

/// Time at which a run begins, in nanoseconds: after its tasks are read, before its first event.
const RUN_BEGIN: f64 = 0.0;

/// Returns the request for the source, in which these CPUs have rings.
pub(super) fn source_request(
    host: &mut Host,
    request: &RunRequest,
    scope: WatchScope,
    cpus: Vec<u32>,
    own_tids: Vec<i32>,
    workload: Option<&Workload>,
) -> SourceRequest {
    let settings = &request.options;
    let WatchScope { cpus: watched, tasks, cgroups } = scope;
    SourceRequest {
        cpus,
        watched,
        workload: workload.is_some_and(|w| tasks.as_deref() == Some(&[w.pid()])),
        // Roles that `init` turned off are not enabled on exec, which would turn them on unnoticed.
        off: host
            .take_switches()
            .into_iter()
            .filter_map(|(role, on)| (!on).then_some(role))
            .collect(),
        tasks,
        processes: settings.processes(),
        cgroups: cgroups.and_then(|cgroups| cgroups.threads()),
        pages: settings.mmap_pages.or(request.monitor.pages).map(|pages| pages as usize),
        watermark: host.watermark().map_or(settings.watermark, |own| own.min(settings.watermark)),
        ordered: host.ordered(),
        mmap: host.mapping_records(),
        side: host.side_kinds(),
        watch_self: settings.watch_self,
        own_tids,
    }
}

/// Begins the output. Returns the screen, if the run has one.
pub(super) fn begin_output(
    host: &Host,
    request: &RunRequest,
    live: &mut Live,
    roles: &[Role],
    exports: &Exports,
) -> anyhow::Result<Option<Screen>> {
    let (wall_ns, clock_ns) = wall_and_monotonic();
    let screen = super::screen(request, live.pages());
    let out = match &screen {
        Some(screen) => Box::new(screen.clone()) as Box<dyn Draw>,
        None => super::output(request, Stamp { wall_ns, clock_ns }, live.pages())?,
    };
    if let Some(screen) = &screen {
        live.listen(screen.terminal());
    }
    let stacks = request.options.stack_style.clone();
    host.context().set_output(exports.logged(out, &request.monitor.name, stacks));
    host.context().print(|out| out.opened(&super::opened(roles)));
    Ok(screen)
}

/// Prepares the names of tasks and functions, and the formats in which events are printed.
pub(super) fn prepare_naming(
    host: &Host,
    settings: &RunOptions,
    source: &SourceRequest,
    catalog: &MachineCatalog,
) {
    let context = host.context();
    context.set_tasks(Tasks::new(source.cpus.last().map_or(0, |cpu| *cpu as usize + 1)));
    if host.takes_stacks() {
        name_stacks(context, settings.lines);
    }
    // Without a tracefs, no tracepoint is open that could be printed.
    if let Some(tracefs) = catalog.tracefs() {
        print_by_formats(context, tracefs);
    }
}

/// Reads the tasks that exist, and the programs of those that are watched: they may end before they
/// are first looked up. Warns about lists of names that no task has, unless a workload starts.
pub(super) fn read_tasks(host: &Host, source: &SourceRequest, is_workload: bool) {
    let (context, names) = (host.context(), task_names());
    context.change_tasks(|tasks| tasks.snapshot(names.iter().map(existing_task), RUN_BEGIN));
    if let Some(programs) = context.programs() {
        let tasks = source.tasks.iter().flatten().filter(|_| !source.workload);
        let watched: BTreeSet<i32> = tasks.filter_map(|tid| process_of(*tid).ok()).collect();
        for pid in watched {
            programs.borrow_mut().space_of(pid.cast_unsigned());
        }
    }
    if is_workload {
        return;
    }
    let names: Vec<&[u8]> = names.iter().map(|task| task.comm.as_bytes()).collect();
    for list in host.lists_without(&names) {
        let text = format!("no task is named {list} yet; tasks that start later are watched");
        context.note(Level::Warning, &text);
    }
}

/// Prints the notes so far, and those about this machine.
pub(super) fn begin_notes(context: &SharedContext, catalog: &MachineCatalog) {
    context.begin_notes();
    if let Some(text) = catalog.tracefs().and_then(mounted) {
        context.note(Level::Info, &text);
    }
    if !hook_stops_compiled_loops() {
        context.note(Level::Warning, NO_HOOK);
    }
}

/// Enables the events, and reads the tasks that exist.
pub(super) fn enable(
    host: &Host,
    live: &mut Live,
    source: &SourceRequest,
    has_workload: bool,
) -> anyhow::Result<()> {
    live.enable_side()?;
    read_tasks(host, source, has_workload);
    host.context().tap_tasks();
    live.enable(source.workload)?;
    let context = host.context();
    context.set_clock(*live.clock());
    let begin = RunRecord::Begin { cpus: &source.watched };
    context.draw(RUN_BEGIN, |out, stamp| out.run_record(stamp, &begin));
    Ok(())
}

/// Records how the script is compiled and how long it runs, with `--stats`.
pub(super) fn watch_script(host: &mut Host, settings: &RunOptions) -> anyhow::Result<()> {
    if settings.stats {
        host.watch_compiler()?;
        host.sample_interpreter()?;
    }
    Ok(())
}
