//! The openings for the roles of a run.

use std::collections::BTreeSet;
use std::rc::Rc;

use anyhow::Context as _;

use super::catalog::MachineCatalog;
use super::cgroups::{WatchedCgroups, limited};
use super::flames::text;
use super::request::RunRequest;
use crate::event::filter::BoundFilter;
use crate::event::kind::Event;
use crate::event::plan;
use crate::output::format::OutputFormat;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::source::request::{Opening, SampleParts, ServedRole};
use crate::sys::own_tid::{kernel_tid, tid_in_records};

/// Returns this thread's number in the kernel's filters, if an event uses it.
pub(super) fn own_tid(catalog: &MachineCatalog, roles: &[Role]) -> anyhow::Result<Option<i32>> {
    if let Some(tracefs) = catalog.tracefs() {
        return Ok(Some(kernel_tid(tracefs)?));
    }
    Ok(roles.iter().any(|role| role.event.kind().is_probe()).then(tid_in_records))
}

/// Plans the openings for the roles of a run.
///
/// # Errors
/// A filter does not fit its event.
pub(super) fn openings(roles: &[Role]) -> anyhow::Result<Vec<Opening>> {
    plan::plan(roles)?.into_iter().map(|planned| opening(planned, roles)).collect()
}

/// Returns the openings of a run: limited to the control groups that it watches, and without parts
/// of samples that nothing needs.
///
/// # Errors
/// A filter does not fit its event, an event cannot be limited to a control group, or the runtime's
/// own Lua failed.
pub(super) fn openings_of_run(
    host: &Host,
    request: &RunRequest,
    roles: &[Role],
    cgroups: Option<&WatchedCgroups>,
    catalog: &MachineCatalog,
) -> anyhow::Result<Vec<Opening>> {
    let mut openings = limited(openings(roles)?, cgroups, catalog, host.calls_for_tasks())?;
    omit_parts(host, request, &mut openings)?;
    Ok(openings)
}

/// Leaves out the parts of samples that no role of an opening needs.
///
/// # Errors
/// The runtime's own Lua failed.
fn omit_parts(host: &Host, request: &RunRequest, openings: &mut [Opening]) -> anyhow::Result<()> {
    let options = &request.options;
    let needs_all = options.format == OutputFormat::Events
        || options.exit_after.is_some()
        || options.budget.is_some()
        || ["heatmap", "perfetto"].iter().any(|name| text(&request.values, name).is_some());
    if needs_all {
        return Ok(());
    }
    let parts = host.sample_parts().context("failed to read what handlers need")?;
    for opening in openings {
        let of_roles = opening.roles.iter().filter_map(|served| parts.get(served.role as usize));
        opening.parts = of_roles.copied().reduce(SampleParts::or).unwrap_or(SampleParts::ALL);
        let event = &opening.event;
        if !opening.parts.parameters
            && let Some(plain) = event.without_parameters()
        {
            opening.event = Rc::new(plain);
        }
    }
    Ok(())
}

/// Removes roles whose events need no records. The filters of the openings that stay pass what the
/// other roles take, and openings without roles are removed.
///
/// # Errors
/// A filter does not fit the event's format.
pub(super) fn remove_roles(
    openings: &mut Vec<Opening>,
    counted: &BTreeSet<u32>,
    roles: &[Role],
) -> anyhow::Result<()> {
    for opening in openings.iter_mut() {
        let before = opening.roles.len();
        opening.roles.retain(|served| !counted.contains(&served.role));
        if opening.roles.len() < before {
            narrow(opening, roles)?;
        }
    }
    openings.retain(|opening| opening.follows_cgroups || !opening.roles.is_empty());
    Ok(())
}

/// Limits the filter of an opening to what its roles take.
fn narrow(opening: &mut Opening, roles: &[Role]) -> anyhow::Result<()> {
    let of = |served: &ServedRole| roles[served.role as usize].filter.clone();
    let Some(joined) = opening.roles.iter().map(of).reduce(plan::either) else { return Ok(()) };
    for served in &mut opening.roles {
        let role = &roles[served.role as usize];
        served.own_filter = match role.filter == joined {
            true => None,
            false => own_filter(&opening.event, role)?,
        };
    }
    opening.filter = joined;
    Ok(())
}

/// Returns the filter that a role checks itself.
fn own_filter(event: &Event, role: &Role) -> anyhow::Result<Option<BoundFilter>> {
    match (&role.filter, event.format()) {
        (Some(filter), Some(format)) => Ok(Some(filter.bind(&event.name, format)?)),
        _ => Ok(None),
    }
}

/// Converts a planned opening, with the filter that each of its roles checks itself.
///
/// # Errors
/// A filter does not fit the event's format.
pub(super) fn opening(planned: plan::PlannedEvent, roles: &[Role]) -> anyhow::Result<Opening> {
    let mut served = Vec::with_capacity(planned.roles.len());
    for index in planned.roles {
        let task = roles[index].task.as_ref().zip(planned.event.format());
        let about = task.and_then(|(task, format)| Some(format.field(task)?.offset));
        let own_filter = match planned.recheck {
            true => own_filter(&planned.event, &roles[index])?,
            false => None,
        };
        served.push(ServedRole { role: index as u32, own_filter, about });
    }
    Ok(Opening {
        event: planned.event,
        glob: planned.glob,
        filter: planned.filter,
        sampling: planned.sampling,
        parts: SampleParts::ALL,
        roles: served,
        follows_cgroups: false,
        pairs: None,
    })
}
