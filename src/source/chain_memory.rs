//! Memory for the chains of a batch that are not complete in their record.

/// Words that the chains of a batch may take: 512 KiB, of which a batch touches only what it needs.
const WORDS: usize = 1 << 16;

/// Maximum number of entries that the kernel writes: those of a record of 64 KiB.
const WRITTEN: usize = 1 << 13;

/// Maximum number of words of a chain: what the kernel wrote, what was unwound here, and two
/// markers.
const LONGEST: usize = WRITTEN + UNWOUND + 2;

/// Default maximum of frames that are unwound: a deeper recursion is truncated.
pub(in crate::source) const UNWOUND: usize = 1024;

/// Memory for the chains of a batch. It does not move, since slots point into it.
#[derive(Debug, Default)]
pub(in crate::source) struct Chains {
    pub(in crate::source) words: Vec<u64>,
    /// Chains truncated so far.
    pub(in crate::source) truncated: u64,
}

impl Chains {
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
