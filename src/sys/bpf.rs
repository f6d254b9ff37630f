//! The system call `bpf(2)`: maps, programs and their attachment, without a library. All objects
//! are file descriptors and nothing is pinned, so the kernel removes everything with the process.
//!
//! Sources: bpf(2); include/uapi/linux/bpf.h (`union bpf_attr`); kernel/bpf/syscall.c.

mod attr;
mod count_table;
mod link;
mod output_array;
mod possible_cpus;

use super::errno::errno;
use super::refusal::{Refusal, RefusedCall};
use attr::{BpfAttr, owned};
pub use count_table::{CountTable, TableSlots};
pub use link::{BpfLink, LinkedFunctions};
pub use output_array::OutputArray;
use perf_event_open_sys::ioctls;
pub use possible_cpus::{cpu_numbers, possible_cpus};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

/// Commands of the call.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const OBJECT_INFO: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const ENABLE_STATS: libc::c_int = 32;

/// Bytes of the verifier's log that are read after a refusal.
const LOG_BYTES: usize = 1 << 16;

/// The licence of the programs: the functions that they call are reserved for programs that are
/// compatible with the GPL, as these are.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// Offset of `run_time_ns`, `run_cnt` (5.1) and `recursion_misses` (5.12) in `struct
/// bpf_prog_info`, in words.
const RUN_TIME_WORD: usize = 24;

/// Kinds of maps: `BPF_MAP_TYPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BpfMapType {
    /// Values by number.
    Hash = 1,
    /// Values by index.
    Array = 2,
    /// Perf events, one for each CPU.
    PerfEventArray = 4,
    /// Values by index, separate for each CPU.
    PerCpuArray = 6,
    /// Control groups by index.
    CgroupArray = 8,
}

/// Kinds of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfProgramType {
    /// Runs at a tracepoint.
    Tracepoint,
    /// Runs at many functions of the kernel (5.18, `CONFIG_FPROBE`).
    KprobeMulti,
    /// Runs at many functions of a file (6.6).
    UprobeMulti,
    /// Runs at a raw tracepoint, with its arguments (5.5, CONFIG_DEBUG_INFO_BTF).
    RawTracepoint {
        /// The identifier of its type among those of the kernel.
        type_id: u32,
    },
}

impl BpfProgramType {
    /// Returns its `BPF_PROG_TYPE_*`.
    fn number(self) -> u32 {
        match self {
            BpfProgramType::KprobeMulti | BpfProgramType::UprobeMulti => 2,
            BpfProgramType::Tracepoint => 5,
            BpfProgramType::RawTracepoint { .. } => 26,
        }
    }

    /// Returns how it is attached: `BPF_TRACE_RAW_TP`, `BPF_TRACE_KPROBE_MULTI` or
    /// `BPF_TRACE_UPROBE_MULTI`; 0 if the kernel does not ask.
    fn attach_type(self) -> u32 {
        match self {
            BpfProgramType::Tracepoint => 0,
            BpfProgramType::RawTracepoint { .. } => 23,
            BpfProgramType::KprobeMulti => 42,
            BpfProgramType::UprobeMulti => 48,
        }
    }
}

/// A map whose keys are numbers of 4 bytes.
#[derive(Debug)]
pub struct BpfMap {
    fd: OwnedFd,
    value_size: usize,
}

/// Runs of programs that the kernel has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredRuns {
    /// Their number.
    pub runs: u64,
    /// Their time in nanoseconds.
    pub ns: u64,
}

impl MeasuredRuns {
    /// Returns the runs since an earlier time.
    pub fn since(self, before: MeasuredRuns) -> MeasuredRuns {
        MeasuredRuns {
            runs: self.runs.saturating_sub(before.runs),
            ns: self.ns.saturating_sub(before.ns),
        }
    }

    /// Returns the sum of two.
    pub fn plus(self, other: MeasuredRuns) -> MeasuredRuns {
        MeasuredRuns { runs: self.runs + other.runs, ns: self.ns + other.ns }
    }
}

/// A loaded program.
#[derive(Debug)]
pub struct BpfProgram {
    fd: OwnedFd,
}

impl BpfMap {
    /// Creates a map for `entries` values of `value_size` bytes.
    ///
    /// # Errors
    /// The kernel refuses it; the [`Refusal`] explains why.
    pub fn create(kind: BpfMapType, value_size: usize, entries: usize) -> Result<BpfMap, Refusal> {
        let mut attr = BpfAttr::default();
        attr.set_u32(0, kind as u32);
        attr.set_u32(4, 4);
        attr.set_u32(8, value_size as u32);
        attr.set_u32(12, entries as u32);
        // SAFETY: the command uses no pointer.
        let made = unsafe { attr.call(MAP_CREATE) };
        let fd = made.map_err(|why| Refusal::new("BPF", RefusedCall::Bpf(""), errno(&why)))?;
        // SAFETY: the kernel just returned it.
        Ok(BpfMap { fd: unsafe { owned(fd) }, value_size })
    }

