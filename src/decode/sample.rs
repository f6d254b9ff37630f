//! A sample's bytes into values, by the bits that its event was opened with.
//!
//! An event's attributes fix what its records look like. [`Layout`] works that out once; decoding a
//! sample is then one length check and a few loads at known places:
//!
//! ```text
//!   header | IDENTIFIER IP TID TIME ADDR ID STREAM_ID CPU PERIOD | READ CALLCHAIN RAW | rest
//!          |<---- one word each: its place is known ------------>|<-- each has its -->|  `rest.rs`,
//!                                                                     own length         on demand
//!
//!   any other record:  header | its own fields | TID TIME ID STREAM_ID CPU IDENTIFIER   (`sample_id_all`)
//!                                              |<----- the trailer: places from the end ----->|
//! ```
//!
//! Events that share a ring may have different layouts: give them all IDENTIFIER and `sample_id_all`,
//! so that [`identifier`] finds whose record it is before anything else is known.
//!
//! Source: `PERF_RECORD_SAMPLE` and `struct sample_id` in `include/uapi/linux/perf_event.h`, and
//! `perf_output_sample()` in `kernel/events/core.c`.

use super::read::{Asked, ReadFormat};
use super::rest::Rest;
use super::words::{Bad, Words};
use perf_event_open_sys::bindings as abi;

/// The attributes of an event that decide what its records look like; names and values as in `perf_event_attr`.
///
/// Bits of `sample_type` that the ABI does not know are not looked at: no kernel opens such an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// `PERF_FORMAT_*`.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
    /// One bit for each register of `PERF_SAMPLE_REGS_USER`.
    pub sample_regs_user: u64,
    /// One bit for each register of `PERF_SAMPLE_REGS_INTR`.
    pub sample_regs_intr: u64,
    /// Whether records that are no samples end with a trailer.
    pub sample_id_all: bool,
    /// How many events a sample stands for if it does not have `PERF_SAMPLE_PERIOD`; 0 is 1.
    pub fixed_period: u64,
}

/// How to read the records of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    head: Places,
    trailer: Places,
}

/// A sample's fields up to its raw data, and its cgroup. What was not asked for is 0 or empty, but `period` is then 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// `PERF_SAMPLE_IDENTIFIER` or `PERF_SAMPLE_ID`, which are the same number: the event's id.
    pub id: u64,
    /// Instruction pointer.
    pub ip: u64,
    /// Process id, as the opener's pid namespace numbers it.
    pub pid: u32,
    /// Thread id, likewise.
    pub tid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// Address that the event is about: of a page fault, a data access, a breakpoint.
    pub addr: u64,
    /// Id of the very event; differs from `id` for an inherited one.
    pub stream_id: u64,
    /// The CPU that wrote the sample.
    pub cpu: u32,
    /// How much of the event this sample stands for.
    pub period: u64,
    /// Counter values.
    pub read: ReadFormat<'a>,
    /// Return addresses, the innermost first, in sections that begin with a `PERF_CONTEXT_*` marker.
    pub callchain: Words<'a>,
    /// A tracepoint's record, and up to seven bytes that pad it.
    pub raw: &'a [u8],
    /// `PERF_SAMPLE_CGROUP`, the one field out of the rest that a slot has room for.
    pub cgroup: u64,
    rest: Words<'a>,
}

/// A sample of the layout that most tracepoints have; see [`Layout::is_plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// The CPU that wrote the sample.
    pub cpu: u32,
    /// A tracepoint's record, and up to seven bytes that pad it.
    pub raw: &'a [u8],
}

impl<'a> Plain<'a> {
    /// `PERF_SAMPLE_*` of the layout.
    const KINDS: u32 = abi::PERF_SAMPLE_IDENTIFIER
        | abi::PERF_SAMPLE_TID
        | abi::PERF_SAMPLE_TIME
        | abi::PERF_SAMPLE_CPU
        | abi::PERF_SAMPLE_RAW;

    /// Reads a whole record, header included, whose layout [is plain](Layout::is_plain): every place is a constant.
    #[inline(always)]
    pub fn read(record: &'a [u8]) -> Option<Plain<'a>> {
        let (head, rest) = record.split_first_chunk::<44>()?;
        let u32_at =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (low, high) = if cfg!(target_endian = "little") { (24, 28) } else { (28, 24) };
        Some(Plain {
            pid: u32_at(16),
            tid: u32_at(20),
            time: u64::from(u32_at(low)) | u64::from(u32_at(high)) << 32,
            cpu: u32_at(32),
            raw: rest.get(..u32_at(40) as usize)?,
        })
    }
}

/// `struct sample_id`: who wrote a record that is no sample, and when. What was not asked for is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// `PERF_SAMPLE_IDENTIFIER` or `PERF_SAMPLE_ID`: the event's id.
    pub id: u64,
    /// Id of the very event.
    pub stream_id: u64,
    /// The CPU that wrote the record.
    pub cpu: u32,
}

