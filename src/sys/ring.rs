//! A ring buffer that the kernel fills with records, read in place.
//!
//! Positions are the kernel's: bytes since the ring was mapped, always increasing; only their low
//! bits are the offset in the ring. A reader takes [`Ring::head`] once, walks [`Ring::piece`] from
//! [`Ring::tail`] on, where each record begins at the end of the previous one, and returns the
//! space with [`Ring::release`]. Until then the kernel does not write between tail and head;
//! `piece` reads only there, and `release` needs the ring exclusively, so that no [`Piece`]
//! outlives its bytes. A raw pointer taken from a piece is the caller's responsibility.
//!
//! A record may wrap around the end of the ring. [`Piece`] hides that.
//!
//! The protocol follows the comment on `data_head` in include/uapi/linux/perf_event.h.

use super::errno::errno;
use super::machine;
use super::perf::PerfEvent;
use super::refusal::{Refusal, RefusedCall};
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The mapped ring of an event, and of the events whose output is directed to it.
pub struct Ring {
    /// Keeps the pages mapped, and so the event open, even if its descriptor is closed.
    _map: MmapRaw,
    control: *mut perf_event_mmap_page,
    data: *const u8,
    /// A power of two.
    capacity: u64,
    tail: u64,
    /// The last head read: the kernel has written everything from `tail` to here, and does not
    /// change it.
    last_head: Cell<u64>,
}

