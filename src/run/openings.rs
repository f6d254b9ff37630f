//! The openings for the roles of a run.

use super::catalog::MachineCatalog;
use crate::event::plan;
use crate::script::evsel::role::Role;
use crate::source::request::{Opening, ServedRole};
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

/// Converts a planned opening, with the filter that each of its roles checks itself.
///
/// # Errors
/// A filter does not fit the event's format.
pub(super) fn opening(planned: plan::PlannedEvent, roles: &[Role]) -> anyhow::Result<Opening> {
    let mut served = Vec::with_capacity(planned.roles.len());
    for index in planned.roles {
        let task = roles[index].task.as_ref().zip(planned.event.format());
        let about = task.and_then(|(task, format)| Some(format.field(task)?.offset));
        let own_filter = match (planned.recheck, &roles[index].filter, planned.event.format()) {
            (true, Some(filter), Some(format)) => Some(filter.bind(&planned.event.name, format)?),
            _ => None,
        };
        served.push(ServedRole { role: index as u32, own_filter, about });
    }
    Ok(Opening {
        event: planned.event,
        glob: planned.glob,
        filter: planned.filter,
        sampling: planned.sampling,
        roles: served,
    })
}
