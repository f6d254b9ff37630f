//! The fields of records other than samples: one plain struct per kind, with the kernel's field
//! names.
//!
//! `trailer` is the task, time and CPU of the record; None without `sample_id_all`. Texts end
//! before their NUL and need not be UTF-8.

use super::cursor::Words;
use super::read::ReadFormat;
use super::sample::Trailer;

/// The mode of the CPU: `PERF_RECORD_MISC_CPUMODE_MASK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMode {
    /// Not known, or a mode added by a newer kernel.
    Unknown,
    /// The kernel.
    Kernel,
    /// User space.
    User,
    /// The hypervisor.
    Hypervisor,
    /// A guest's kernel.
    GuestKernel,
    /// A guest's user space.
    GuestUser,
}

/// `PERF_RECORD_MMAP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// `User` for a mapping of a process, `Kernel` for one of the kernel's own images.
    pub cpumode: CpuMode,
    /// `PERF_RECORD_MISC_MMAP_DATA`: not executable.
    pub data: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file in bytes; for the kernel's image, its address.
    pub pgoff: u64,
    /// Path, or a name such as `[heap]` or `//anon`.
    pub filename: &'a [u8],
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_MMAP2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// `User` for a mapping of a process, `Kernel` for one of the kernel's own images.
    pub cpumode: CpuMode,
    /// `PERF_RECORD_MISC_MMAP_DATA`: not executable.
    pub data: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file in bytes.
    pub pgoff: u64,
    /// Identity of the file.
    pub file: FileIdentity<'a>,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// Path, or a name such as `[heap]` or `//anon`.
    pub filename: &'a [u8],
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// The identity of a file in MMAP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIdentity<'a> {
    /// By its inode.
    Inode {
        /// Major number of the device.
        maj: u32,
        /// Minor number of the device.
        min: u32,
        /// Inode number.
        ino: u64,
        /// Distinguishes successive files with the same inode number.
        ino_generation: u64,
    },
    /// By its build id, up to 20 bytes: `PERF_RECORD_MISC_MMAP_BUILD_ID`.
    BuildId(&'a [u8]),
}

/// `PERF_RECORD_LOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Id of the event whose record fitted again, not of the one whose records were lost.
    pub id: u64,
    /// Records lost in this ring.
    pub lost: u64,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_LOST_SAMPLES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSamples {
    /// Samples lost.
    pub lost: u64,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// `PERF_RECORD_MISC_COMM_EXEC`: the name was set by exec, which also removed all mappings.
    pub exec: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The new name.
    pub comm: &'a [u8],
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_FORK` and `PERF_RECORD_EXIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub ppid: u32,
    /// Thread id.
    pub tid: u32,
    /// Thread id of the parent.
    pub ptid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_THROTTLE` and `PERF_RECORD_UNTHROTTLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// The event's id.
    pub id: u64,
    /// Id of this instance of the event, which differs from `id` if it is inherited.
    pub stream_id: u64,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_READ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRecord<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Counter values.
    pub values: ReadFormat<'a>,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_AUX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aux {
    /// Start of the data in the AUX area, in bytes.
    pub aux_offset: u64,
    /// Size in bytes.
    pub aux_size: u64,
    /// `PERF_AUX_FLAG_*`: truncated, overwrite, partial, collision, and the PMU's format.
    pub flags: u64,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_ITRACE_START`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItraceStart {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_SWITCH`; the task is in the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// `PERF_RECORD_MISC_SWITCH_OUT`: the task is switched out; otherwise it is switched in.
    pub out: bool,
    /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`: the task is preempted.
    pub preempt: bool,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_SWITCH_CPU_WIDE`; the task is in the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCpuWide {
    /// `PERF_RECORD_MISC_SWITCH_OUT`: the task is switched out; otherwise it is switched in.
    pub out: bool,
    /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`: the task is preempted.
    pub preempt: bool,
    /// Process id of the next task on switch-out, of the previous task on switch-in.
    pub next_prev_pid: u32,
    /// Thread id of the same task.
    pub next_prev_tid: u32,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_NAMESPACES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Two words per namespace, device and inode; see [`Namespaces::get`].
    pub link_info: Words<'a>,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_KSYMBOL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KsymbolRecord<'a> {
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_*`: a BPF program, out-of-line code.
    pub ksym_type: u16,
    /// `PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`: the symbol was unregistered.
    pub unregister: bool,
    /// Its name.
    pub name: &'a [u8],
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_BPF_EVENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// `PERF_BPF_EVENT_*`: the program was loaded or unloaded; named `type` in the kernel.
    pub kind: u16,
    /// No flags are defined yet.
    pub flags: u16,
    /// Id of the program.
    pub id: u32,
    /// Tag of the program.
    pub tag: [u8; 8],
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_CGROUP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// The value of `PERF_SAMPLE_CGROUP`.
    pub id: u64,
    /// Path relative to the root of the hierarchy.
    pub path: &'a [u8],
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_TEXT_POKE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// First address.
    pub addr: u64,
    /// The code before.
    pub old: &'a [u8],
    /// The code now.
    pub new: &'a [u8],
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_AUX_OUTPUT_HW_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxOutputHwId {
    /// The hardware's id of the event.
    pub hw_id: u64,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_CALLCHAIN_DEFERRED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallchainDeferred<'a> {
    /// The number after `PERF_CONTEXT_USER_DEFERRED` in the samples that this record completes.
    pub cookie: u64,
    /// Return addresses, innermost first.
    pub ips: Words<'a>,
    /// Task, time and CPU of the record.
    pub trailer: Option<Trailer>,
}

impl Namespaces<'_> {
    /// Returns device and inode of a namespace by its `*_NS_INDEX` (net, uts, ipc, pid, user, mnt,
    /// cgroup).
    pub fn get(&self, index: u32) -> Option<(u64, u64)> {
        let at = 2 * usize::try_from(index).ok()?;
        Some((self.link_info.get(at)?, self.link_info.get(at + 1)?))
    }
}
