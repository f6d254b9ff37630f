//! The limit of function probes.

use anyhow::ensure;

use crate::base::text::units::counted;
use crate::event::kind::Event;
use crate::source::request::Opening;

/// Time in ms that the kernel takes to close a probe. It closes them one after the other.
pub const CLOSED_IN_MS: usize = 85;

/// Probes that may be open at once. Closing them takes about 22 s.
const OPEN_MAX: usize = 256;

/// Closing time in ms from which on the user is warned.
const WARN_MS: usize = 5000;

impl Opening {
    /// Returns the number of probes that it needs, those of the members of its group included.
    pub(in crate::source) fn probes(&self) -> usize {
        let sites = |event: &Event| event.kind().probe().map_or(0, |point| point.sites.len());
        let members = self.event.members().iter().map(|member| sites(&member.event));
        sites(&self.event) + members.sum::<usize>()
    }
}

/// Returns the number of probes of openings that have no BPF link.
pub(in crate::source) fn probes_of<'a, A: 'a>(
    openings: impl Iterator<Item = (&'a Opening, &'a Option<A>)>,
) -> usize {
    openings.filter(|(_, linked)| linked.is_none()).map(|(opening, _)| opening.probes()).sum()
}

/// Checks whether `more` probes may be opened beside the `open` ones. Returns a remark if closing
/// them takes long.
///
/// # Errors
/// There are too many probes.
pub(in crate::source) fn allow(open: usize, more: usize) -> anyhow::Result<Option<String>> {
    let all = open + more;
    ensure!(
        more == 0 || all <= OPEN_MAX,
        "{all} function probes exceed the limit of {OPEN_MAX} open at once; narrow the globs"
    );
    let long = |probes: usize| probes * CLOSED_IN_MS >= WARN_MS;
    Ok((long(all) && !long(open)).then(|| {
        format!(
            "{}: at the end the kernel needs about {} s to close them",
            counted(all as u64, "function probe"),
            (all * CLOSED_IN_MS).div_ceil(1000)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_probes_is_limited_and_a_slow_close_is_reported_once() {
        assert_eq!(allow(0, 58).unwrap(), None);
        let remark = allow(0, 59).unwrap().unwrap();
        assert!(remark.starts_with("59 function probes: "), "{remark}");
        assert!(remark.contains("about 6 s"), "{remark}");
        assert_eq!(allow(59, 100).unwrap(), None);
        assert!(allow(0, 256).is_ok() && allow(200, 56).is_ok());
        assert!(allow(200, 57).unwrap_err().to_string().starts_with("257 function probes"));
        assert!(allow(300, 0).is_ok(), "other events are not probes");
    }
}
