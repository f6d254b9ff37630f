//! Bounds-checked reading of a record from the front, as 64-bit words or as fields, and its errors.

/// The part of a record that is truncated. The caller counts such records as undecodable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Bad {
    /// Fewer than the eight bytes of `struct perf_event_header`.
    #[error("the record is shorter than its header")]
    Header,
    /// The header's size is smaller than the header, or larger than the available bytes.
    #[error("the record's size field differs from its length")]
    Size,
    /// The fields between the header and the trailer of a record other than a sample.
    #[error("the record ends inside its own fields")]
    Body,
    /// `struct sample_id`, present at the end with `sample_id_all`.
    #[error("the record ends before its trailer")]
    Trailer,
    /// The sample's fields of fixed size, IDENTIFIER to PERIOD.
    #[error("the sample ends inside its fixed fields")]
    Head,
    /// `PERF_SAMPLE_READ`.
    #[error("the sample ends inside its counter values")]
    Read,
    /// `PERF_SAMPLE_CALLCHAIN`.
    #[error("the sample ends inside its call chain")]
    Callchain,
    /// `PERF_SAMPLE_RAW`.
    #[error("the sample ends inside its raw data")]
    Raw,
    /// `PERF_SAMPLE_BRANCH_STACK`.
    #[error("the sample ends inside its branch stack")]
    BranchStack,
    /// `PERF_SAMPLE_REGS_USER`.
    #[error("the sample ends inside its user registers")]
    RegsUser,
    /// `PERF_SAMPLE_STACK_USER`.
    #[error("the sample ends inside its user stack")]
    StackUser,
    /// `PERF_SAMPLE_REGS_INTR`.
    #[error("the sample ends inside its registers")]
    RegsIntr,
    /// One of WEIGHT, DATA_SRC, TRANSACTION, PHYS_ADDR, CGROUP and the page sizes.
    #[error("the sample ends before its last fixed fields")]
    Last,
    /// `PERF_SAMPLE_AUX`.
    #[error("the sample ends inside its AUX data")]
    Aux,
}

/// A sequence of `u64` in a record, in native byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words<'a>(&'a [[u8; 8]]);

impl<'a> Words<'a> {
    /// Returns the whole words of `bytes`; ignores up to seven bytes at the end.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Words<'a> {
        Words(bytes.as_chunks().0)
    }

    /// Returns the number of words.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no words.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the word at this index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).map(|word| u64::from_ne_bytes(*word))
    }

    /// Returns all words.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + Clone + use<'a> {
        self.0.iter().map(|word| u64::from_ne_bytes(*word))
    }

    /// Returns the address of the first word, aligned to eight bytes if the record is, as in a
    /// ring. Not null, even if empty.
    #[inline]
    pub fn as_ptr(&self) -> *const u64 {
        self.0.as_ptr().cast()
    }

    /// Returns the same memory as bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.0.as_flattened()
    }

    /// Returns the words after the first `count`; None if there are fewer than `count`.
    #[inline(always)]
    pub(super) fn tail(&self, count: usize) -> Option<Words<'a>> {
        self.0.get(count..).map(Words)
    }

    /// Takes one word from the front.
    #[inline]
    pub(super) fn take_one(&mut self) -> Option<u64> {
        let (first, left) = self.0.split_first()?;
        self.0 = left;
        Some(u64::from_ne_bytes(*first))
    }

    /// Takes `count` words from the front; None if there are fewer, also for a count beyond any
    /// record's size.
    #[inline]
    pub(super) fn take(&mut self, count: u64) -> Option<Words<'a>> {
        let (taken, left) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = left;
        Some(Words(taken))
    }

    /// Takes `size` bytes from the front, and the padding of their last word.
    #[inline]
    pub(super) fn take_bytes(&mut self, size: u64) -> Option<&'a [u8]> {
        self.take(size.div_ceil(8))?.bytes().get(..usize::try_from(size).ok()?)
    }
}

/// The fields of a record other than a sample: of mixed widths and without padding.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// Takes `N` bytes from the front.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (taken, left) = self.0.split_first_chunk().ok_or(Bad::Body)?;
        self.0 = left;
        Ok(*taken)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Bad> {
        self.bytes().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Bad> {
        self.bytes().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Bad> {
        self.bytes().map(u64::from_ne_bytes)
    }

    /// Takes `size` bytes from the front.
    pub(super) fn slice(&mut self, size: usize) -> Result<&'a [u8], Bad> {
        let (taken, left) = self.0.split_at_checked(size).ok_or(Bad::Body)?;
        self.0 = left;
        Ok(taken)
    }

    /// Takes `count` words from the front.
    pub(super) fn words(&mut self, count: u64) -> Result<Words<'a>, Bad> {
        let size = count.checked_mul(8).and_then(|size| usize::try_from(size).ok());
        self.slice(size.ok_or(Bad::Body)?).map(Words::new)
    }

    /// Returns the text up to its NUL, or to the end if the kernel truncated it without one.
    pub(super) fn text(&self) -> &'a [u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}
