//! The trailer of records other than samples (`sample_id_all`).

use super::{ABSENT, HEADER, RecordLayout, Trailer, halves, word};
use crate::decode::cursor::Words;
use perf_event_open_sys::bindings as abi;

impl RecordLayout {
    /// Returns the trailer of a whole record other than a sample; None without `sample_id_all`, or
    /// if the record is too short.
    pub fn trailer(&self, record: &[u8]) -> Option<Trailer> {
        let size = self.trailer_size();
        let kind = halves(Words::new(record), 0).0;
        let start = self.trailer_start(kind, record.len(), |at| word_at(record, at))?;
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

    /// Returns whether the trailer has a time.
    pub fn has_trailer_time(&self) -> bool {
        self.trailer.time != ABSENT
    }

    /// Returns the size of the trailer in bytes; 0 without `sample_id_all`.
    pub fn trailer_size(&self) -> usize {
        8 * self.trailer.words
    }

    /// Returns the offset of the time, a u64, in any other record, given its kind and size and a
    /// function that reads a word at an offset; None if it has none.
    pub fn trailer_time_offset(
        &self,
        kind: u32,
        size: usize,
        word_at: impl Fn(usize) -> Option<u64>,
    ) -> Option<usize> {
        let place = (self.trailer.time != ABSENT).then(|| 8 * self.trailer.time)?;
        Some(self.trailer_start(kind, size, word_at)? + place)
    }

    /// Returns the offset of the trailer in a record other than a sample; None if the record is too
    /// short.
    ///
    /// The trailer is the end of the record, except where the kernel makes the record too long: it
    /// adds the size of a trailer for each event that gets a record of a kernel symbol, a BPF
    /// program or a change of code, and does not reset it (`perf_event_ksymbol_output()`,
    /// `perf_event_bpf_output()` and `perf_event_text_poke_output()` in kernel/events/core.c, seen
    /// on 6.18). Old bytes of the ring follow the trailer then.
    pub fn trailer_start(
        &self,
        kind: u32,
        size: usize,
        word_at: impl Fn(usize) -> Option<u64>,
    ) -> Option<usize> {
        let at_end = size.checked_sub(self.trailer_size()).filter(|start| *start >= HEADER)?;
        let fields_end = match kind {
            // address | size, type, flags | name, padded with at least one NUL
            abi::PERF_RECORD_KSYMBOL => {
                let has_nul = |word: u64| word.to_ne_bytes().contains(&0);
                let mut ends = (HEADER + 16..at_end).step_by(8);
                ends.find(|at| word_at(*at).is_none_or(has_nul)).map(|at| at + 8)
            }
            // type, flags, id | tag
            abi::PERF_RECORD_BPF_EVENT => Some(HEADER + 16),
            // address | old size, new size, old bytes, new bytes, padded
            abi::PERF_RECORD_TEXT_POKE => word_at(HEADER + 8).map(|sizes| {
                let [a, b, c, d, ..] = sizes.to_ne_bytes();
                let bytes = [[a, b], [c, d]].map(|size| usize::from(u16::from_ne_bytes(size)));
                (HEADER + 12 + bytes[0] + bytes[1]).next_multiple_of(8)
            }),
            _ => None,
        };
        Some(fields_end.map_or(at_end, |end| end.min(at_end)))
    }
}

/// Returns the word at an offset in bytes.
pub(in crate::decode) fn word_at(record: &[u8], offset: usize) -> Option<u64> {
    let bytes = record.get(offset..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}
