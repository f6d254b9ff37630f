//! Groups in braces: checks that their events can share a group, before any is opened.
//!
//! The kernel refuses a group whose events are attached to different tasks or CPUs, and one that
//! its PMU can never count at once. A weak group is then opened without it; any other is an error.

use anyhow::bail;

use super::attr;
use super::groups::refused_in_group;
use super::rings::common;
use crate::event::sampling::EventGroup;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::attr::PerfTarget;
use crate::sys::perf::{Membership, PerfEvent};

/// Checks the groups in braces. Takes the weak ones that cannot be opened from their events, and
/// returns a remark for each.
///
/// # Errors
/// The events of a group that is not weak cannot share it.
pub(in crate::source) fn resolve(
    openings: &mut [Opening],
    request: &SourceRequest,
) -> anyhow::Result<Vec<String>> {
    let mut groups: Vec<EventGroup> = Vec::new();
    for group in openings.iter().filter_map(Opening::braces) {
        if !groups.contains(group) {
            groups.push(group.clone());
        }
    }
    let mut remarks = Vec::new();
    for group in groups {
        let is_in = |opening: &&mut Opening| opening.braces() == Some(&group);
        let events: Vec<&Opening> =
            openings.iter().filter(|opening| opening.braces() == Some(&group)).collect();
        let tried = contradiction(&events, &group, request)
            .and_then(|()| if group.is_weak { try_out(&events, &group, request) } else { Ok(()) });
        let Err(why) = tried else { continue };
        if !group.is_weak {
            return Err(why);
        }
        // The fix follows.
        let why = format!("{why:#}");
        let why = why.split(';').next().unwrap_or_default();
        remarks.push(format!("opened without the group: {why}"));
        openings.iter_mut().filter(is_in).for_each(|opening| opening.sampling.group = None);
    }
    Ok(remarks)
}

/// Checks that the events are counted by the kernel, on the same CPUs and for the same tasks.
///
/// # Errors
/// One of them is not.
fn contradiction(
    events: &[&Opening],
    group: &EventGroup,
    request: &SourceRequest,
) -> anyhow::Result<()> {
    let Some(leader) = events.first() else { return Ok(()) };
    let first = &leader.event.name;
    for one in events {
        let (name, kind) = (&one.event.name, one.event.kind());
        let fix = "omit it there, or add the modifier W to open the events without the group";
        let fault =
            |why: &str| anyhow::anyhow!("{name} in the group `{}`: {why}; {fix}", group.name);
        if one.cpu_time().is_some() {
            return Err(fault("it is read from /proc/stat"));
        }
        if kind.uncore_pmu().is_some() != leader.event.kind().uncore_pmu().is_some() {
            return Err(fault(&format!("{first} is not counted by the same PMU")));
        }
        let of_tasks = request.tasks.is_some() || one.sampling.cgroup.is_some();
        if of_tasks && one.is_cpu_wide() != leader.is_cpu_wide() {
            return Err(fault(&format!("it and {first} are not opened for the same tasks")));
        }
        let is_uncore = kind.uncore_pmu().is_some();
        if !is_uncore && !one.cpus_of(&request.cpus).eq(leader.cpus_of(&request.cpus)) {
            return Err(fault(&format!("it and {first} are not opened on the same CPUs")));
        }
    }
    Ok(())
}

/// Opens the events on the first CPU, and closes them again.
///
/// # Errors
/// The kernel opens one of them only without the group.
fn try_out(events: &[&Opening], group: &EventGroup, request: &SourceRequest) -> anyhow::Result<()> {
    let tid = request.tasks.as_ref().and_then(|tids| tids.first()).copied();
    let mut opened: Vec<PerfEvent> = Vec::new();
    for one in events.iter().filter(|one| one.event.kind().probe().is_none()) {
        let Some(cpu) = one.cpus_of(&request.cpus).next() else { continue };
        let pid = tid.filter(|_| !one.is_cpu_wide()).unwrap_or(-1);
        let target = PerfTarget { pid, cpu: cpu as i32 };
        let attr = attr::of_event(one.event.kind(), &one.sampling, common(request, 1, pid >= 0))?;
        let name = &one.event.name;
        let leader = opened.first();
        let place = Membership { leader, ..Membership::default() };
        match PerfEvent::open_as(&attr, target, name, place) {
            Ok(event) => opened.push(event.event),
            Err(why) if leader.is_some() => {
                // An event that does not open at all is reported when it is opened.
                if PerfEvent::open(&attr, target, name).is_ok() {
                    bail!(refused_in_group(name, group, &why));
                }
            }
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}
