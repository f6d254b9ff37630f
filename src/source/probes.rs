//! Probes of functions: how many may be open, and which of a glob the kernel refused.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::ensure;

use super::open::{Opened, Opening};
use crate::base::units::counted;
use crate::sys::refusal::Refusal;

/// The kernel takes so long to close one, and closes them one after the other.
pub const CLOSED_IN_MS: usize = 70;

/// Probes that may be open at once, one for each function and CPU: to close them takes some 18 s.
const OPEN_MAX: usize = 256;

/// Whoever ends a run would like to have known of so long a wait.
const SAID_MS: usize = 5000;

/// Names that a note gives.
const NAMED: usize = 8;

/// A function that the kernel refused, of a glob.
pub(super) struct LeftOut {
    glob: Rc<str>,
    refusal: Refusal,
}

impl Opening {
    /// How many probes it takes on these CPUs.
    pub(super) fn probes(&self, cpus: &[u32]) -> usize {
        let only = self.sampling.cpus.as_ref();
        let on = || cpus.iter().filter(|cpu| only.is_none_or(|only| only.contains(cpu))).count();
        self.event.function().map_or(0, |_| on())
    }
}

/// Whether so many `more` may be opened beside those that are open; what to say about how long they take to close.
///
/// # Errors
/// They are too many.
pub(super) fn allow(open: usize, more: usize) -> anyhow::Result<Option<String>> {
    let all = open + more;
    ensure!(
        more == 0 || all <= OPEN_MAX,
        "{all} probes of functions, one for each function and CPU, are more than the {OPEN_MAX} that can be open at once; \
         narrow the globs, or watch fewer CPUs (-C)"
    );
    let long = |probes: usize| probes * CLOSED_IN_MS >= SAID_MS;
    Ok((long(all) && !long(open)).then(|| {
        format!(
            "{} of functions: at the end the kernel takes some {} s to close them",
            counted(all as u64, "probe"),
            (all * CLOSED_IN_MS).div_ceil(1000)
        )
    }))
}

impl Opened {
    /// Leaves out a function of a glob that the kernel refuses for itself.
    ///
    /// # Errors
    /// The refusal, if it is no such.
    pub(super) fn leave_out(&mut self, opening: &Opening, refusal: Refusal) -> Result<(), Refusal> {
        match opening.event.function().and_then(|function| function.of_glob.clone()) {
            Some(glob) if refusal.is_of_place() => {
                self.left_out.push(LeftOut { glob, refusal });
                Ok(())
            }
            _ => Err(refusal),
        }
    }

    /// Remarks which functions were left out.
    ///
    /// # Errors
    /// All of a glob were.
    pub(super) fn tell_left_out(&mut self, openings: &[Opening]) -> anyhow::Result<()> {
        let mut globs: BTreeMap<Rc<str>, Vec<Refusal>> = BTreeMap::new();
        for LeftOut { glob, refusal } in self.left_out.drain(..) {
            globs.entry(glob).or_default().push(refusal);
        }
        for (glob, refusals) in globs {
            let is_of_it = |opening: &Opening| {
                opening.event.function().is_some_and(|f| f.of_glob.as_ref() == Some(&glob))
            };
            if let Some(first) = refusals.first()
                && !self.events.iter().any(|open| is_of_it(&openings[open.opening]))
            {
                return Err(first.clone().into());
            }
            let name =
                |refusal: &Refusal| refusal.what.rsplit(':').next().unwrap_or_default().to_owned();
            let names: Vec<String> = refusals.iter().take(NAMED).map(name).collect();
            let more = match refusals.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            self.remarks.push(format!(
                "{glob}: left out, since the kernel does not let them be probed: {}{more}",
                names.join(", ")
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_probes_together_have_a_limit_and_a_long_end_is_told_once() {
        assert_eq!(allow(0, 71).unwrap(), None);
        let told = allow(0, 72).unwrap().unwrap();
        assert!(told.starts_with("72 probes of functions") && told.contains("some 6 s"), "{told}");
        assert_eq!(allow(72, 100).unwrap(), None);
        assert!(allow(0, 256).is_ok() && allow(200, 56).is_ok());
        assert!(allow(200, 57).unwrap_err().to_string().starts_with("257 probes"));
        assert!(allow(300, 0).is_ok(), "other events are no probes");
    }
}
