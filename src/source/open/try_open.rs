//! Tests whether an event opens: opens it briefly with its sampling options, so that a refusal
//! comes while there is a choice.
//!
//! Only the kernel knows which events this machine has (a virtual machine often has no counters at
//! all) and which of them this user may see. The first of several alternatives that opens is used,
//! and an event whose kernel part is refused to an unprivileged user is watched in user mode, under
//! the name that says so.

use std::rc::Rc;

use super::attr::{self, Common};
use crate::event::{exclude::EventModes, kind::Event, sampling::Sampling};
use crate::source::request::MappingRecords;
use crate::source::side_record::SideKinds;
use crate::sys::{attr::PerfTarget, perf::PerfEvent, refusal::Refusal};

/// An event that can be opened.
#[derive(Clone, Debug)]
pub struct OpenableEvent {
    /// The event in the form in which it opens.
    pub event: Rc<Event>,
    /// Whether it was requested in all modes, and opens in user mode only.
    pub in_user_mode: bool,
}

/// Opens `event` on `target` and closes it again. Events without modifiers are not opened: a
/// tracepoint exists if its format can be read, and a function if it was found.
///
/// # Errors
/// The kernel refuses the event, or cannot exclude the modes that are to be excluded.
pub fn try_out(
    event: &Rc<Event>,
    sampling: &Sampling,
    target: PerfTarget,
) -> Result<OpenableEvent, Refusal> {
    check_modes(event, sampling)?;
    let as_it_is = || OpenableEvent { event: event.clone(), in_user_mode: false };
    let Some(user) = event.in_user_mode() else { return Ok(as_it_is()) };
    let common = Common { watermark: 1, inherit: target.pid >= 0 };
    let open = |event: &Event| match attr::of_event(event.kind(), sampling, common) {
        Ok(attr) => PerfEvent::open(&attr, target, &event.name).map(drop),
        // A field that no attr has is reported when the event is opened for the run.
        Err(_) => Ok(()),
    };
    let refusal = match open(event) {
        Ok(()) => return Ok(as_it_is()),
        Err(refusal) => refusal,
    };
    let excluded = event.kind().attr().exclude.or(sampling.exclude);
    if !refusal.is_permission() || excluded.kernel || excluded.user {
        return Err(refusal);
    }
    match event.kind().modes(sampling.count) {
        EventModes::Separate => {
            // A PMU without modes refuses the modifier; the user needs the privilege.
            open(&user).map_err(|other| if other.is_permission() { other } else { refusal })?;
            Ok(OpenableEvent { event: Rc::new(user), in_user_mode: true })
        }
        // The kernel grants the permission for `exclude_kernel`, which does not change the count.
        EventModes::Together => {
            open(&user)?;
            let user = Event { name: event.name.clone(), ..user };
            Ok(OpenableEvent { event: Rc::new(user), in_user_mode: false })
        }
        EventModes::OnlyKernel | EventModes::OnlyUser => Err(refusal),
    }
}

/// Opens the events of a run on `target`, each for a moment, and the dummy that owns a ring. A
/// tracepoint is opened only until `tracepoints_open` is set: all of them need the same permission,
/// and each takes 30 ms to close. Function probes are not tried.
///
/// # Errors
/// The first refusal.
pub fn try_all<'a>(
    events: impl Iterator<Item = (&'a Rc<Event>, &'a Sampling)>,
    target: PerfTarget,
    tracepoints_open: &mut bool,
) -> Result<(), Refusal> {
    let common = Common { watermark: 1, inherit: target.pid >= 0 };
    let opened = |(event, _): &(&Rc<Event>, &Sampling)| event.kind().cpu_time().is_none();
    for (i, (event, sampling)) in events.filter(opened).enumerate() {
        if i == 0 {
            try_owner(common, target, &event.name)?;
        }
        let (kind, is_tracepoint) = (event.kind(), event.kind().raw_format().is_some());
        if kind.is_probe() || is_tracepoint && *tracepoints_open {
            continue;
        }
        // An event with an invalid field is reported when it is opened for the run.
        if let Ok(attr) = attr::of_event(kind, sampling, common) {
            PerfEvent::open(&attr, target, &event.name)?;
            *tracepoints_open |= is_tracepoint;
        }
    }
    Ok(())
}

/// Opens the dummy that owns a ring for a moment; `name` is the event of a refusal.
fn try_owner(common: Common, target: PerfTarget, name: &str) -> Result<(), Refusal> {
    let Ok(mut owner) = attr::of_owner(common, MappingRecords::Omitted, SideKinds::default())
    else {
        return Ok(());
    };
    if target.pid >= 0 {
        // As a run opens it for a user who may not watch whole CPUs.
        owner.raw().set_exclude_kernel(1);
        owner.raw().set_exclude_hv(1);
    }
    PerfEvent::open(&owner, target, name).map(drop)
}

/// Checks that the kernel can exclude the modes that are to be excluded.
///
/// # Errors
/// It would count nothing, or more than requested.
fn check_modes(event: &Event, sampling: &Sampling) -> Result<(), Refusal> {
    let kind = event.kind();
    let excluded = kind.attr().exclude.or(sampling.exclude);
    match kind.modes(sampling.count).refusal(excluded, kind.uses_hardware_counter()) {
        Some(why) => Err(Refusal::of_unsupported(&event.name, why)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind::{EventFiles, parse};

    fn event(name: &str) -> Rc<Event> {
        Rc::new(parse(name, &EventFiles::NONE).unwrap().unwrap())
    }

    /// The calling thread on any CPU: allowed to every user, in user mode.
    const OWN: PerfTarget = PerfTarget { pid: 0, cpu: -1 };

    #[test]
    fn an_event_that_opens_keeps_its_name_and_is_closed_again() {
        let tried = try_out(&event("cpu-clock:u"), &Sampling::default(), OWN).unwrap();
        assert_eq!((tried.event.name.as_str(), tried.in_user_mode), ("cpu-clock:u", false));
    }

    #[test]
    fn an_event_that_does_not_open_is_refused_with_the_kernels_errno() {
        let refusal = try_out(&event("r7fffffffffff:u"), &Sampling::default(), OWN).err();
        // Refused by a machine without counters, and by one that does not have this event.
        if let Some(refusal) = refusal {
            assert!(matches!(refusal.errno, libc::ENOENT | libc::EINVAL), "{refusal}");
        }
    }
}
