//! How an event is sampled: what a script or a selector asks for beside the event itself.

use crate::base::cpulist;

/// The wishes of one evsel. Two roles that differ in any of them are opened separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Count only: no samples, read at each interval.
    pub count: bool,
    /// Samples a second.
    pub freq: Option<u64>,
    /// Events per sample.
    pub period: Option<u64>,
    /// Take the call chain.
    pub stack: bool,
    /// Frames of a call chain at most; None is the kernel's own limit.
    pub max_stack: Option<u16>,
    /// Only on these CPUs.
    pub cpus: Option<Vec<u32>>,
    /// Do not count in user mode, kernel mode, the host, a guest.
    pub exclude: Exclude,
    /// Further `perf_event_attr` fields by their kernel names.
    pub fields: Vec<(String, u64)>,
}

/// Modes in which an event does not count: `attr.exclude_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exclude {
    /// `exclude_user`.
    pub user: bool,
    /// `exclude_kernel`.
    pub kernel: bool,
    /// `exclude_host`.
    pub host: bool,
    /// `exclude_guest`.
    pub guest: bool,
}

impl Sampling {
    /// The CPUs as the `cpus=` attribute writes them, for a message.
    pub fn cpus_text(&self) -> Option<String> {
        self.cpus.as_deref().map(cpulist::format)
    }
}
