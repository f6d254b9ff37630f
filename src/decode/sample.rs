//! Decodes samples, according to the attributes of their event.
//!
//! The attributes of an event determine the layout of its records. [`RecordLayout`] computes it
//! once; decoding a sample then takes one length check and a few loads at known offsets:
//!
//! ```text
//!   header | IDENTIFIER IP TID TIME ADDR ID STREAM_ID CPU PERIOD | READ CALLCHAIN RAW | rest
//!          |<----------- one word each, known offset ----------->|<---- variable ---->| decoded
//!                                                                                       on demand
//!
//!   other records: header | own fields | TID TIME ID STREAM_ID CPU IDENTIFIER  (`sample_id_all`)
//!                                      |< the trailer: offsets from its start >|
//! ```
//!
//! Events that share a ring may have different layouts: open all of them with IDENTIFIER and
//! `sample_id_all`, so that [`identifier`] returns the event of a record before anything else is
//! decoded. The samples of a single event need no IDENTIFIER.
//!
//! Source: `PERF_RECORD_SAMPLE` and `struct sample_id` in `include/uapi/linux/perf_event.h`, and
//! `perf_output_sample()` in `kernel/events/core.c`.

mod plain;
mod trailer;
mod whole;

use super::cursor::{Bad, Words};
use super::read::{ReadBits, ReadFormat};
use super::record_attrs::RecordAttrs;
use super::sample_extra::{SampleExtra, SampledRegisters, StackUser};
use perf_event_open_sys::bindings as abi;
pub use plain::{Plain, PlainLayout};
pub(super) use trailer::word_at;
pub use whole::{WholeLayout, WholeSample};

/// The layout of the records of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    shape: RecordAttrs,
    head: Places,
    trailer: Places,
}

/// A sample's fields up to its raw data. Fields that the event does not have are 0 or empty, except
/// that `period` is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// `PERF_SAMPLE_IDENTIFIER` or `PERF_SAMPLE_ID`, which are the same number: the event's id.
    pub id: u64,
    /// Instruction pointer.
    pub ip: u64,
    /// Process id, in the pid namespace of the opener.
    pub pid: u32,
    /// Thread id, in the same namespace.
    pub tid: u32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// Address of the event: of a page fault, a data access, a breakpoint.
    pub addr: u64,
    /// Id of this instance of the event; differs from `id` if it is inherited.
    pub stream_id: u64,
    /// The CPU that wrote the sample.
    pub cpu: u32,
    /// Number of occurrences that this sample represents.
    pub period: u64,
    /// Counter values.
    pub read: ReadFormat<'a>,
    /// Return addresses, innermost first, in sections that begin with a `PERF_CONTEXT_*` marker.
    pub callchain: Words<'a>,
    /// A tracepoint's record, with up to seven bytes of padding.
    pub raw: &'a [u8],
    rest: Words<'a>,
}

/// `struct sample_id`: task, time, event and CPU of a record other than a sample. Fields that the
/// event does not have are 0.
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
    /// Id of this instance of the event.
    pub stream_id: u64,
    /// The CPU that wrote the record.
    pub cpu: u32,
}

/// Returns the id of the event of a record, if all events of the ring have `PERF_SAMPLE_IDENTIFIER`
/// and `sample_id_all`: the first word of a sample, the last one of any other record.
#[inline]
pub fn identifier(record: &[u8]) -> Option<u64> {
    let (header, body) = record.split_first_chunk::<HEADER>()?;
    if is_sample(header) {
        Words::new(body).get(0)
    } else {
        body.last_chunk().map(|word| u64::from_ne_bytes(*word))
    }
}

/// Size of `struct perf_event_header` in bytes.
const HEADER: usize = 8;

/// Returns whether `perf_event_header.type`, a u32 in native order, is that of a sample.
#[inline]
fn is_sample(header: &[u8; HEADER]) -> bool {
    header[..4] == abi::PERF_RECORD_SAMPLE.to_ne_bytes()
}

impl RecordLayout {
    /// Computes the layout.
    pub fn new(shape: RecordAttrs) -> RecordLayout {
        RecordLayout { shape, head: Places::head(&shape), trailer: Places::trailer(&shape) }
    }

    /// Returns the attributes of the layout.
    pub fn shape(&self) -> &RecordAttrs {
        &self.shape
    }

