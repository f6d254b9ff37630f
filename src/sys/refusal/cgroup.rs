//! Explains a control group for which no event opens.

use super::strange;

/// Explains the refusal of a control group. A hierarchy of version 2 keeps state for perf in its
/// groups once another controller has been enabled (`cgroup_propagate_control()`,
/// kernel/cgroup/cgroup.c).
pub(super) fn open_in_cgroup(errno: i32) -> String {
    match errno {
        libc::ENOENT => "the kernel has no perf_event state for this cgroup: it was removed, or, \
                         with cgroup v2, no controller is enabled: write one, such as +cpu, to \
                         cgroup.subtree_control of the root cgroup"
            .into(),
        errno => strange(errno, "name another cgroup"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Refusal, RefusedCall};

    #[test]
    fn a_cgroup_without_perf_event_state_names_the_file_to_write() {
        let refusal = Refusal::new("page-faults", RefusedCall::OpenInCgroup, libc::ENOENT);
        assert!(!refusal.of_event, "other events are refused, too");
        assert_eq!(
            refusal.to_string(),
            "page-faults: the kernel has no perf_event state for this cgroup: it was removed, or, \
             with cgroup v2, no controller is enabled: write one, such as +cpu, to \
             cgroup.subtree_control of the root cgroup"
        );
    }
}