// SAFETY: the pointers refer to `_map`, which moves along; nothing is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `owner`: one control page and `pages` data pages, which must be a power of
    /// two.
    ///
    /// # Errors
    /// The kernel refuses it: the limit of locked memory, or an event that cannot have a ring.
    pub fn map(owner: &PerfEvent, pages: usize) -> Result<Ring, Refusal> {
        let page = machine::page_size();
        let refuse = |errno| Refusal::new(owner.name(), RefusedCall::Map(pages), errno);
        if !pages.is_power_of_two() {
            return Err(refuse(libc::EINVAL));
        }
        let bytes = pages.checked_mul(page).and_then(|data| data.checked_add(page));
        let bytes = bytes.ok_or_else(|| refuse(libc::ENOMEM))?;
        let map = MmapOptions::new()
            .len(bytes)
            .map_raw(owner.as_fd().as_raw_fd())
            .map_err(|e| refuse(errno(&e)))?;
        let control = map.as_mut_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping has more than one page, and the data begin with the second:
        // `data_offset` confirms it since 4.1, and before that it was the only layout.
        let data = unsafe { map.as_ptr().add(page) };
        let capacity = (pages * page) as u64;
        Ok(Ring { _map: map, control, data, capacity, tail: 0, last_head: Cell::new(0) })
    }

    /// Returns the position up to which the kernel has written; every record before it is complete.
    #[inline]
    pub fn head(&self) -> u64 {
        // SAFETY: `control` is mapped, writable and page-aligned; the kernel stores this word as a
        // whole.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*self.control).data_head) };
        // Acquire: reads of the records before the head happen after it.
        let head = head.load(Ordering::Acquire);
        // The kernel never overtakes the tail; a size that fits before the head must also fit the
        // ring.
        let head = head.clamp(self.tail, self.tail + self.capacity);
        self.last_head.set(head);
        head
    }

    /// Returns the position of the next record to be released.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Returns the space before `tail` to the kernel. Never moves back, nor beyond the last head
    /// read.
    #[inline]
    pub fn release(&mut self, tail: u64) {
        // Rounded down: every position between tail and head is aligned like records.
        self.tail = (tail & !(ALIGN - 1)).clamp(self.tail, self.last_head.get());
        // SAFETY: the word lies in the mapped page of the ring; the kernel only reads it.
        let shared = unsafe { AtomicU64::from_ptr(&raw mut (*self.control).data_tail) };
        // Release: every read of the records finishes before the kernel may write there.
        shared.store(self.tail, Ordering::Release);
    }

    /// Returns the size of the ring's data in bytes.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the record that begins at `at`, or `None` if that is `head`, an earlier result of
    /// [`Ring::head`].
    ///
    /// # Errors
    /// There is no record at `at`. The reader counts that and continues at the head.
    #[inline(always)]
    pub fn piece(&self, at: u64, head: u64) -> Result<Option<Piece<'_>>, Broken> {
        let head = head.min(self.last_head.get());
        // After a rotation, a number that is not a multiple of eight is huge, as is one that went
        // below zero: one comparison checks that `at` is aligned, not before the tail, and before
        // the head.
        let window = head.saturating_sub(self.tail) / ALIGN;
        if at.wrapping_sub(self.tail).rotate_right(ALIGN.ilog2()) >= window {
            return if at >= head { Ok(None) } else { Err(Broken) };
        }
        let start = (at & (self.capacity - 1)) as usize;
        // SAFETY: `start` is below the capacity and both are multiples of eight, the length of a
        // header, so the header lies completely and aligned within the data; it is between tail and
        // head, where the kernel does not write.
        let header = unsafe { self.data.add(start).cast::<perf_event_header>().read() };
        let size = u64::from(header.size);
        // The same check for the size: a multiple of eight, at least a header, at most up to the
        // head.
        if size.wrapping_sub(ALIGN).rotate_right(ALIGN.ilog2()) >= (head - at) / ALIGN {
            return Err(Broken);
        }
        let (size, room) = (size as usize, self.capacity as usize - start);
        self.prefetch(start, size);
        if size > room {
            // SAFETY: the checks above are what `split` requires.
            return Ok(Some(unsafe { self.split(start, room, size) }));
        }
        // SAFETY: `start + size` is within the data, and the bytes stay as they are while `self` is
        // borrowed: they lie between tail and head, and `release` needs `&mut self`.
        Ok(Some(Piece::Single(unsafe { std::slice::from_raw_parts(self.data.add(start), size) })))
    }

    /// Prefetches the cache lines that lie a fixed distance ahead of those of the record of `size`
    /// bytes at `start`, or as many as a usual record with a stack has: another CPU wrote them, so
    /// they are in that CPU's cache, and waiting for them was half the cost of a record.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn prefetch(&self, start: usize, size: usize) {
        /// Distance in bytes: 36 records of 112 bytes. A drain that only steps over such records
        /// took 10-19 ns for each with a distance of 32, 16-19 ns with 4 and 8, and 16-23 ns
        /// without prefetching.
        const AHEAD: usize = 4096;
        const LINE: usize = 64;
        const MOST: usize = 16 * LINE;
        let from = (start + AHEAD).next_multiple_of(LINE);
        for line in (from..start + AHEAD + size.min(MOST)).step_by(LINE) {
            let line = self.data.wrapping_add(line & (self.capacity as usize - 1));
            // SAFETY: a prefetch reads nothing into the program and faults on no address.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(line.cast());
            }
        }
    }

    /// Does nothing: stable Rust has no prefetch for this architecture.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn prefetch(&self, _start: usize, _size: usize) {}

    /// Returns the record of `size` bytes at `start`, of which only `room` bytes lie before the end
    /// of the ring. Called once per lap.
    ///
    /// # Safety
    /// `room` is the distance from `start` to the capacity, and less than `size`; the record lies
    /// between tail and head.
    #[cold]
    unsafe fn split(&self, start: usize, room: usize, size: usize) -> Piece<'_> {
        // SAFETY: the first part ends with the data, the rest begins at their start; since `size`
        // is at most `head - tail`, which is at most the capacity, they do not overlap. The bytes
        // stay as in `piece`.
        unsafe {
            Piece::Split(
                std::slice::from_raw_parts(self.data.add(start), room),
                std::slice::from_raw_parts(self.data, size - room),
            )
        }
    }
}

/// Alignment of records and of their sizes; it is also the size of their header.
const ALIGN: u64 = size_of::<perf_event_header>() as u64;

/// There is no record at the given position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no record begins here")]
pub struct Broken;

/// One record as it lies in a ring, including its header.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Contiguous.
    Single(&'a [u8]),
    /// Wrapped around the end of the ring: the first part, then the rest. Both lengths are
    /// multiples of eight.
    Split(&'a [u8], &'a [u8]),
}

impl<'a> Piece<'a> {
    /// Returns `perf_event_header.type`: the type of the record, `PERF_RECORD_*`.
    #[inline(always)]
    pub fn kind(&self) -> u32 {
        self.header().map_or(0, |[a, b, c, d, ..]| u32::from_ne_bytes([a, b, c, d]))
    }

    /// Returns `perf_event_header.misc`: the CPU's mode and flags.
    #[inline(always)]
    pub fn misc(&self) -> u16 {
        self.header().map_or(0, |[_, _, _, _, a, b, ..]| u16::from_ne_bytes([a, b]))
    }

    /// Returns the size of the record in bytes, including the header.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a record has a header, so it is never empty")]
    pub fn len(&self) -> usize {
        match self {
            Piece::Single(bytes) => bytes.len(),
            Piece::Split(front, back) => front.len() + back.len(),
        }
    }