    /// Decodes a sample from its bytes after the header, up to its raw data.
    ///
    /// # Errors
    /// The sample is shorter than its layout requires.
    #[inline(always)]
    pub fn sample<'a>(&self, body: &'a [u8]) -> Result<Sample<'a>, Bad> {
        let head = Words::new(body);
        let places = &self.head;
        let mut words = head.tail(places.words).ok_or(Bad::Head)?;
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
            rest: Words::default(),
        };
        let shape = &self.shape;
        if shape.samples(abi::PERF_SAMPLE_READ) {
            let asked = ReadBits::new(shape.read_format);
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
        Ok(sample)
    }

    /// Decodes the fields after the raw data of a sample of this layout.
    ///
    /// # Errors
    /// The sample is shorter than its layout requires.
    pub fn rest<'a>(&self, sample: &Sample<'a>) -> Result<SampleExtra<'a>, Bad> {
        SampleExtra::decode(&self.shape, sample.rest)
    }

    /// Returns the words after the raw data of a sample of this layout.
    #[inline(always)]
    pub fn rest_words<'a>(&self, sample: &Sample<'a>) -> Words<'a> {
        sample.rest
    }

    /// Returns the registers at the event, as [`RecordLayout::rest`] does, from the words after the
    /// raw data, and does not decode the fields behind them; None if there are fewer words than the
    /// layout requires.
    #[inline]
    pub fn registers<'a>(&self, rest: Words<'a>) -> Option<SampledRegisters<'a>> {
        SampleExtra::registers(&self.shape, rest)
    }

    /// Returns the registers of user space and the copy of its stack in the same way.
    #[inline]
    pub fn user_stack<'a>(&self, rest: Words<'a>) -> Option<(SampledRegisters<'a>, StackUser<'a>)> {
        SampleExtra::user_stack(&self.shape, rest)
    }

    /// Returns what [`RecordLayout::rest`] returns, if that is only the id of a cgroup, as in most
    /// samples that have anything after their raw data.
    #[inline(always)]
    pub fn only_cgroup<'a>(&self, rest: Words<'a>) -> Option<SampleExtra<'a>> {
        SampleExtra::only_cgroup(&self.shape, rest)
    }

    /// Returns whether [`RecordLayout::only_cgroup`] returns the fields of each sample.
    pub fn has_only_cgroup(&self) -> bool {
        SampleExtra::is_only_cgroup(&self.shape)
    }

    /// Returns the offset of the time, a u64, in a whole sample; None without `PERF_SAMPLE_TIME`.
    pub fn time_offset(&self) -> Option<usize> {
        (self.head.time != ABSENT).then(|| HEADER + 8 * self.head.time)
    }

    /// Returns the offset of the event's ID among the counter values of a whole sample; None if
    /// they have no IDs. In a group, the event that samples comes first.
    pub fn own_id_offset(&self) -> Option<usize> {
        let asked = ReadBits::new(self.shape.read_format);
        let before = asked.words_before_id().filter(|_| self.shape.samples(abi::PERF_SAMPLE_READ));
        Some(HEADER + 8 * (self.head.words + before?))
    }

    /// Returns the time of a whole record, a sample or another; None if it has none.
    #[inline]
    pub fn time(&self, record: &[u8]) -> Option<u64> {
        let (header, body) = record.split_first_chunk::<HEADER>()?;
        if is_sample(header) {
            return Words::new(body).get(self.head.time);
        }
        let kind = halves(Words::new(record), 0).0;
        word_at(record, self.trailer_time_offset(kind, record.len(), |at| word_at(record, at))?)
    }
}

/// The word index of each field. A field that the event does not have is [`ABSENT`], so that the
/// bounds check, which is required anyway, also detects its absence.
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
    /// Total number of words.
    words: usize,
}

/// An index that is out of bounds in every slice.
const ABSENT: usize = usize::MAX;

impl Places {
    fn head(shape: &RecordAttrs) -> Places {
        let mut next = WordAssigner { shape, words: 0 };
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

    fn trailer(shape: &RecordAttrs) -> Places {
        let none = RecordAttrs::default();
        let mut next =
            WordAssigner { shape: if shape.sample_id_all { shape } else { &none }, words: 0 };
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

/// Assigns word indexes in the order of the calls.
struct WordAssigner<'a> {
    shape: &'a RecordAttrs,
    words: usize,
}

impl WordAssigner<'_> {
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

/// Returns the two u32 of a word, the one at the lower address first.
#[inline]
fn halves(words: Words<'_>, place: usize) -> (u32, u32) {
    halves_of(word(words, place))
}

#[inline(always)]
fn halves_of(word: u64) -> (u32, u32) {
    let (low, high) = (word as u32, (word >> 32) as u32);
    if cfg!(target_endian = "little") { (low, high) } else { (high, low) }
}

/// Takes the size in bytes, a u32, and the bytes directly after it: together they fill whole words.
#[inline]
fn take_raw<'a>(words: &mut Words<'a>) -> Option<&'a [u8]> {
    let (size, _) = halves(*words, 0);
    let bytes = words.take_bytes(4 + u64::from(size))?;
    bytes.get(4..)
}
