//! Memory for the chains of a batch that are not complete in their record, and for the records of
//! events with further fields.

/// Words that the chains and records of a batch may take: 512 KiB, and room for the largest record.
/// A batch touches only what it needs.
const WORDS: usize = (1 << 16) + 2 * (RECORD + 1);

/// Maximum number of entries that the kernel writes: those of a record of 64 KiB.
const WRITTEN: usize = 1 << 13;

/// Maximum number of words of one event: of its chain, what the kernel wrote, what was unwound
/// here, and two markers; and its record and the further fields.
const LONGEST: usize = WRITTEN + UNWOUND + 2 + 2 * (RECORD + 1);

/// Maximum number of words of a record with further fields: [`Slot::raw_size`] is a u16.
///
/// [`Slot::raw_size`]: crate::base::event::slot::Slot
pub(in crate::source) const RECORD: usize = u16::MAX as usize / 8;

/// Default maximum of frames that are unwound: a deeper recursion is truncated.
pub(in crate::source) const UNWOUND: usize = 1024;

/// Memory for the chains and records of a batch. It does not move, since slots point into it.
#[derive(Debug, Default)]
pub(in crate::source) struct ChainMemory {
    pub(in crate::source) words: Vec<u64>,
    /// Chains truncated so far.
    pub(in crate::source) truncated: u64,
}

impl ChainMemory {
    /// Returns where the next chain starts. Allocates the memory at the first call.
    pub(in crate::source) fn start(&mut self) -> usize {
        if self.words.capacity() == 0 {
            self.words.reserve_exact(WORDS);
        }
        self.words.len()
    }

    /// Appends what the kernel wrote; with the rest of a chain it stays below [`LONGEST`].
    pub(in crate::source) fn write(&mut self, written: impl Iterator<Item = u64>) {
        self.words.extend(written.take(WRITTEN));
    }

    /// Returns whether the next chain might not fit.
    pub(in crate::source) fn is_low(&self) -> bool {
        self.words.len() + LONGEST > WORDS
    }

    /// Removes the chains; the number of truncated ones stays.
    pub(in crate::source) fn clear(&mut self) {
        self.words.clear();
    }
}
