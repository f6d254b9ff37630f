//! What decides whether this process may watch this machine: sysctls, capabilities, limits, lockdown.
//!
//! Read when something was refused, not before: nothing here is needed when all goes well. What cannot be
//! read is `None`, and the explanation then does without it.

use perf_event_open_sys::bindings;

use super::{cpus, limits, machine, namespace};

/// A snapshot of the knobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i64>,
    /// `CAP_PERFMON` (or `CAP_SYS_ADMIN`, which stands for it and was the only one before 5.8) is
    /// effective in the initial user namespace, the only one where it counts for perf.
    pub perfmon: bool,
    /// The process is in a user namespace of its own, where root has no privilege over the kernel.
    pub in_user_namespace: bool,
    /// An event of this very process opens, which needs no privilege: nothing forbids perf as a
    /// whole.
    pub opens_own: bool,
    /// The mode in force of `/sys/kernel/security/lockdown`.
    pub lockdown: Option<String>,
    /// `kernel.perf_event_mlock_kb`, for each CPU.
    pub mlock_kb: Option<u64>,
    /// `RLIMIT_MEMLOCK` in KiB; `None` is unlimited.
    pub memlock_kb: Option<u64>,
    /// `RLIMIT_NOFILE`, the soft one.
    pub nofile: u64,
    /// `RLIMIT_NPROC`, the soft one; `None` is unlimited.
    pub nproc: Option<u64>,
    /// `kernel.threads-max`.
    pub threads_max: Option<u64>,
    /// A cgroup of this process that has as many tasks as its `pids.max`, and that number.
    pub full_pids_cgroup: Option<(String, u64)>,
    /// `kernel.perf_event_max_stack`.
    pub max_stack: Option<u64>,
    /// `kernel.perf_event_max_sample_rate`.
    pub sample_rate: Option<u64>,
    /// Online CPUs.
    pub online: Vec<u32>,
    /// Kernel release.
    pub kernel: String,
    /// The PMU of functions of the kernel, and that of programs'.
    pub probes: [Option<u32>; 2],
}

impl Facts {
    /// The facts of this machine and process, now.
    pub fn read() -> Facts {
        Facts {
            paranoid: machine::paranoid(),
            perfmon: capability(CAP_PERFMON) || capability(CAP_SYS_ADMIN),
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
            probes: ["kprobe", "uprobe"].map(machine::pmu_type),
        }
    }
}

/// `CAP_IPC_LOCK` (include/uapi/linux/capability.h): memory is locked without a limit.
pub const CAP_IPC_LOCK: u32 = 14;
/// `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;
/// `CAP_PERFMON`.
const CAP_PERFMON: u32 = 38;

/// Whether a capability is effective in this process, in the initial user namespace: perf, locked
/// memory and the like do not take those of another one.
pub fn capability(number: u32) -> bool {
    namespace::in_initial_user_namespace() && in_effective_set(number)
}

fn in_effective_set(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|mask| mask >> number & 1 == 1)
}

/// Opens an event of the calling thread that counts nothing, and closes it.
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
    // SAFETY: the attr is initialised and carries its size; an event that counts nothing touches no
    // memory.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, 0, -1, -1, flags) };
    // SAFETY: the kernel just gave us this descriptor.
    fd >= 0 && unsafe { libc::close(fd) } == 0
}

/// The word in brackets of `none [integrity] confidentiality`.
fn lockdown() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = modes.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
