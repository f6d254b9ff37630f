//! Samples of any event whose fields before the call chain are at known offsets.

use super::{ABSENT, HEADER, RecordLayout, Sample, take_raw};
use crate::decode::cursor::Words;
use crate::decode::read::ReadBits;
use perf_event_open_sys::bindings as abi;

/// A sample up to its raw data; see [`RecordLayout::whole`]. Fields that the event does not have
/// are as in [`super::Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeSample<'a> {
    /// Process id, in the pid namespace of the opener.
    pub pid: u32,
    /// Thread id, in the same namespace.
    pub tid: u32,
    /// Nanoseconds of the event's clock; None if it is not in the sample.
    pub time: Option<u64>,
    /// Instruction pointer.
    pub ip: u64,
    /// Address of the event.
    pub addr: u64,
    /// Number of occurrences that this sample represents.
    pub period: u64,
    /// Return addresses, as in [`super::Sample`].
    pub callchain: Words<'a>,
    /// A tracepoint's record, with up to seven bytes of padding.
    pub raw: &'a [u8],
    /// The words after the raw data.
    pub rest: Words<'a>,
}

/// Indexes of the fields among the words after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeLayout {
    task: usize,
    time: usize,
    ip: usize,
    addr: usize,
    period: usize,
    fixed_period: u64,
    /// Words in front of the call chain.
    words: usize,
    has_chain: bool,
    has_raw: bool,
}

impl<'a> Sample<'a> {
    /// Returns the sample without what [`WholeSample`] lacks; its time is known.
    #[inline(always)]
    pub fn whole(&self) -> WholeSample<'a> {
        WholeSample {
            pid: self.pid,
            tid: self.tid,
            time: Some(self.time),
            ip: self.ip,
            addr: self.addr,
            period: self.period,
            callchain: self.callchain,
            raw: self.raw,
            rest: self.rest,
        }
    }
}

impl RecordLayout {
    /// Returns where the fields of a sample are; None if it has the counter values of a group,
    /// whose size differs.
    pub fn whole(&self) -> Option<WholeLayout> {
        let (head, shape) = (&self.head, &self.shape);
        let values = match shape.samples(abi::PERF_SAMPLE_READ) {
            true => ReadBits::new(shape.read_format).words_of_one()?,
            false => 0,
        };
        Some(WholeLayout {
            task: head.tid,
            time: head.time,
            ip: head.ip,
            addr: head.addr,
            period: head.period,
            fixed_period: shape.fixed_period.max(1),
            words: head.words + values,
            has_chain: shape.samples(abi::PERF_SAMPLE_CALLCHAIN),
            has_raw: shape.samples(abi::PERF_SAMPLE_RAW),
        })
    }
}

impl WholeLayout {
    /// Reads a whole record, header included; None if it is shorter than its layout requires.
    #[inline(always)]
    pub fn read<'a>(&self, record: &'a [u8]) -> Option<WholeSample<'a>> {
        let head = Words::new(record.get(HEADER..)?);
        let mut rest = head.tail(self.words)?;
        let word = |place: usize| if place == ABSENT { None } else { head.get(place) };
        let (pid, tid) = word(self.task).map_or((0, 0), super::halves_of);
        let callchain = match self.has_chain {
            true => {
                let number = rest.take_one()?;
                rest.take(number)?
            }
            false => Words::default(),
        };
        let raw = if self.has_raw { take_raw(&mut rest)? } else { &[] };
        Some(WholeSample {
            pid,
            tid,
            time: word(self.time),
            ip: word(self.ip).unwrap_or(0),
            addr: word(self.addr).unwrap_or(0),
            period: word(self.period).unwrap_or(self.fixed_period),
            callchain,
            raw,
            rest,
        })
    }
}
