//! Counter values as the kernel writes them, in a sample, in a `PERF_RECORD_READ` and to `read(2)`: `struct read_format`.
//!
//! Source of the layout: `struct read_format` in `include/uapi/linux/perf_event.h`.

use super::words::Words;
use perf_event_open_sys::bindings as abi;

/// The values of one event, or of its whole group with `PERF_FORMAT_GROUP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFormat<'a> {
    words: Words<'a>,
    asked: Asked,
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// What it counted.
    pub value: u64,
    /// The event's id, with `PERF_FORMAT_ID`.
    pub id: Option<u64>,
    /// Records that it lost because the ring was full, with `PERF_FORMAT_LOST`.
    pub lost: Option<u64>,
}

/// The bits of `perf_event_attr.read_format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked(u64);

impl Asked {
    pub(super) fn new(read_format: u64) -> Asked {
        Asked(read_format)
    }

    /// 1 for a value that was asked for, 0 for one that was not.
    fn has(self, bit: u32) -> usize {
        usize::from(self.0 & u64::from(bit) != 0)
    }

    /// Words before the first counter of a group: their number, and the times.
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

    /// Whether the values of a group were asked for.
    fn group(self) -> bool {
        self.has(abi::PERF_FORMAT_GROUP) == 1
    }

    /// Words of the whole structure, given its first one; None when no record could be as long.
    fn words(self, first: u64) -> Option<u64> {
        if !self.group() {
            return Some((self.times() + self.count()) as u64);
        }
        first.checked_mul(self.count() as u64)?.checked_add(self.group_head() as u64)
    }
}

impl<'a> ReadFormat<'a> {
    /// The values in what `read(2)` of an event returned; None when they are cut short.
    pub fn new(bytes: &'a [u8], read_format: u64) -> Option<ReadFormat<'a>> {
        ReadFormat::take(&mut Words::new(bytes), Asked::new(read_format))
    }

    /// Takes the structure off the front of `words`.
    pub(super) fn take(words: &mut Words<'a>, asked: Asked) -> Option<ReadFormat<'a>> {
        let len = asked.words(words.get(0)?)?;
        Some(ReadFormat { words: words.take(len)?, asked })
    }

    /// Nanoseconds that the event was enabled, with `PERF_FORMAT_TOTAL_TIME_ENABLED`.
    pub fn time_enabled(&self) -> Option<u64> {
        self.time(abi::PERF_FORMAT_TOTAL_TIME_ENABLED, 1)
    }

    /// Nanoseconds that it really counted, with `PERF_FORMAT_TOTAL_TIME_RUNNING`; less than enabled when counters shared their hardware.
    pub fn time_running(&self) -> Option<u64> {
        let enabled = self.asked.has(abi::PERF_FORMAT_TOTAL_TIME_ENABLED);
        self.time(abi::PERF_FORMAT_TOTAL_TIME_RUNNING, 1 + enabled)
    }

    /// Both forms begin with one word, the value or the number of counters; the times follow.
    fn time(&self, bit: u32, index: usize) -> Option<u64> {
        (self.asked.has(bit) == 1).then(|| self.words.get(index)).flatten()
    }

    /// The counters: one, or the group's, the leader first.
    pub fn counts(&self) -> impl Iterator<Item = Count> + 'a {
        let ReadFormat { words, asked } = *self;
        let (id, lost) = (asked.has(abi::PERF_FORMAT_ID), asked.has(abi::PERF_FORMAT_LOST));
        // Alone, a counter's value stands before the times and the rest of it behind them.
        let (first, gap, number) = if asked.group() {
            (asked.group_head(), 0, words.get(0).unwrap_or(0))
        } else {
            (0, asked.times(), u64::from(!words.is_empty()))
        };
        (0..number).map_while(move |n| {
            let at = first + usize::try_from(n).ok()? * asked.count();
            let rest = at + gap;
            Some(Count {
                value: words.get(at)?,
                id: (id == 1).then(|| words.get(rest + 1)).flatten(),
                lost: (lost == 1).then(|| words.get(rest + 1 + id)).flatten(),
            })
        })
    }
}
