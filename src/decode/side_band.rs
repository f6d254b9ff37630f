//! The fields of the records that are no samples: one plain struct a kind, in the kernel's words.
//!
//! `trailer` is who wrote the record and when; None without `sample_id_all`. Texts end before their
//! NUL and need not be UTF-8.

use super::read::ReadFormat;
use super::sample::Trailer;
use super::words::Words;

/// What the CPU was doing: `PERF_RECORD_MISC_CPUMODE_MASK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMode {
    /// Not told, or a mode that is not known yet.
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
    /// Whether it is of user space, or one of the kernel's own images.
    pub cpumode: CpuMode,
    /// `PERF_RECORD_MISC_MMAP_DATA`: not executable.
    pub data: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes into the file; of the kernel's image, its own address.
    pub pgoff: u64,
    /// Path, or a name such as `[heap]` or `//anon`.
    pub filename: &'a [u8],
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_MMAP2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap2<'a> {
    /// Whether it is of user space, or one of the kernel's own images.
    pub cpumode: CpuMode,
    /// `PERF_RECORD_MISC_MMAP_DATA`: not executable.
    pub data: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes into the file.
    pub pgoff: u64,
    /// Which file it is.
    pub file: MappedFile<'a>,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// Path, or a name such as `[heap]` or `//anon`.
    pub filename: &'a [u8],
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// How MMAP2 identifies a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedFile<'a> {
    /// By its inode.
    Inode {
        /// Major number of the device.
        maj: u32,
        /// Minor number of the device.
        min: u32,
        /// Inode number.
        ino: u64,
        /// Tells two files apart that had the same inode number one after the other.
        ino_generation: u64,
    },
    /// By its build id, up to 20 bytes: `PERF_RECORD_MISC_MMAP_BUILD_ID`.
    BuildId(&'a [u8]),
}

/// `PERF_RECORD_LOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Id of the event that found room again: not of the one whose records were lost.
    pub id: u64,
    /// Records lost in this ring.
    pub lost: u64,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_LOST_SAMPLES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSamples {
    /// Samples lost.
    pub lost: u64,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_COMM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// `PERF_RECORD_MISC_COMM_EXEC`: by exec, which also means that all mappings are gone.
    pub exec: bool,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The new name.
    pub comm: &'a [u8],
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_FORK` and `PERF_RECORD_EXIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
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
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_THROTTLE` and `PERF_RECORD_UNTHROTTLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// The event's id.
    pub id: u64,
    /// Id of the very event.
    pub stream_id: u64,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_READ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// What was counted.
    pub values: ReadFormat<'a>,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_AUX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aux {
    /// Where the data begins in the AUX area, bytes.
    pub aux_offset: u64,
    /// Bytes.
    pub aux_size: u64,
    /// `PERF_AUX_FLAG_*`: truncated, overwrite, partial, collision, and the PMU's format.
    pub flags: u64,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_ITRACE_START`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItraceStart {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_SWITCH`; the task is in the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// `PERF_RECORD_MISC_SWITCH_OUT`: it leaves the CPU; otherwise it comes.
    pub out: bool,
    /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`: it leaves although it could run.
    pub preempt: bool,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_SWITCH_CPU_WIDE`; the task is in the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCpuWide {
    /// `PERF_RECORD_MISC_SWITCH_OUT`: it leaves the CPU; otherwise it comes.
    pub out: bool,
    /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`: it leaves although it could run.
    pub preempt: bool,
    /// Process id of the next task when it leaves, of the previous one when it comes.
    pub next_prev_pid: u32,
    /// Thread id, likewise.
    pub next_prev_tid: u32,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_NAMESPACES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Two words each, device and inode; see [`Namespaces::get`].
    pub link_info: Words<'a>,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_KSYMBOL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_*`: of a BPF program, out of line code.
    pub ksym_type: u16,
    /// `PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`: it goes.
    pub unregister: bool,
    /// Its name.
    pub name: &'a [u8],
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_BPF_EVENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// `PERF_BPF_EVENT_*`: a program was loaded, unloaded; the kernel calls it `type`.
    pub kind: u16,
    /// None is defined yet.
    pub flags: u16,
    /// Id of the program.
    pub id: u32,
    /// Its tag.
    pub tag: [u8; 8],
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_CGROUP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// What `PERF_SAMPLE_CGROUP` tells.
    pub id: u64,
    /// Path below the root of the hierarchy.
    pub path: &'a [u8],
    /// Who and when.
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
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_AUX_OUTPUT_HW_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxOutputHwId {
    /// The hardware's number.
    pub hw_id: u64,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

/// `PERF_RECORD_CALLCHAIN_DEFERRED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallchainDeferred<'a> {
    /// The same number stands in the samples that this completes, behind `PERF_CONTEXT_USER_DEFERRED`.
    pub cookie: u64,
    /// Return addresses, the innermost first.
    pub ips: Words<'a>,
    /// Who and when.
    pub trailer: Option<Trailer>,
}

impl Namespaces<'_> {
    /// Device and inode of a namespace by its `*_NS_INDEX` (net, uts, ipc, pid, user, mnt, cgroup).
    pub fn get(&self, index: u32) -> Option<(u64, u64)> {
        let at = 2 * usize::try_from(index).ok()?;
        Some((self.link_info.get(at)?, self.link_info.get(at + 1)?))
    }
}
