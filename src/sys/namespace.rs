//! Whether this process is in the initial namespaces, where ids are those of the kernel.

use std::os::unix::fs::MetadataExt as _;

/// Returns whether this process is in the initial pid namespace.
pub fn in_root_pid_namespace() -> bool {
    // PROC_PID_INIT_INO of include/linux/proc_ns.h, which is part of the ABI.
    const ROOT: u64 = 0xEFFF_FFFC;
    number_of("pid") == Some(ROOT)
}

/// Returns whether this process is in the initial user namespace. Also true where that is unknown:
/// without /proc, or on a kernel without user namespaces.
pub fn in_initial_user_namespace() -> bool {
    // PROC_USER_INIT_INO.
    const INITIAL: u64 = 0xEFFF_FFFD;
    number_of("user").is_none_or(|number| number == INITIAL)
}

/// Returns whether this process is in the initial cgroup namespace, where paths begin at the roots
/// of the hierarchies.
pub fn in_initial_cgroup_namespace() -> bool {
    // PROC_CGROUP_INIT_INO.
    const INITIAL: u64 = 0xEFFF_FFFB;
    number_of("cgroup") == Some(INITIAL)
}

fn number_of(namespace: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/self/ns/{namespace}")).ok().map(|file| file.ino())
}
