//! All records that the kernel writes into a ring, borrowed from the ring's bytes.
//!
//! [`parse`] takes the bytes of one record, header first, and the layout of the event that wrote it
//! (with IDENTIFIER and `sample_id_all`, [`super::sample::identifier`] returns the event of any
//! record). Field names are those of `include/uapi/linux/perf_event.h`, which is also the source of
//! each layout; the bits of `misc` that a kind of record defines are separate fields. An unknown
//! kind is a value, not an error. Bits that only the perf tool sets in its own files (FORK_EXEC,
//! PROC_MAP_PARSE_TIMEOUT) are ignored.

use super::cursor::{Bad, Fields, Words};
use super::read::{ReadBits, ReadFormat};
use super::sample::{RecordLayout, Sample, Trailer, word_at};
use super::side_band::{
    Aux, AuxOutputHwId, BpfEvent, CallchainDeferred, Cgroup, Comm, CpuMode, FileIdentity,
    ItraceStart, KsymbolRecord, Lost, LostSamples, Mmap, Mmap2, Namespaces, ReadRecord, Switch,
    SwitchCpuWide, TaskRecord, TextPoke, Throttle,
};
use perf_event_open_sys::bindings as abi;

/// `struct perf_event_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// `PERF_RECORD_*`; named `type` in the kernel.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`; the meaning depends on the kind.
    pub misc: u16,
    /// Bytes of the whole record.
    pub size: u16,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// `PERF_RECORD_MMAP`: a mapping, without the file's identity.
    Mmap(Mmap<'a>),
    /// `PERF_RECORD_LOST`: the ring was full.
    Lost(Lost),
    /// `PERF_RECORD_COMM`: a thread has a new name.
    Comm(Comm<'a>),
    /// `PERF_RECORD_EXIT`: a thread ends.
    Exit(TaskRecord),
    /// `PERF_RECORD_THROTTLE`: an event fires too often and is disabled until the next tick.
    Throttle(Throttle),
    /// `PERF_RECORD_UNTHROTTLE`: the event is enabled again.
    Unthrottle(Throttle),
    /// `PERF_RECORD_FORK`: a thread begins.
    Fork(TaskRecord),
    /// `PERF_RECORD_READ`: counter values of an inherited event in a task that ended.
    Read(ReadRecord<'a>),
    /// `PERF_RECORD_SAMPLE`: an event.
    Sample {
        /// The mode of the code at `ip`.
        cpumode: CpuMode,
        /// `PERF_RECORD_MISC_EXACT_IP`: `ip` is exactly the instruction that caused the event.
        exact_ip: bool,
        /// The sample's fields.
        sample: Sample<'a>,
    },
    /// `PERF_RECORD_MMAP2`: a mapping, with the file's identity and the protection.
    Mmap2(Mmap2<'a>),
    /// `PERF_RECORD_AUX`: new data in the AUX area.
    Aux(Aux),
    /// `PERF_RECORD_ITRACE_START`: an instruction trace begins.
    ItraceStart(ItraceStart),
    /// `PERF_RECORD_LOST_SAMPLES`: the hardware dropped samples before they reached the ring.
    LostSamples(LostSamples),
    /// `PERF_RECORD_SWITCH`: the traced task was switched.
    Switch(Switch),
    /// `PERF_RECORD_SWITCH_CPU_WIDE`: the same, for an event of a CPU.
    SwitchCpuWide(SwitchCpuWide),
    /// `PERF_RECORD_NAMESPACES`: the namespaces of a task.
    Namespaces(Namespaces<'a>),
    /// `PERF_RECORD_KSYMBOL`: a kernel symbol was registered or unregistered.
    Ksymbol(KsymbolRecord<'a>),
    /// `PERF_RECORD_BPF_EVENT`: a BPF program was loaded or unloaded.
    BpfEvent(BpfEvent),
    /// `PERF_RECORD_CGROUP`: a cgroup was created.
    Cgroup(Cgroup<'a>),
    /// `PERF_RECORD_TEXT_POKE`: the kernel modified its code.
    TextPoke(TextPoke<'a>),
    /// `PERF_RECORD_AUX_OUTPUT_HW_ID`: the hardware's id of an event that writes into an AUX
    /// stream.
    AuxOutputHwId(AuxOutputHwId),
    /// `PERF_RECORD_CALLCHAIN_DEFERRED`: the user part of earlier call chains.
    CallchainDeferred(CallchainDeferred<'a>),
    /// A kind added by a newer kernel.
    Unknown(u32),
}

impl Header {
    /// Size of a header in bytes.
    pub const SIZE: usize = 8;

    /// Reads the header at the start of `bytes`.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let (kind, rest) = bytes.split_first_chunk()?;
        let (misc, rest) = rest.split_first_chunk()?;
        let size = rest.first_chunk()?;
        Some(Header {
            kind: u32::from_ne_bytes(*kind),
            misc: u16::from_ne_bytes(*misc),
            size: u16::from_ne_bytes(*size),
        })
    }

    /// Returns whether a bit of `misc` is set.
    pub fn has(&self, bit: u32) -> bool {
        u32::from(self.misc) & bit != 0
    }

    /// Returns the mode of the CPU.
    pub fn cpumode(&self) -> CpuMode {
        match u32::from(self.misc) & abi::PERF_RECORD_MISC_CPUMODE_MASK {
            abi::PERF_RECORD_MISC_KERNEL => CpuMode::Kernel,
            abi::PERF_RECORD_MISC_USER => CpuMode::User,
            abi::PERF_RECORD_MISC_HYPERVISOR => CpuMode::Hypervisor,
            abi::PERF_RECORD_MISC_GUEST_KERNEL => CpuMode::GuestKernel,
            abi::PERF_RECORD_MISC_GUEST_USER => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }
}

/// Decodes the record at the start of `bytes`; ignores bytes after its size.
///
/// # Errors
/// The size in the header is invalid, or less than the record's kind and layout require.
pub fn parse<'a>(bytes: &'a [u8], layout: &RecordLayout) -> Result<Record<'a>, Bad> {
    let header = Header::read(bytes).ok_or(Bad::Header)?;
    let record = bytes.get(..usize::from(header.size)).ok_or(Bad::Size)?;
    let body = record.get(Header::SIZE..).ok_or(Bad::Size)?;
    if header.kind == abi::PERF_RECORD_SAMPLE {
        return Ok(Record::Sample {
            cpumode: header.cpumode(),
            exact_ip: header.has(abi::PERF_RECORD_MISC_EXACT_IP),
            sample: layout.sample(body)?,
        });
    }
    let start = layout.trailer_start(header.kind, record.len(), |at| word_at(record, at));
    let start = start.ok_or(Bad::Trailer)?;
    let fields = Fields(record.get(Header::SIZE..start).ok_or(Bad::Trailer)?);
    side_band(header, fields, layout.shape().read_format, layout.trailer(record))
}

/// Decodes a record other than a sample from the fields between its header and its trailer.
fn side_band(
    header: Header,
    mut fields: Fields<'_>,
    read_format: u64,
    trailer: Option<Trailer>,
) -> Result<Record<'_>, Bad> {
    let f = &mut fields;
    Ok(match header.kind {
        abi::PERF_RECORD_MMAP => Record::Mmap(mmap(header, f, trailer)?),
        abi::PERF_RECORD_MMAP2 => Record::Mmap2(mmap2(header, f, trailer)?),
        abi::PERF_RECORD_LOST => Record::Lost(Lost { id: f.u64()?, lost: f.u64()?, trailer }),
        abi::PERF_RECORD_LOST_SAMPLES => {
            Record::LostSamples(LostSamples { lost: f.u64()?, trailer })
        }
        abi::PERF_RECORD_COMM => Record::Comm(Comm {
            exec: header.has(abi::PERF_RECORD_MISC_COMM_EXEC),
            pid: f.u32()?,
            tid: f.u32()?,
            comm: f.text(),
            trailer,
        }),
        abi::PERF_RECORD_EXIT => Record::Exit(task(f, trailer)?),
        abi::PERF_RECORD_FORK => Record::Fork(task(f, trailer)?),
        abi::PERF_RECORD_THROTTLE => Record::Throttle(throttle(f, trailer)?),
        abi::PERF_RECORD_UNTHROTTLE => Record::Unthrottle(throttle(f, trailer)?),
        abi::PERF_RECORD_READ => Record::Read(ReadRecord {
            pid: f.u32()?,
            tid: f.u32()?,
            values: ReadFormat::take(&mut Words::new(f.0), ReadBits::new(read_format))
                .ok_or(Bad::Body)?,
            trailer,
        }),
        abi::PERF_RECORD_AUX => {
            Record::Aux(Aux { aux_offset: f.u64()?, aux_size: f.u64()?, flags: f.u64()?, trailer })
        }
        abi::PERF_RECORD_ITRACE_START => {
            Record::ItraceStart(ItraceStart { pid: f.u32()?, tid: f.u32()?, trailer })
        }
        abi::PERF_RECORD_SWITCH => Record::Switch(Switch {
            out: header.has(abi::PERF_RECORD_MISC_SWITCH_OUT),
            preempt: header.has(abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT),
            trailer,
        }),
        abi::PERF_RECORD_SWITCH_CPU_WIDE => Record::SwitchCpuWide(SwitchCpuWide {
            out: header.has(abi::PERF_RECORD_MISC_SWITCH_OUT),
            preempt: header.has(abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT),
            next_prev_pid: f.u32()?,
            next_prev_tid: f.u32()?,
            trailer,
        }),
        abi::PERF_RECORD_NAMESPACES => Record::Namespaces(namespaces(f, trailer)?),
        abi::PERF_RECORD_KSYMBOL => Record::Ksymbol(ksymbol(f, trailer)?),
        abi::PERF_RECORD_BPF_EVENT => Record::BpfEvent(BpfEvent {
            kind: f.u16()?,
            flags: f.u16()?,
            id: f.u32()?,
            tag: f.bytes()?,
            trailer,
        }),
        abi::PERF_RECORD_CGROUP => Record::Cgroup(Cgroup { id: f.u64()?, path: f.text(), trailer }),
        abi::PERF_RECORD_TEXT_POKE => {
            let (addr, old, new) = (f.u64()?, f.u16()?, f.u16()?);
            let (old, new) = (f.slice(usize::from(old))?, f.slice(usize::from(new))?);
            Record::TextPoke(TextPoke { addr, old, new, trailer })
        }
        abi::PERF_RECORD_AUX_OUTPUT_HW_ID => {
            Record::AuxOutputHwId(AuxOutputHwId { hw_id: f.u64()?, trailer })
        }
        abi::PERF_RECORD_CALLCHAIN_DEFERRED => {
            let (cookie, number) = (f.u64()?, f.u64()?);
            Record::CallchainDeferred(CallchainDeferred { cookie, ips: f.words(number)?, trailer })
        }
        kind => Record::Unknown(kind),
    })
}

fn mmap<'a>(header: Header, f: &mut Fields<'a>, trailer: Option<Trailer>) -> Result<Mmap<'a>, Bad> {
    Ok(Mmap {
        cpumode: header.cpumode(),
        data: header.has(abi::PERF_RECORD_MISC_MMAP_DATA),
        pid: f.u32()?,
        tid: f.u32()?,
        addr: f.u64()?,
        len: f.u64()?,
        pgoff: f.u64()?,
        filename: f.text(),
        trailer,
    })
}

fn mmap2<'a>(
    header: Header,
    f: &mut Fields<'a>,
    trailer: Option<Trailer>,
) -> Result<Mmap2<'a>, Bad> {
    Ok(Mmap2 {
        cpumode: header.cpumode(),
        data: header.has(abi::PERF_RECORD_MISC_MMAP_DATA),
        pid: f.u32()?,
        tid: f.u32()?,
        addr: f.u64()?,
        len: f.u64()?,
        pgoff: f.u64()?,
        file: mapped_file(f, header.has(abi::PERF_RECORD_MISC_MMAP_BUILD_ID))?,
        prot: f.u32()?,
        flags: f.u32()?,
        filename: f.text(),
        trailer,
    })
}

fn namespaces<'a>(f: &mut Fields<'a>, trailer: Option<Trailer>) -> Result<Namespaces<'a>, Bad> {
    let (pid, tid, number) = (f.u32()?, f.u32()?, f.u64()?);
    let link_info = f.words(number.checked_mul(2).ok_or(Bad::Body)?)?;
    Ok(Namespaces { pid, tid, link_info, trailer })
}

