//! Builds the record of an event whose script reads fields that few events have: the raw record and
//! the tail of [`crate::event::sample_field`].

use super::decoder::CallRegisters;
use super::group_counts::GroupCounts;
use crate::decode::cursor::Words;
use crate::decode::sample::{RecordLayout, Sample, WholeSample};
use crate::decode::sample_extra::SampleExtra;
use crate::event::sample_field::{TAIL_WORDS, tail_lists, tail_words};
use crate::source::chain_memory::{ChainMemory, RECORD};

impl ChainMemory {
    /// Returns a copy of the record with its tail, and its size in bytes; None if the fields cannot
    /// be decoded, or do not fit. The batch is full before the memory is. `counts` are those of the
    /// event's group.
    pub(in crate::source) fn with_tail(
        &mut self,
        layout: &RecordLayout,
        registers: Option<CallRegisters>,
        counts: Option<&GroupCounts>,
        sample: &Sample<'_>,
    ) -> Option<(*const u8, u16)> {
        let extra = layout.rest(sample).ok()?;
        match counts {
            None => self.append(registers, sample.raw, &extra),
            Some(group) => group.with(sample, |counts, totals| {
                self.append(registers, sample.raw, &SampleExtra { counts, totals, ..extra })
            })?,
        }
    }

    /// Returns what [`ChainMemory::with_tail`] returns for a sample whose tail has only the id of a
    /// cgroup, of an event without registers; also None if it has other fields.
    #[inline(always)]
    pub(in crate::source) fn with_cgroup(
        &mut self,
        layout: &RecordLayout,
        sample: &WholeSample<'_>,
    ) -> Option<(*const u8, u16)> {
        self.append(None, sample.raw, &layout.only_cgroup(sample.rest)?)
    }

    /// Returns a copy of the record, and its size in bytes.
    pub(in crate::source) fn copy(&mut self, raw: &[u8]) -> (*const u8, u16) {
        let start = self.start();
        self.write_record(raw);
        (self.words[start..].as_ptr().cast(), raw.len().min(8 * RECORD) as u16)
    }

    /// Returns a copy of a record that begins with other bytes, with `behind` after its last word,
    /// and its size in bytes.
    pub(in crate::source) fn copy_with(
        &mut self,
        first: &[u8; 8],
        raw: &[u8],
        behind: &[u8],
    ) -> (*const u8, u16) {
        let start = self.start();
        self.write_record(raw);
        self.write_record(behind);
        if let Some(word) = self.words.get_mut(start) {
            *word = u64::from_ne_bytes(*first);
        }
        let size = match behind.len() {
            0 => raw.len(),
            behind => raw.len().next_multiple_of(8) + behind,
        };
        (self.words[start..].as_ptr().cast(), size.min(8 * RECORD) as u16)
    }

    /// Appends the bytes of a record, and zeros up to the end of the last word.
    #[inline(always)]
    fn write_record(&mut self, raw: &[u8]) {
        let (words, last) = raw.as_chunks();
        self.words.extend(words.iter().take(RECORD).map(|word| u64::from_ne_bytes(*word)));
        if !last.is_empty() {
            self.words.push(padded(last));
        }
    }

    /// Appends the record and its tail, as [`ChainMemory::with_tail`] returns it. Inlined, so that
    /// fields that a caller knows to be absent cost nothing.
    #[inline(always)]
    fn append(
        &mut self,
        registers: Option<CallRegisters>,
        raw: &[u8],
        extra: &SampleExtra<'_>,
    ) -> Option<(*const u8, u16)> {
        let lists = tail_lists(extra);
        let words = lists.iter().map(Words::len).sum::<usize>() + TAIL_WORDS;
        let start = self.start();
        match registers {
            // All registers were sampled; the record has those of the function's fields.
            Some(registers) => {
                let bits = (0..u64::BITS).filter(|bit| registers.mask >> bit & 1 != 0);
                self.words.extend(bits.filter_map(|bit| extra.regs_intr.get(bit)));
            }
            None => self.write_record(raw),
        }
        if self.words.len() - start + words > RECORD {
            self.words.truncate(start);
            return None;
        }
        for list in lists.iter().filter(|list| !list.is_empty()) {
            self.words.extend(list.iter());
        }
        // Written in place: copying an array that has just been made would wait for its stores.
        let tail = self.words.len();
        self.words.resize(tail + TAIL_WORDS, 0);
        if let Some(tail) = self.words[tail..].first_chunk_mut() {
            *tail = tail_words(extra);
        }
        let words = &self.words[start..];
        Some((words.as_ptr().cast(), (8 * words.len()) as u16))
    }
}

/// Returns less than eight bytes as a word, with zeros after them in memory.
fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests;
