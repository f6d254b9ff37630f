//! Missing permissions of `perf_event_open`.

use perf_event_open_sys::bindings as b;

use crate::sys::attr::{Attr, PerfTarget};
use crate::sys::privileges::Privileges;

/// Returns whether no process has the missing permission (`TRACE_EVENT_PERF_PERM` tracepoints).
pub(super) fn is_tracepoint_of_kernels_own(attr: &Attr, facts: &Privileges) -> bool {
    let locked = facts.lockdown.as_deref() == Some("confidentiality");
    attr.as_raw().type_ == b::PERF_TYPE_TRACEPOINT && facts.perfmon && facts.opens_own && !locked
}

/// Refusal of `perf_event_open` to a privileged user.
pub(super) const DENIED_TO_ROOT: &str = "permission denied even to root; a seccomp profile \
    (containers), a security module or lockdown forbids it: allow perf_event_open there, or run on \
    the host";

/// Explains a missing permission by the first reason that applies.
pub(super) fn permission(attr: &Attr, target: PerfTarget, facts: &Privileges) -> String {
    let raw = attr.as_raw();
    let tracepoint = raw.type_ == b::PERF_TYPE_TRACEPOINT;
    let has_phys_addr = raw.sample_type & u64::from(b::PERF_SAMPLE_PHYS_ADDR) != 0;
    // Value of perf_event_paranoid that a user without the capability needs (kernel.rst).
    let needed: i64 = if tracepoint && raw.sample_type & u64::from(b::PERF_SAMPLE_RAW) != 0 {
        -1
    } else if target.pid < 0 {
        0
    } else if raw.exclude_kernel() == 0 || has_phys_addr {
        1
    } else {
        2
    };
    if facts.lockdown.as_deref() == Some("confidentiality") {
        return "permission denied; the kernel is locked down (confidentiality), which forbids perf \
                even to root: boot with lockdown=integrity or lockdown=none"
            .into();
    }
    if facts.in_user_namespace {
        return "permission denied; in a user namespace, perf needs CAP_PERFMON in the initial one: \
                run outside of it"
            .into();
    }
    if is_tracepoint_of_kernels_own(attr, facts) {
        return "the kernel does not allow sampling of this tracepoint, because a sample would \
                trigger it again; omit it"
            .into();
    }
    if facts.perfmon {
        return DENIED_TO_ROOT.into();
    }
    match facts.paranoid {
        Some(paranoid) if paranoid > needed && has_phys_addr => format!(
            "permission denied; physical addresses are hidden while perf_event_paranoid is \
             {paranoid}: run as root, set it to {needed}, or omit `_phys_addr`"
        ),
        Some(paranoid) if paranoid > needed => format!(
            "permission denied; perf_event_paranoid is {paranoid}: run as root, or set it to \
             {needed}"
        ),
        _ if target.pid > 0 => format!(
            "permission denied; task {} belongs to another user: run as root, or with CAP_PERFMON",
            target.pid
        ),
        _ => "permission denied; run as root, or with CAP_PERFMON".into(),
    }
}
