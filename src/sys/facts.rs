//! What decides whether this process may watch this machine: sysctls, capabilities, limits, lockdown.
//!
//! Read when something was refused, not before: nothing here is needed when all goes well. What cannot be
//! read is `None`, and the explanation then does without it.

use super::{cpus, limits, machine};

/// A snapshot of the knobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i64>,
    /// `CAP_PERFMON` (or `CAP_SYS_ADMIN`, which stands for it and was the only one before 5.8) is effective.
    pub perfmon: bool,
    /// The mode in force of `/sys/kernel/security/lockdown`.
    pub lockdown: Option<String>,
    /// `kernel.perf_event_mlock_kb`, for each CPU.
    pub mlock_kb: Option<u64>,
    /// `RLIMIT_MEMLOCK` in KiB; `None` is unlimited.
    pub memlock_kb: Option<u64>,
    /// `RLIMIT_NOFILE`, the soft one.
    pub nofile: u64,
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
            lockdown: lockdown(),
            mlock_kb: machine::sysctl("kernel/perf_event_mlock_kb"),
            memlock_kb: limits::memlock_kb(),
            nofile: limits::nofile().soft,
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

/// Whether a capability is effective in this process.
pub fn capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|mask| mask >> number & 1 == 1)
}

/// The word in brackets of `none [integrity] confidentiality`.
fn lockdown() -> Option<String> {
    let modes = std::fs::read_to_string("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = modes.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