    /// Returns the number of the descriptor, for programs.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Sets an entry of an array of files: the perf event that programs write to by this index, or
    /// a control group.
    ///
    /// # Errors
    /// The kernel refuses the file, for example an event that its children inherit.
    pub fn set_file(&self, index: u32, file: BorrowedFd<'_>) -> io::Result<()> {
        self.set_number(index, file.as_raw_fd().cast_unsigned())
    }

    /// Sets an element of a map to a number of 4 bytes.
    ///
    /// # Errors
    /// The kernel refuses the call, or the values of the map have another size.
    pub fn set_number(&self, index: u32, value: u32) -> io::Result<()> {
        if self.value_size != size_of_val(&value) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut attr = BpfAttr::fd(0, &self.fd);
        attr.set_pointer(8, &raw const index);
        attr.set_pointer(16, &raw const value);
        // SAFETY: key and value have 4 bytes each, as the map declares, and outlive the call.
        unsafe { attr.call(MAP_UPDATE) }.map(drop)
    }

    /// Sets a value of all possible CPUs to zeros.
    ///
    /// # Errors
    /// The kernel refuses the call, or the possible CPUs are not known.
    pub fn clear(&self, index: u32) -> io::Result<()> {
        self.set_of_cpus(index, &[])
    }

    /// Sets the values at an index of all possible CPUs, as [`BpfMap::of_cpus`] returns them.
    ///
    /// # Errors
    /// As [`BpfMap::clear`].
    pub fn set_of_cpus(&self, index: u32, values: &[Vec<u8>]) -> io::Result<()> {
        let mut values = values.concat();
        values.resize(self.value_size.next_multiple_of(8) * possible_cpus()?, 0);
        let mut attr = BpfAttr::fd(0, &self.fd);
        attr.set_pointer(8, &raw const index);
        attr.set_pointer(16, values.as_ptr());
        // SAFETY: the key has 4 bytes; the kernel reads a value, rounded up to 8 bytes, for each
        // possible CPU.
        unsafe { attr.call(MAP_UPDATE) }.map(drop)
    }

    /// Removes an entry of an array of perf events, if there is one.
    pub fn remove(&self, index: u32) {
        let mut attr = BpfAttr::fd(0, &self.fd);
        attr.set_pointer(8, &raw const index);
        // SAFETY: the key has 4 bytes, as the map declares, and outlives the call.
        let _ = unsafe { attr.call(MAP_DELETE) };
    }

    /// Returns the values at an index of all possible CPUs, in their order.
    ///
    /// # Errors
    /// The kernel refuses the call, or the possible CPUs are not known.
    pub fn of_cpus(&self, index: u32) -> io::Result<Vec<Vec<u8>>> {
        let size = self.value_size.next_multiple_of(8);
        let mut values = vec![0u8; size * possible_cpus()?];
        let mut attr = BpfAttr::fd(0, &self.fd);
        attr.set_pointer(8, &raw const index);
        attr.set_pointer(16, values.as_mut_ptr());
        // SAFETY: the key has 4 bytes; the kernel writes a value, rounded up to 8 bytes, for each
        // possible CPU.
        unsafe { attr.call(MAP_LOOKUP) }?;
        Ok(values.chunks(size).map(<[u8]>::to_vec).collect())
    }
}

impl BpfProgram {
    /// Loads a program.
    ///
    /// # Errors
    /// The kernel refuses it; the [`Refusal`] has the last line of the verifier's log.
    pub fn load(kind: BpfProgramType, code: &[u64]) -> Result<BpfProgram, Refusal> {
        let why = match load(kind, code, &mut []) {
            Ok(fd) => return Ok(BpfProgram { fd }),
            Err(why) => why,
        };
        let mut log = vec![0; LOG_BYTES];
        if matches!(errno(&why), libc::EINVAL | libc::EACCES | libc::E2BIG) {
            let _ = load(kind, code, &mut log);
        }
        let call = RefusedCall::Bpf(last_line(&log));
        Err(Refusal::new("BPF", call, errno(&why)))
    }