/// The id of the event that a record belongs to, when all events of the ring have `PERF_SAMPLE_IDENTIFIER`
/// and `sample_id_all`: the first word of a sample, the last one of every other record.
#[inline]
pub fn identifier(record: &[u8]) -> Option<u64> {
    let (header, body) = record.split_first_chunk::<HEADER>()?;
    if is_sample(header) {
        Words::new(body).get(0)
    } else {
        body.last_chunk().map(|word| u64::from_ne_bytes(*word))
    }
}

/// Bytes of `struct perf_event_header`.
const HEADER: usize = 8;

/// `perf_event_header.type` is a u32 in native order.
#[inline]
fn is_sample(header: &[u8; HEADER]) -> bool {
    header[..4] == abi::PERF_RECORD_SAMPLE.to_ne_bytes()
}

impl Shape {
    /// Whether one of these bits is set in `sample_type`.
    #[inline]
    pub fn samples(&self, bits: u32) -> bool {
        self.sample_type & u64::from(bits) != 0
    }

    /// Whether one of these bits is set in `branch_sample_type`.
    pub(super) fn branches(&self, bits: u32) -> bool {
        self.branch_sample_type & u64::from(bits) != 0
    }
}

impl Layout {
    /// Works out where everything lies.
    pub fn new(shape: Shape) -> Layout {
        Layout { shape, head: Places::head(&shape), trailer: Places::trailer(&shape) }
    }

    /// Whether samples are just identifier, task, time, CPU and raw data, so that [`Plain::read`] reads them.
    pub fn is_plain(&self) -> bool {
        self.shape.sample_type == u64::from(Plain::KINDS)
    }

    /// What it was made from.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Decodes a sample from its bytes behind the header. What lies behind the raw data is not looked at, unless
    /// the cgroup was asked for.
    #[inline(always)]
    pub fn sample<'a>(&self, body: &'a [u8]) -> Result<Sample<'a>, Bad> {
        let head = Words::new(body);
        let places = &self.head;
        if head.len() < places.words {
            return Err(Bad::Head);
        }
        let mut words = head.skip(places.words);
        let (pid, tid) = halves(head, places.tid);
        let (cpu, _) = halves(head, places.cpu);
        let mut sample = Sample {
            id: word(head, places.id),
            ip: word(head, places.ip),
            pid,
            tid,
            time: word(head, places.time),
            addr: word(head, places.addr),
            stream_id: word(head, places.stream_id),
            cpu,
            period: head.get(places.period).unwrap_or(self.shape.fixed_period.max(1)),
            read: ReadFormat::default(),
            callchain: Words::default(),
            raw: &[],
            cgroup: 0,
            rest: Words::default(),
        };
        let shape = &self.shape;
        if shape.samples(abi::PERF_SAMPLE_READ) {
            let asked = Asked::new(shape.read_format);
            sample.read = ReadFormat::take(&mut words, asked).ok_or(Bad::Read)?;
        }
        if shape.samples(abi::PERF_SAMPLE_CALLCHAIN) {
            let number = words.take_one().ok_or(Bad::Callchain)?;
            sample.callchain = words.take(number).ok_or(Bad::Callchain)?;
        }
        if shape.samples(abi::PERF_SAMPLE_RAW) {
            sample.raw = take_raw(&mut words).ok_or(Bad::Raw)?;
        }
        sample.rest = words;
        if shape.samples(abi::PERF_SAMPLE_CGROUP) {
            sample.cgroup = self.cgroup_in(words)?;
        }
        Ok(sample)
    }

    /// Out of line, and with the words alone: the usual samples stay in registers.
    #[inline(never)]
    fn cgroup_in(&self, rest: Words<'_>) -> Result<u64, Bad> {
        Rest::decode(&self.shape, rest).map(|rest| rest.cgroup)
    }

    /// Decodes what lies behind the raw data of a sample of this layout.
    pub fn rest<'a>(&self, sample: &Sample<'a>) -> Result<Rest<'a>, Bad> {
        Rest::decode(&self.shape, sample.rest)
    }

    /// The trailer of a record that is no sample, given whole; None without `sample_id_all`, or when the
    /// record is too short for it.
    pub fn trailer(&self, record: &[u8]) -> Option<Trailer> {
        let size = self.trailer_size();
        let start = record.len().checked_sub(size).filter(|start| *start >= HEADER)?;
        let words = Words::new(record.get(start..)?);
        let places = &self.trailer;
        let (pid, tid) = halves(words, places.tid);
        let (cpu, _) = halves(words, places.cpu);
        (size != 0).then(|| Trailer {
            pid,
            tid,
            time: word(words, places.time),
            id: word(words, places.id),
            stream_id: word(words, places.stream_id),
            cpu,
        })
    }

    /// Bytes of the trailer; 0 without `sample_id_all`.
    pub fn trailer_size(&self) -> usize {
        8 * self.trailer.words
    }

    /// The byte of a whole sample where its time begins, a u64; None without `PERF_SAMPLE_TIME`.
    pub fn time_offset(&self) -> Option<usize> {
        (self.head.time != ABSENT).then(|| HEADER + 8 * self.head.time)
    }

    /// How many bytes before the end of any other record its time begins, a u64; None when its trailer has none.
    pub fn trailer_time_from_end(&self) -> Option<usize> {
        (self.trailer.time != ABSENT).then(|| 8 * (self.trailer.words - self.trailer.time))
    }

    /// When a record was written, a sample or another, given whole; None when it does not tell.
    #[inline]
    pub fn time(&self, record: &[u8]) -> Option<u64> {
        let (header, body) = record.split_first_chunk::<HEADER>()?;
        if is_sample(header) {
            return Words::new(body).get(self.head.time);
        }
        let start = body.len().checked_sub(self.trailer_size())?;
        Words::new(body.get(start..)?).get(self.trailer.time)
    }
}

