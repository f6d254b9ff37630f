//! Explains refusals of BPF maps and programs.

use super::strange;
use crate::sys::privileges::Privileges;

/// Explains why the kernel refuses a map or a program. `log` is the verdict of its verifier, if it
/// has looked at the program.
pub(super) fn bpf(log: &str, errno: i32, facts: &Privileges) -> String {
    match errno {
        _ if !log.is_empty() => {
            format!("kernel {} refuses the program ({log}); report this", facts.kernel)
        }
        libc::ENOSYS => "this kernel has no BPF; it needs CONFIG_BPF_SYSCALL=y".into(),
        libc::EPERM | libc::EACCES if facts.in_user_namespace => {
            "permission denied; BPF needs CAP_BPF and CAP_PERFMON in the initial user namespace: \
             run outside of this one"
                .into()
        }
        libc::EPERM | libc::EACCES if !facts.bpf || !facts.perfmon => {
            "permission denied; run as root, or with CAP_BPF and CAP_PERFMON".into()
        }
        libc::EPERM | libc::EACCES => "permission denied even to root; a seccomp profile \
             (containers), a security module or lockdown forbids it: allow bpf there"
            .into(),
        libc::ENOMEM => "the kernel has no memory for it; watch fewer events".into(),
        libc::E2BIG => "the tracepoint has 64 programs already; stop another tracer".into(),
        libc::EINVAL => format!("kernel {} is too old for it", facts.kernel),
        errno => strange(errno, "-v prints which events need it"),
    }
}
