//! Runs whose numbers cannot be estimated from a part of their events.

use anyhow::{bail, ensure};

use crate::output::format::OutputFormat;
use crate::run::request::RunRequest;
use crate::script::evsel::role::Role;
use crate::script::option::value::OptionValue;
use crate::source::request::Opening;

/// Checks, before the script declares its events, that a run with a budget can be estimated.
///
/// # Errors
/// The monitor relates events, or an option needs each of them.
pub(in crate::run) fn check(request: &RunRequest) -> anyhow::Result<()> {
    if request.options.budget.is_none() {
        return Ok(());
    }
    let name = &request.monitor.name;
    if !request.monitor.independent {
        bail!(
            "--budget: {name} relates events to each other, and a part of the events gives wrong \
             relations; omit --budget, or use top, num-dist or stackcount on the same events (a \
             monitor of your own without relations declares `independent = true`)"
        );
    }
    let options = &request.options;
    let is_given = |name| request.values.get(name).is_some_and(OptionValue::is_given);
    for (option, given, why) in [
        (
            "--events",
            options.format == OutputFormat::Events,
            "a recording of a part of the events has no weights",
        ),
        ("--heatmap", is_given("heatmap"), "a heat map counts each event"),
        ("--perfetto", is_given("perfetto"), "a timeline needs each event"),
        ("--parquet", options.parquet.is_some(), "its files have no errors of estimates"),
    ] {
        ensure!(!given, "--budget: {why}; omit {option} or --budget");
    }
    Ok(())
}

/// Requests the weights of samples from the events that are opened, with `--budget`.
///
/// # Errors
/// One of the events cannot be estimated.
pub(in crate::run) fn weigh(
    request: &RunRequest,
    roles: &[Role],
    openings: &mut [Opening],
    watches_tasks: bool,
) -> anyhow::Result<()> {
    if request.options.budget.is_none() {
        return Ok(());
    }
    if watches_tasks {
        bail!(
            "--budget: events of single tasks are inherited by their children, and the kernel \
             cannot change the sampling period of these; omit -p, -t and the command (or add -a), \
             and select tasks by --cgroup or by a filter"
        );
    }
    if let Some(role) = roles.iter().find(|role| role.event.kind().is_derived()) {
        bail!("--budget: {}: a monitor makes these events of others; omit it", role.event.name);
    }
    for opening in openings {
        if let Err(why) = opening.weigh() {
            bail!("--budget: {}: {why}", opening.event.name);
        }
    }
    Ok(())
}