/// Which word holds which field. A place that was not asked for is [`ABSENT`], so that the check against
/// the record's length, which has to be made anyway, also finds that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    id: usize,
    ip: usize,
    tid: usize,
    time: usize,
    addr: usize,
    stream_id: usize,
    cpu: usize,
    period: usize,
    /// How many there are in all.
    words: usize,
}

/// No slice has a word of this index.
const ABSENT: usize = usize::MAX;

impl Places {
    fn head(shape: &Shape) -> Places {
        let mut next = Next { shape, words: 0 };
        let identifier = next.place(abi::PERF_SAMPLE_IDENTIFIER);
        let ip = next.place(abi::PERF_SAMPLE_IP);
        let tid = next.place(abi::PERF_SAMPLE_TID);
        let time = next.place(abi::PERF_SAMPLE_TIME);
        let addr = next.place(abi::PERF_SAMPLE_ADDR);
        let id = next.place(abi::PERF_SAMPLE_ID).min(identifier);
        let stream_id = next.place(abi::PERF_SAMPLE_STREAM_ID);
        let cpu = next.place(abi::PERF_SAMPLE_CPU);
        let period = next.place(abi::PERF_SAMPLE_PERIOD);
        Places { id, ip, tid, time, addr, stream_id, cpu, period, words: next.words }
    }

    fn trailer(shape: &Shape) -> Places {
        let none = Shape::default();
        let mut next = Next { shape: if shape.sample_id_all { shape } else { &none }, words: 0 };
        let tid = next.place(abi::PERF_SAMPLE_TID);
        let time = next.place(abi::PERF_SAMPLE_TIME);
        let id = next.place(abi::PERF_SAMPLE_ID);
        let stream_id = next.place(abi::PERF_SAMPLE_STREAM_ID);
        let cpu = next.place(abi::PERF_SAMPLE_CPU);
        let id = next.place(abi::PERF_SAMPLE_IDENTIFIER).min(id);
        let (ip, addr, period) = (ABSENT, ABSENT, ABSENT);
        Places { id, ip, tid, time, addr, stream_id, cpu, period, words: next.words }
    }
}

/// Gives out places in the order in which they are asked for.
struct Next<'a> {
    shape: &'a Shape,
    words: usize,
}

impl Next<'_> {
    fn place(&mut self, bit: u32) -> usize {
        if !self.shape.samples(bit) {
            return ABSENT;
        }
        self.words += 1;
        self.words - 1
    }
}

#[inline]
fn word(words: Words<'_>, place: usize) -> u64 {
    words.get(place).unwrap_or(0)
}

/// A word that holds two u32, the one at the lower address first.
#[inline]
fn halves(words: Words<'_>, place: usize) -> (u32, u32) {
    let word = word(words, place);
    let (low, high) = (word as u32, (word >> 32) as u32);
    if cfg!(target_endian = "little") { (low, high) } else { (high, low) }
}

/// The size in bytes, a u32, and right behind it the bytes: together they fill whole words.
#[inline]
fn take_raw<'a>(words: &mut Words<'a>) -> Option<&'a [u8]> {
    let (size, _) = halves(*words, 0);
    let bytes = words.take_bytes(4 + u64::from(size))?;
    bytes.get(4..)
}