    /// Attaches it to the tracepoint of an open perf event, for as long as that is open.
    ///
    /// # Errors
    /// The kernel refuses it, for example as the 65th program of the tracepoint.
    pub fn attach(&self, event: BorrowedFd<'_>) -> Result<(), Refusal> {
        let number = self.fd.as_raw_fd().cast_unsigned();
        // SAFETY: both descriptors are open; the call takes no pointer.
        match unsafe { ioctls::SET_BPF(event.as_raw_fd(), number) } {
            ..0 => {
                let why = errno(&io::Error::last_os_error());
                Err(Refusal::new("BPF", RefusedCall::Bpf(""), why))
            }
            _ => Ok(()),
        }
    }

    /// Attaches a program of a raw tracepoint for as long as the returned file is open.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn attach_raw(&self) -> Result<OwnedFd, Refusal> {
        let mut attr = BpfAttr::default();
        attr.set_u32(8, self.fd.as_raw_fd().cast_unsigned());
        // SAFETY: the name of the tracepoint is null: the program knows it by its type.
        let opened = unsafe { attr.call(RAW_TRACEPOINT_OPEN) };
        let fd = opened.map_err(|why| Refusal::new("BPF", RefusedCall::Bpf(""), errno(&why)))?;
        // SAFETY: the kernel just returned it.
        Ok(unsafe { owned(fd) })
    }

    /// Returns how often it did not run because another program ran on the same CPU, or, at a raw
    /// tracepoint, because it was running there itself; 0 before 5.12.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn misses(&self) -> io::Result<u64> {
        self.info().map(|[_, _, misses]| misses)
    }

    /// Returns its runs while the kernel measured them, and their nanoseconds.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn measured(&self) -> io::Result<MeasuredRuns> {
        self.info().map(|[ns, runs, _]| MeasuredRuns { runs, ns })
    }

    fn info(&self) -> io::Result<[u64; 3]> {
        let mut info = [0u64; RUN_TIME_WORD + 3];
        let mut attr = BpfAttr::fd(0, &self.fd);
        attr.set_u32(4, size_of_val(&info) as u32);
        attr.set_pointer(8, info.as_mut_ptr());
        // SAFETY: the kernel writes at most the size that is passed; the zeroed fields request no
        // further buffers.
        unsafe { attr.call(OBJECT_INFO) }?;
        Ok([0, 1, 2].map(|word| info[RUN_TIME_WORD + word]))
    }
}

/// Makes the kernel measure the runs of all programs until the file is closed (5.8). Costs each run
/// some tens of nanoseconds.
///
/// # Errors
/// The kernel refuses the call.
pub fn measure_runs() -> io::Result<OwnedFd> {
    let mut attr = BpfAttr::default();
    // SAFETY: the command uses no pointer; the zeroed field is `BPF_STATS_RUN_TIME`.
    let fd = unsafe { attr.call(ENABLE_STATS) }?;
    // SAFETY: the kernel just returned it.
    Ok(unsafe { owned(fd) })
}

/// Loads a program; with a buffer, the verifier writes its log there.
fn load(kind: BpfProgramType, code: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attr = BpfAttr::default();
    attr.set_u32(0, kind.number());
    attr.set_u32(68, kind.attach_type());
    if let BpfProgramType::RawTracepoint { type_id } = kind {
        attr.set_u32(108, type_id);
    }
    attr.set_u32(4, code.len() as u32);
    attr.set_pointer(8, code.as_ptr());
    attr.set_pointer(16, LICENCE.as_ptr());
    if !log.is_empty() {
        attr.set_u32(24, 1);
        attr.set_u32(28, log.len() as u32);
        attr.set_pointer(32, log.as_mut_ptr());
    }
    // SAFETY: code, licence and log outlive the call and have the sizes that are passed; the
    // licence ends with a NUL.
    let fd = unsafe { attr.call(PROG_LOAD) }?;
    // SAFETY: the kernel just returned it.
    Ok(unsafe { owned(fd) })
}

/// Returns the last line of a log that states a problem; empty if there is none.
fn last_line(log: &[u8]) -> &str {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = std::str::from_utf8(&log[..end]).unwrap_or_default();
    let is_problem = |line: &&str| !line.is_empty() && !line.starts_with("processed ");
    text.lines().rev().find(is_problem).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_of_the_verifier_is_the_line_before_its_statistics() {
        let log = b"0: R1=ctx\n5: (85) call 7\nR1 type=scalar expected=fp\n\
                    processed 6 insns (limit 1000000)\n\0\0";
        assert_eq!(last_line(log), "R1 type=scalar expected=fp");
        assert_eq!(last_line(&[0; 8]), "");
    }
}