fn ksymbol<'a>(f: &mut Fields<'a>, trailer: Option<Trailer>) -> Result<KsymbolRecord<'a>, Bad> {
    Ok(KsymbolRecord {
        addr: f.u64()?,
        len: f.u32()?,
        ksym_type: f.u16()?,
        unregister: u32::from(f.u16()?) & abi::PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER != 0,
        name: f.text(),
        trailer,
    })
}

fn task(f: &mut Fields<'_>, trailer: Option<Trailer>) -> Result<TaskRecord, Bad> {
    let (pid, ppid, tid, ptid) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
    Ok(TaskRecord { pid, ppid, tid, ptid, time: f.u64()?, trailer })
}

fn throttle(f: &mut Fields<'_>, trailer: Option<Trailer>) -> Result<Throttle, Bad> {
    Ok(Throttle { time: f.u64()?, id: f.u64()?, stream_id: f.u64()?, trailer })
}

/// Decodes the 24 bytes of an inode or of a build id: its size, three unused bytes, and 20 bytes
/// for the id.
fn mapped_file<'a>(f: &mut Fields<'a>, build_id: bool) -> Result<FileIdentity<'a>, Bad> {
    if build_id {
        let [size, _, _, _] = f.bytes()?;
        let room = f.slice(20)?;
        return Ok(FileIdentity::BuildId(room.get(..usize::from(size)).ok_or(Bad::Body)?));
    }
    Ok(FileIdentity::Inode {
        maj: f.u32()?,
        min: f.u32()?,
        ino: f.u64()?,
        ino_generation: f.u64()?,
    })
}
