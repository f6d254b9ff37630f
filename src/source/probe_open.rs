//! Tests whether an event opens: opens it briefly with its sampling options, so that a refusal
//! comes while there is a choice.
//!
//! Only the kernel knows which events this machine has (a virtual machine often has no counters at
//! all) and which of them this user may see. Of several alternatives the first that opens is used,
//! and an event whose kernel part is refused to an unprivileged user is watched in user mode, under
//! the name that says so.

use std::rc::Rc;

use super::attr::{self, Common};
use crate::event::{
    catalog::{Event as Described, EventKind},
    counter::Counter,
    sampling::Sampling,
};
use crate::sys::{
    perf::{PerfEvent, PerfTarget},
    refusal::Refusal,
};

/// An event that can be opened.
#[derive(Clone, Debug)]
pub struct ProbedEvent {
    /// The event in the form in which it opens.
    pub event: Rc<Described>,
    /// Remark for the user.
    pub remark: Option<String>,
}

/// Opens `event` on `target` and closes it again. Tracepoints are not opened: their format can be
/// read only if they exist.
///
/// # Errors
/// The kernel refuses the event.
pub fn try_out(
    event: &Rc<Described>,
    sampling: &Sampling,
    target: PerfTarget,
) -> Result<ProbedEvent, Refusal> {
    let as_it_is = || ProbedEvent { event: event.clone(), remark: None };
    let EventKind::Counter(counter) = &event.what else { return Ok(as_it_is()) };
    if counter.cpu_time().is_some() {
        return Ok(as_it_is());
    }
    let common = Common { watermark: 1, inherit: target.pid >= 0 };
    let open = |event: &Described| match attr::of_event(&event.what, sampling, common) {
        Ok(attr) => PerfEvent::open(&attr, target, &event.name).map(drop),
        // A field that no attr has is reported when the event is opened for the run.
        Err(_) => Ok(()),
    };
    let refusal = match open(event) {
        Ok(()) => return Ok(as_it_is()),
        Err(refusal) => refusal,
    };
    let kernel_is_wanted = counter.exclude.kernel || counter.exclude.user;
    if !refusal.is_permission()
        || kernel_is_wanted
        || sampling.exclude.kernel
        || sampling.exclude.user
    {
        return Err(refusal);
    }
    let user = in_user_mode(&event.name, counter);
    open(&user)?;
    let remark = format!(
        "{}: this user may not watch the kernel, so only user mode is sampled; run as root, or set \
         kernel.perf_event_paranoid to 1 or less, to include it",
        user.name
    );
    Ok(ProbedEvent { event: Rc::new(user), remark: Some(remark) })
}

/// Returns the event with the modifier `u`.
fn in_user_mode(name: &str, counter: &Counter) -> Described {
    let separator = if name.contains([':', '/']) { "" } else { ":" };
    let mut counter = counter.clone();
    (counter.exclude.kernel, counter.exclude.hv) = (true, true);
    Described { name: format!("{name}{separator}u"), what: EventKind::Counter(counter) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::counter;

    fn event(name: &str) -> Rc<Described> {
        let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let (name, counter) = counter::parse(name, &none).unwrap().unwrap();
        Rc::new(Described { name, what: EventKind::Counter(counter) })
    }

    /// The calling thread on any CPU: allowed to every user, in user mode.
    const OWN: PerfTarget = PerfTarget { pid: 0, cpu: -1 };

    #[test]
    fn an_event_that_opens_keeps_its_name_and_is_closed_again() {
        let tried = try_out(&event("cpu-clock:u"), &Sampling::default(), OWN).unwrap();
        assert_eq!((tried.event.name.as_str(), tried.remark), ("cpu-clock:u", None));
    }

    #[test]
    fn an_event_that_does_not_open_is_refused_with_the_kernels_errno() {
        let refusal = try_out(&event("r7fffffffffff:u"), &Sampling::default(), OWN).err();
        // Refused by a machine without counters, and by one that does not have this event.
        if let Some(refusal) = refusal {
            assert!(matches!(refusal.errno, libc::ENOENT | libc::EINVAL), "{refusal}");
        }
    }

    #[test]
    fn the_name_of_an_event_in_user_mode_has_the_modifier_u() {
        for (name, user) in [("cpu-clock", "cpu-clock:u"), ("cycles:ppp", "cycles:pppu")] {
            let EventKind::Counter(counter) = &event(name).what else { unreachable!() };
            let narrowed = in_user_mode(name, counter);
            assert_eq!(narrowed.name, user);
            assert_eq!(narrowed.what, event(user).what);
        }
        assert_eq!(in_user_mode("msr/tsc/", &Counter::default()).name, "msr/tsc/u");
    }
}
