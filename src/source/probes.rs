//! Probes of functions: how many may be open.

use anyhow::ensure;

use super::open::Opening;
use crate::base::units::counted;

/// The kernel takes so long to close one, and closes them one after the other.
pub const CLOSED_IN_MS: usize = 70;

/// Probes that may be open at once, one for each function and CPU: to close them takes some 18 s.
const OPEN_MAX: usize = 256;

/// Whoever ends a run would like to have known of so long a wait.
const SAID_MS: usize = 5000;

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
