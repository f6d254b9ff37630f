//! Samples with a common layout of tracepoints, which are read at known offsets.

use super::{ABSENT, HEADER, RecordLayout};
use perf_event_open_sys::bindings as abi;

/// A sample of a tracepoint; see [`RecordLayout::plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Process id; 0 if it is not in the sample.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds of the event's clock; None if it is not in the sample.
    pub time: Option<u64>,
    /// A tracepoint's record, with up to seven bytes of padding.
    pub raw: &'a [u8],
}

/// Offsets of the fields in a whole record, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainLayout {
    pid: usize,
    tid: usize,
    time: usize,
    raw: usize,
}

impl RecordLayout {
    /// Returns where the fields of a sample are if it has raw data, and nothing else than the
    /// identifier, task and time. `common_pid` is the offset of the thread in the raw data, for
    /// samples without a task.
    pub fn plain(&self, common_pid: Option<usize>) -> Option<PlainLayout> {
        let optional = abi::PERF_SAMPLE_IDENTIFIER | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME;
        if self.shape.sample_type & !u64::from(optional) != u64::from(abi::PERF_SAMPLE_RAW) {
            return None;
        }
        let offset = |place: usize| HEADER.checked_add(place.checked_mul(8)?);
        let raw = HEADER + 8 * self.head.words + 4;
        let (pid, tid) = match offset(self.head.tid) {
            Some(task) => (task, task + 4),
            None => (ABSENT, raw + common_pid?),
        };
        Some(PlainLayout { pid, tid, time: offset(self.head.time).unwrap_or(ABSENT), raw })
    }
}

impl PlainLayout {
    /// Reads a whole record, header included.
    #[inline(always)]
    pub fn read<'a>(&self, record: &'a [u8]) -> Option<Plain<'a>> {
        let size = u32_at(record, self.raw - 4)?;
        Some(Plain {
            pid: u32_at(record, self.pid).unwrap_or(0),
            tid: u32_at(record, self.tid)?,
            time: u64_at(record, self.time),
            raw: record.get(self.raw..)?.get(..size as usize)?,
        })
    }
}

#[inline(always)]
fn u32_at(record: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?))
}

#[inline(always)]
fn u64_at(record: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?))
}
