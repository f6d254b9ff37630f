//! Trying an event out: opened for a moment, as it is to be sampled, so that the refusal comes while there is a choice.
//!
//! The kernel alone knows which events this machine has (a virtual one often has no counters at all) and
//! what this user may see of them. So of alternatives the first that opens is taken, and an event whose kernel
//! side is refused to an ordinary user is watched in user mode, under its true name.

use std::rc::Rc;

use super::attr::{self, Common};
use crate::event::{
    catalog::{Event as Described, What},
    counter::Counter,
    sampling::Sampling,
};
use crate::sys::{
    perf::{Event, Target},
    refusal::Refusal,
};

/// An event that opens.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The event as it opens.
    pub event: Rc<Described>,
    /// What a user should hear about it.
    pub remark: Option<String>,
}

/// Opens `event` on `target` and closes it again. Tracepoints are taken at their word: who can read their format knows
/// that they are there.
///
/// # Errors
/// The kernel's refusal.
pub fn try_out(
    event: &Rc<Described>,
    sampling: &Sampling,
    target: Target,
) -> Result<Tried, Refusal> {
    let as_it_is = || Tried { event: event.clone(), remark: None };
    let What::Counter(counter) = &event.what else { return Ok(as_it_is()) };
    if counter.cpu_time().is_some() {
        return Ok(as_it_is());
    }
    let common = Common { watermark: 1, inherit: target.pid >= 0 };
    let open = |event: &Described| match attr::of_event(&event.what, sampling, common) {
        Ok(attr) => Event::open(&attr, target, &event.name).map(drop),
        // What a script asks for and no attr has is told when it is opened for good.
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
        "{}: this user may not watch the kernel, which is left out; run as root, or set \
         kernel.perf_event_paranoid to 1 or less, to see it",
        user.name
    );
    Ok(Tried { event: Rc::new(user), remark: Some(remark) })
}

/// The event with the modifier `u`.
fn in_user_mode(name: &str, counter: &Counter) -> Described {
    let separator = if name.contains([':', '/']) { "" } else { ":" };
    let mut counter = counter.clone();
    (counter.exclude.kernel, counter.exclude.hv) = (true, true);
    Described { name: format!("{name}{separator}u"), what: What::Counter(counter) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::counter;

    fn event(name: &str) -> Rc<Described> {
        let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let (name, counter) = counter::parse(name, &none).unwrap().unwrap();
        Rc::new(Described { name, what: What::Counter(counter) })
    }

    /// The calling thread wherever it runs: allowed to everybody, in user mode.
    const OWN: Target = Target { pid: 0, cpu: -1 };

    #[test]
    fn what_opens_keeps_its_name_and_is_closed_again() {
        let tried = try_out(&event("cpu-clock:u"), &Sampling::default(), OWN).unwrap();
        assert_eq!((tried.event.name.as_str(), tried.remark), ("cpu-clock:u", None));
    }

    #[test]
    fn what_does_not_open_is_refused_with_the_kernels_own_errno() {
        let refusal = try_out(&event("r7fffffffffff:u"), &Sampling::default(), OWN).err();
        // Refused by a machine without counters, and by one that has no such event.
        if let Some(refusal) = refusal {
            assert!(matches!(refusal.errno, libc::ENOENT | libc::EINVAL), "{refusal}");
        }
    }

    #[test]
    fn an_event_in_user_mode_says_so_in_its_name() {
        for (name, user) in [("cpu-clock", "cpu-clock:u"), ("cycles:ppp", "cycles:pppu")] {
            let What::Counter(counter) = &event(name).what else { unreachable!() };
            let narrowed = in_user_mode(name, counter);
            assert_eq!(narrowed.name, user);
            assert_eq!(narrowed.what, event(user).what);
        }
        assert_eq!(in_user_mode("msr/tsc/", &Counter::default()).name, "msr/tsc/u");
    }
}