    /// Returns the eight bytes at `offset` from the start of the record, or `None` beyond its end.
    ///
    /// Fields of a record are aligned, so that none lies on both sides of the wrap; an offset that
    /// is not a multiple of eight works only if its bytes happen to be on one side.
    #[inline(always)]
    pub fn u64_at(&self, offset: usize) -> Option<u64> {
        let end = offset.checked_add(8)?;
        match self.front().get(offset..end) {
            Some(word) => word.first_chunk().map(|word| u64::from_ne_bytes(*word)),
            None => self.u64_behind(offset),
        }
    }

    /// Like [`Piece::u64_at`], for offsets after the first part.
    #[cold]
    fn u64_behind(&self, offset: usize) -> Option<u64> {
        let Piece::Split(front, back) = self else { return None };
        let word = back.get(offset.checked_sub(front.len())?..)?.first_chunk();
        word.map(|word| u64::from_ne_bytes(*word))
    }

    /// Returns the whole record as one slice: in place, or copied to `scratch` if it wraps.
    #[inline(always)]
    pub fn bytes(&self, scratch: &'a mut Scratch) -> &'a [u8] {
        match self {
            Piece::Single(bytes) => bytes,
            Piece::Split(..) => self.copy_into(scratch),
        }
    }

    /// Copies the record to `scratch`.
    pub fn copy_into<'s>(&self, scratch: &'s mut Scratch) -> &'s [u8] {
        let (front, back) = match self {
            Piece::Single(bytes) => (*bytes, &[][..]),
            Piece::Split(front, back) => (*front, *back),
        };
        let room = &mut scratch.0.0;
        // A record's size is a u16, so both always fit; a larger piece from elsewhere is truncated.
        let front = front.get(..room.len()).unwrap_or(front);
        let (to_front, rest) = room.split_at_mut(front.len());
        let back = back.get(..rest.len()).unwrap_or(back);
        let (to_back, _) = rest.split_at_mut(back.len());
        to_front.copy_from_slice(front);
        to_back.copy_from_slice(back);
        let len = front.len() + back.len();
        room.get(..len).unwrap_or_default()
    }

    #[inline(always)]
    fn front(&self) -> &'a [u8] {
        match self {
            Piece::Single(front) | Piece::Split(front, _) => front,
        }
    }

    #[inline(always)]
    fn header(&self) -> Option<[u8; 8]> {
        self.front().first_chunk().copied()
    }
}

/// Buffer for one record of any size, aligned like records.
pub struct Scratch(Box<Aligned>);

#[repr(align(8))]
struct Aligned([u8; 1 << 16]);

impl Scratch {
    /// Returns a buffer of 64 KiB, filled with zeros.
    pub fn new() -> Scratch {
        Scratch(Box::new(Aligned([0; 1 << 16])))
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of `len` bytes: a header, then ascending u64 values.
    fn record(len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(9u32.to_ne_bytes());
        bytes.extend(2u16.to_ne_bytes());
        bytes.extend((len as u16).to_ne_bytes());
        (1..len as u64 / 8).for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_wrapped_record_reads_like_a_whole_one() {
        let bytes = record(64);
        let mut scratch = Scratch::new();
        for cut in (8..64).step_by(8) {
            let (front, back) = bytes.split_at(cut);
            let piece = Piece::Split(front, back);
            assert_eq!((piece.kind(), piece.misc(), piece.len()), (9, 2, 64));
            for word in 1..8 {
                assert_eq!(piece.u64_at(word * 8), Some(word as u64));
            }
            assert_eq!(piece.u64_at(64), None);
            assert_eq!(piece.u64_at(usize::MAX), None);
            assert_eq!(piece.copy_into(&mut scratch), bytes);
        }
        let piece = Piece::Single(&bytes);
        assert_eq!((piece.kind(), piece.misc(), piece.len()), (9, 2, 64));
        assert_eq!(piece.u64_at(56), Some(7));
        assert_eq!(piece.u64_at(60), None);
        assert_eq!(piece.bytes(&mut scratch).as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn pieces_that_are_not_records_are_harmless() {
        let mut scratch = Scratch::new();
        let empty = Piece::Single(&[]);
        assert_eq!((empty.kind(), empty.misc(), empty.u64_at(0)), (0, 0, None));
        let huge = vec![7; 70_000];
        assert_eq!(Piece::Split(&huge, &huge).copy_into(&mut scratch).len(), 1 << 16);
    }

    #[test]
    fn scratch_is_aligned_for_every_field() {
        assert_eq!(Scratch::new().0.0.as_ptr().align_offset(8), 0);
    }
}
