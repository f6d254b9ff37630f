//! The file of `--perfetto FILE`: a timeline of the run, written while it runs.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::flames::text;
use super::request::RunRequest;
use crate::base::report::draw::{Level, Stamp};
use crate::output::file;
use crate::output::perfetto::{Perfetto, TracedMachine};
use crate::script::host::Host;
use crate::script::option::value::OptionValue;
use crate::sys::clock::{since_boot, wall_and_monotonic};
use crate::sys::cpus::online_cpus;
use crate::sys::machine::kernel_release;

/// Creates the file if it is requested, and adds the events of the run to it from now on. `host`
/// has begun; its handlers are not attached yet.
///
/// # Errors
/// The file cannot be created, or events are requested without order.
pub(super) fn begin(request: &RunRequest, host: &Host) -> Result<()> {
    let (wall_ns, clock_ns) = wall_and_monotonic();
    let suspended = u64::try_from(since_boot().as_nanos()).unwrap_or(u64::MAX);
    begin_on(request, host, &|| TracedMachine {
        release: kernel_release(),
        clocks: Stamp { wall_ns, clock_ns },
        suspended_ns: time_in_suspend(suspended.saturating_sub(clock_ns)),
        cpus: online_cpus().len() as u32,
    })
}

/// As [`begin`], for a recording that starts at `start` and has events of this many CPUs.
///
/// # Errors
/// As [`begin`].
pub(super) fn begin_replayed(
    request: &RunRequest,
    host: &Host,
    start: Stamp,
    cpus: usize,
) -> Result<()> {
    begin_on(request, host, &|| TracedMachine {
        clocks: start,
        cpus: cpus as u32,
        ..TracedMachine::default()
    })
}

fn begin_on(request: &RunRequest, host: &Host, machine: &dyn Fn() -> TracedMachine) -> Result<()> {
    let Some(path) = text(&request.values, "perfetto") else { return Ok(()) };
    ensure!(
        request.options.order != Some(false),
        "--perfetto needs the events in order of time; omit --no-order"
    );
    let out = file::open_growing(Path::new(path)).context("--perfetto")?;
    let context = host.context();
    context.set_timeline(Box::new(Perfetto::new(Box::new(out), &machine())));
    let filtered = request.values.get("filter").is_some_and(OptionValue::is_given);
    let is_partial = filtered || host.watches_some_tasks();
    if is_partial && host.roles().iter().any(|role| role.event.is_scheduler_event()) {
        context.note(
            Level::Warning,
            "--perfetto: only the switches of the watched tasks are known, so that a CPU seems to \
             run the task that follows one of them until it runs a watched task again; watch all \
             tasks (-a) for the whole picture",
        );
    }
    Ok(())
}

/// Returns the time in suspend from the difference of two clocks that were read one after the
/// other: a difference of less than a millisecond is the time between the readings.
fn time_in_suspend(difference_ns: u64) -> u64 {
    if difference_ns < 1_000_000 { 0 } else { difference_ns }
}
