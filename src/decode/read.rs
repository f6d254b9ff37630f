//! Counter values as the kernel writes them in samples, in `PERF_RECORD_READ` and to `read(2)`.
//!
//! Source of the layout: `struct read_format` in `include/uapi/linux/perf_event.h`.

use super::cursor::Words;
use perf_event_open_sys::bindings as abi;

/// The values of one event, or of its whole group with `PERF_FORMAT_GROUP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFormat<'a> {
    words: Words<'a>,
    asked: ReadBits,
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValue {
    /// The counter's value.
    pub value: u64,
    /// The event's id, with `PERF_FORMAT_ID`.
    pub id: Option<u64>,
    /// Records of the event lost because the ring was full, with `PERF_FORMAT_LOST`.
    pub lost: Option<u64>,
}

/// The bits of `perf_event_attr.read_format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadBits(u64);

impl ReadBits {
    pub(super) fn new(read_format: u64) -> ReadBits {
        ReadBits(read_format)
    }

    /// Returns 1 if the bit is set, else 0.
    fn has(self, bit: u32) -> usize {
        usize::from(self.0 & u64::from(bit) != 0)
    }

    /// Words before the first counter of a group: the number of counters and the times.
    fn group_head(self) -> usize {
        1 + self.times()
    }

    fn times(self) -> usize {
        self.has(abi::PERF_FORMAT_TOTAL_TIME_ENABLED)
            + self.has(abi::PERF_FORMAT_TOTAL_TIME_RUNNING)
    }

    /// Words of one counter: value, id, lost.
    fn count(self) -> usize {
        1 + self.has(abi::PERF_FORMAT_ID) + self.has(abi::PERF_FORMAT_LOST)
    }

    /// Returns whether the structure holds the values of a group.
    fn group(self) -> bool {
        self.has(abi::PERF_FORMAT_GROUP) == 1
    }

    /// Words of the whole structure; None if it holds the values of a group.
    pub(super) fn words_of_one(self) -> Option<usize> {
        (!self.group()).then(|| self.times() + self.count())
    }

    /// Words in front of the ID of the first counter; None if it has none.
    pub(super) fn words_before_id(self) -> Option<usize> {
        (self.has(abi::PERF_FORMAT_ID) == 1)
            .then(|| self.has(abi::PERF_FORMAT_GROUP) + self.times() + 1)
    }

    /// Words of the whole structure, given its first one; None if that exceeds 2^64.
    fn words(self, first: u64) -> Option<u64> {
        if let Some(words) = self.words_of_one() {
            return Some(words as u64);
        }
        first.checked_mul(self.count() as u64)?.checked_add(self.group_head() as u64)
    }
}

impl<'a> ReadFormat<'a> {
    /// Returns the values in the result of `read(2)` on an event; None if they are truncated.
    pub fn new(bytes: &'a [u8], read_format: u64) -> Option<ReadFormat<'a>> {
        ReadFormat::take(&mut Words::new(bytes), ReadBits::new(read_format))
    }

    /// Takes the structure from the front of `words`.
    pub(super) fn take(words: &mut Words<'a>, asked: ReadBits) -> Option<ReadFormat<'a>> {
        let len = asked.words(words.get(0)?)?;
        Some(ReadFormat { words: words.take(len)?, asked })
    }

    /// Returns the nanoseconds that the event was enabled, with `PERF_FORMAT_TOTAL_TIME_ENABLED`.
    pub fn time_enabled(&self) -> Option<u64> {
        self.time(abi::PERF_FORMAT_TOTAL_TIME_ENABLED, 1)
    }

    /// Returns the nanoseconds that the event was counting, with `PERF_FORMAT_TOTAL_TIME_RUNNING`;
    /// less than the time enabled if counters shared their hardware.
    pub fn time_running(&self) -> Option<u64> {
        let enabled = self.asked.has(abi::PERF_FORMAT_TOTAL_TIME_ENABLED);
        self.time(abi::PERF_FORMAT_TOTAL_TIME_RUNNING, 1 + enabled)
    }

    /// Returns a time. Both forms begin with one word, the value or the number of counters, which
    /// the times follow.
    fn time(&self, bit: u32, index: usize) -> Option<u64> {
        (self.asked.has(bit) == 1).then(|| self.words.get(index)).flatten()
    }

    /// Returns the counters: one, or those of the group, leader first.
    pub fn counts(&self) -> impl Iterator<Item = CounterValue> + 'a {
        let ReadFormat { words, asked } = *self;
        let (id, lost) = (asked.has(abi::PERF_FORMAT_ID), asked.has(abi::PERF_FORMAT_LOST));
        // Without a group, the counter's value is before the times, its id and lost count after
        // them.
        let (first, gap, number) = if asked.group() {
            (asked.group_head(), 0, words.get(0).unwrap_or(0))
        } else {
            (0, asked.times(), u64::from(!words.is_empty()))
        };
        (0..number).map_while(move |n| {
            let at = first + usize::try_from(n).ok()? * asked.count();
            let rest = at + gap;
            Some(CounterValue {
                value: words.get(at)?,
                id: (id == 1).then(|| words.get(rest + 1)).flatten(),
                lost: (lost == 1).then(|| words.get(rest + 1 + id)).flatten(),
            })
        })
    }
}
