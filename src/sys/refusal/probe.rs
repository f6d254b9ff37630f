//! Explains refusals of function probes.

use super::permission::DENIED_TO_ROOT;
use super::{ENOTSUPP, strange};
use crate::sys::privileges::Privileges;
use crate::sys::probe_type::ProbeType;

/// Refusal of function events to unprivileged users.
pub const FUNCTIONS_NEED_ROOT: &str = "permission denied; functions need root, regardless of \
    perf_event_paranoid: run as root";

/// Explains why tracefs refuses a probe.
pub(super) fn create_probe(type_: ProbeType, errno: i32, facts: &Privileges) -> String {
    let file = type_.list();
    match errno {
        libc::EROFS => {
            format!("tracefs is mounted read-only; remount it so that {file} can be written")
        }
        libc::EACCES | libc::EPERM => FUNCTIONS_NEED_ROOT.to_owned(),
        errno => match probe(type_, errno, facts) {
            Some(why) => why.to_owned(),
            None => strange(errno, "the last lines of `error_log` in tracefs explain it"),
        },
    }
}

/// Explains refusals that are specific to functions, of the kernel or not, by `trace_kprobe.c` and
/// `trace_uprobe.c` of kernel/trace.
pub(super) fn probe(type_: ProbeType, errno: i32, facts: &Privileges) -> Option<&'static str> {
    use ProbeType::{Fprobe, Kprobe, Tprobe, Uprobe};
    Some(match (errno, type_) {
        (libc::EACCES | libc::EPERM, _) if !facts.perfmon => FUNCTIONS_NEED_ROOT,
        (libc::EACCES | libc::EPERM, _) => DENIED_TO_ROOT,
        (libc::ENOENT, Kprobe | Fprobe) => {
            "the kernel cannot find the function; its module may have been unloaded: load it first"
        }
        (libc::EEXIST, Tprobe) => {
            "before Linux 6.17 a tracepoint has one tprobe, and another one is there; list all \
             values in one: tprobe:TRACEPOINT(A, B)"
        }
        (libc::ENOENT | libc::EINVAL, Tprobe) => {
            "the kernel cannot probe the tracepoint; its module may have been unloaded: load it \
             first"
        }
        (libc::EINVAL, Fprobe) => {
            "the kernel cannot trace this function, or not read these values there; omit some, or \
             watch a function that calls it"
        }
        (libc::EINVAL, Kprobe) => {
            "the kernel does not allow a probe on this function (probes use it themselves, or it \
             runs where probes are not allowed); watch a function that calls it"
        }
        (libc::EADDRNOTAVAIL, Kprobe | Fprobe) => {
            "several functions have this name, and the kernel cannot choose one; watch a function \
             that calls it"
        }
        (libc::EILSEQ | libc::EOPNOTSUPP | ENOTSUPP, _) => {
            "the kernel cannot put a probe on this instruction, or none begins at this offset; \
             watch a function that calls it"
        }
        (libc::ENOENT | libc::EINVAL, Uprobe) => {
            "the kernel cannot probe its file; check that the file still exists and is on a disk \
             of this machine"
        }
        (libc::EIO, Uprobe) => {
            "its file system does not support probes, as it has no page cache; copy the program to \
             another one and start it there"
        }
        _ => return None,
    })
}
