//! Facts that decide whether this process may trace this machine: sysctls, capabilities, limits,
//! lockdown.
//!
//! Read only after a refusal: nothing here is needed otherwise. A value that cannot be read is
//! `None`, and the explanation omits it.

use perf_event_open_sys::bindings;

use super::{cpus, limits, machine, namespace};

/// A snapshot of these facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i64>,
    /// Whether `CAP_PERFMON` (or `CAP_SYS_ADMIN`, which includes it and was the only one before
    /// 5.8) is effective in the initial user namespace, the only one that counts for perf.
    pub perfmon: bool,
    /// Whether `CAP_BPF`, or `CAP_SYS_ADMIN`, is effective there.
    pub bpf: bool,
    /// Whether the process is in a user namespace of its own, where root has no privilege over the
    /// kernel.
    pub in_user_namespace: bool,
    /// Whether an event of this process itself can be opened, which needs no privilege: perf is
    /// then not forbidden as a whole.
    pub opens_own: bool,
    /// The active mode in `/sys/kernel/security/lockdown`.
    pub lockdown: Option<String>,
    /// `kernel.perf_event_mlock_kb`, per CPU.
    pub mlock_kb: Option<u64>,
    /// `RLIMIT_MEMLOCK` in KiB; `None` is unlimited.
    pub memlock_kb: Option<u64>,
    /// The soft limit `RLIMIT_NOFILE`.
    pub nofile: u64,
    /// The soft limit `RLIMIT_NPROC`; `None` is unlimited.
    pub nproc: Option<u64>,
    /// `kernel.threads-max`.
    pub threads_max: Option<u64>,
    /// A cgroup of this process with as many tasks as its `pids.max`, and that number.
    pub full_pids_cgroup: Option<(String, u64)>,
    /// `kernel.perf_event_max_stack`.
    pub max_stack: Option<u64>,
    /// `kernel.perf_event_max_sample_rate`.
    pub sample_rate: Option<u64>,
    /// Online CPUs.
    pub online: Vec<u32>,
    /// Kernel release.
    pub kernel: String,
}

impl Privileges {
    /// Reads the facts of this machine and process.
    pub fn read() -> Privileges {
        Privileges {
            paranoid: machine::paranoid(),
            perfmon: capability(CAP_PERFMON) || capability(CAP_SYS_ADMIN),
            bpf: capability(CAP_BPF) || capability(CAP_SYS_ADMIN),
            in_user_namespace: !namespace::in_initial_user_namespace(),
            opens_own: opens_own(),
            lockdown: lockdown(),
            mlock_kb: machine::sysctl("kernel/perf_event_mlock_kb"),
            memlock_kb: limits::memlock_kb(),
            nofile: limits::nofile().soft,
            nproc: limits::nproc(),
            threads_max: machine::sysctl("kernel/threads-max"),
            full_pids_cgroup: limits::full_pids_cgroup(),
            max_stack: machine::sysctl("kernel/perf_event_max_stack"),
            sample_rate: machine::sysctl("kernel/perf_event_max_sample_rate"),
            online: cpus::online_cpus(),
            kernel: machine::kernel_release(),
        }
    }
}

/// `CAP_IPC_LOCK` (include/uapi/linux/capability.h): may lock memory without a limit.
pub const CAP_IPC_LOCK: u32 = 14;
/// `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;
/// `CAP_PERFMON`.
const CAP_PERFMON: u32 = 38;
/// `CAP_BPF`.
const CAP_BPF: u32 = 39;

/// Returns whether a capability is effective in this process, in the initial user namespace: perf,
/// locked memory and the like ignore the capabilities of other namespaces.
pub fn capability(number: u32) -> bool {
    namespace::in_initial_user_namespace() && in_effective_set(number)
}

fn in_effective_set(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|mask| mask >> number & 1 == 1)
}

/// Returns whether an event of the calling thread can be opened; it counts nothing and is closed.
fn opens_own() -> bool {
    let mut attr = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        config: bindings::PERF_COUNT_SW_DUMMY.into(),
        size: size_of::<bindings::perf_event_attr>() as u32,
        ..Default::default()
    };
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    let flags = libc::c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attr is initialised and contains its size; an event that counts nothing touches
    // no memory.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, 0, -1, -1, flags) };
    // SAFETY: the kernel just returned this descriptor.
    fd >= 0 && unsafe { libc::close(fd) } == 0
}

/// Returns the mode in brackets of `none [integrity] confidentiality`.
fn lockdown() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = modes.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
