//! The layout of the maps of pairs ([`super`]), in words of 8 bytes.

use crate::bpf::count::CountLayout;
use crate::bpf::key::KeyShape;
use crate::bpf::map_access::WORD;
use crate::bpf::record_text::COMM_WORDS;

/// The layout of keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairLayout {
    /// The key of a pair.
    pub pair: KeyShape,
    /// The values that a start keeps, after its time.
    pub kept: KeyShape,
    /// The keys of delays, after the bucket.
    pub row: KeyShape,
    /// The keys of each count, after its number, and its values.
    pub counts: Vec<CountLayout>,
    /// Whether a start stays in its map after its end: its key is the CPU, or a thread whose last
    /// event removes it.
    pub in_place: bool,
    /// The fields of both events of long delays; None if none are written.
    pub long: Option<LongLayout>,
}

/// Bytes before the fields of an end: its side, task and time.
pub(super) const FINISH_HEAD: usize = 3 * WORD;
/// Bytes before the fields of a start, after its kept values: its side, task, name and CPU.
pub(super) const START_HEAD: usize = (3 + COMM_WORDS) * WORD;

/// The sizes in bytes of the longest start and the longest end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongLayout {
    /// Size of the fields and texts of a start.
    pub start: usize,
    /// Size of the fields and texts of an end.
    pub finish: usize,
}

impl LongLayout {
    /// Returns the size of what a start adds to its values, in bytes.
    pub(super) fn start_bytes(self) -> usize {
        START_HEAD + self.start
    }

    /// Returns the size of the part of an end, in bytes.
    pub(super) fn finish_bytes(self) -> usize {
        FINISH_HEAD + self.finish
    }
}

/// The content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairRowContent {
    /// The delays of a bucket.
    Delays(usize),
    /// A count, by its number.
    Count(usize),
}

/// Bytes of a row of delays: the count; the sum of the delays, 128 bits; the complement of the
/// least and the greatest delay.
const DELAYS_BYTES: usize = 5 * WORD;
/// Offset of the lower half of the sum.
pub(super) const ROW_SUM: i16 = 8;
/// Offset of the complement of the least delay.
pub(super) const ROW_LEAST: i16 = 24;
/// Offset of the greatest delay.
pub(super) const ROW_GREATEST: i16 = 32;

/// Added to the number of a count, so that it is not a bucket.
const TAG: u64 = 1 << 16;

/// A counter of all pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairCounter {
    /// Starts.
    Starts,
    /// Starts that a later one with the same key has replaced.
    Unmatched,
    /// Starts without room in the map.
    Evicted,
    /// Starts whose thread has ended.
    Exited,
    /// Ends without a start.
    Singles,
    /// Delays below 0: the clocks of two CPUs differ a little.
    Disordered,
    /// Delays that are too long for the buckets.
    Clamped,
    /// Pairs whose delay is in no row: too short, of different values, negative, or only counted.
    Unrecorded,
    /// Starts that an event has dropped.
    Dropped,
    /// Starts whose event is also an end.
    Joint,
    /// Long delays without a record: a text is too long, or the kernel refused the record for
    /// another reason than a full ring.
    Unwritten,
    /// Ends without their start, as [`super::PairFinish::strict`] defines them.
    Startless,
}

/// All counters, in the order of their words.
pub const PAIR_COUNTERS: [PairCounter; 12] = [
    PairCounter::Starts,
    PairCounter::Unmatched,
    PairCounter::Evicted,
    PairCounter::Exited,
    PairCounter::Singles,
    PairCounter::Disordered,
    PairCounter::Clamped,
    PairCounter::Unrecorded,
    PairCounter::Dropped,
    PairCounter::Joint,
    PairCounter::Unwritten,
    PairCounter::Startless,
];

impl PairCounter {
    /// Returns the offset of its word.
    pub(super) fn at(self) -> i16 {
        (self as usize * WORD) as i16
    }
}

impl PairLayout {
    /// Returns the size of a start in bytes: its time, the kept values, and the fields of its event
    /// for long delays.
    pub fn start_bytes(&self) -> usize {
        WORD + self.kept.bytes() + self.long.map_or(0, LongLayout::start_bytes)
    }

    /// Returns the size of a row's key in bytes: the bucket or the number of the count, then the
    /// longest key.
    pub fn key_bytes(&self) -> usize {
        let counts = self.counts.iter().map(|count| count.key.bytes());
        WORD + counts.chain([self.row.bytes()]).max().unwrap_or(0)
    }

    /// Returns the size of a row's value in bytes: that of delays, or of a count if it is longer.
    pub fn row_bytes(&self) -> usize {
        let counts = self.counts.iter().map(CountLayout::value_bytes);
        counts.max().unwrap_or(0).max(DELAYS_BYTES)
    }

    /// Returns the number of rows of the rest of a table.
    pub fn rest_rows(&self) -> usize {
        1 + self.counts.len()
    }

    /// Returns the first word of the keys of a count.
    pub(super) fn tag(count: usize) -> u64 {
        TAG + count as u64
    }

    /// Returns the content of the row whose key begins with a word.
    pub fn content(word: u64) -> PairRowContent {
        match word.checked_sub(TAG) {
            None => PairRowContent::Delays(word as usize),
            Some(count) => PairRowContent::Count(count as usize),
        }
    }
}
