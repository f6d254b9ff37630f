//! A ring buffer that the kernel fills with records, walked in place.
//!
//! Positions are the kernel's: bytes since the ring was mapped, ever growing; only their low bits choose the
//! place. A reader takes [`Ring::head`] once, walks [`Ring::piece`] from [`Ring::tail`] on, each record
//! beginning where the last one ended, and gives the space back with [`Ring::release`]. Until then the kernel
//! writes nowhere between tail and head; `piece` looks only there, and `release` needs the ring for itself, so
//! that no [`Piece`] outlives its bytes. A raw pointer taken from one is the caller's own promise.
//!
//! A record may wrap around the end of the ring. [`Piece`] hides that.
//!
//! The protocol is that of the comment on `data_head` in include/uapi/linux/perf_event.h.

use super::machine;
use super::perf::{self, Event};
use super::refusal::{Call, Refusal};
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The mapped ring of an event, and of those whose output was directed to it.
pub struct Ring {
    /// Keeps the pages mapped, and so the event open, whatever becomes of its descriptor.
    _map: MmapRaw,
    control: *mut perf_event_mmap_page,
    data: *const u8,
    /// A power of two.
    capacity: u64,
    tail: u64,
    /// The head as last seen: the kernel has written, and will not touch, everything from `tail` to here.
    seen: Cell<u64>,
}

// SAFETY: the pointers lead into `_map`, which moves along; nothing is bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of `owner`: one page of control and `pages` of data, which must be a power of two.
    ///
    /// # Errors
    /// The kernel's refusal: the memory that may be locked, or an event that cannot have a ring.
    pub fn map(owner: &Event, pages: usize) -> Result<Ring, Refusal> {
        let page = machine::page_size();
        let refuse = |errno| Refusal::new(owner.name(), Call::Map(pages), errno);
        if !pages.is_power_of_two() {
            return Err(refuse(libc::EINVAL));
        }
        let bytes = pages.checked_mul(page).and_then(|data| data.checked_add(page));
        let bytes = bytes.ok_or_else(|| refuse(libc::ENOMEM))?;
        let map = MmapOptions::new()
            .len(bytes)
            .map_raw(owner.as_fd().as_raw_fd())
            .map_err(|e| refuse(perf::errno(&e)))?;
        let control = map.as_mut_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping has more than one page, and the data begin with the second: `data_offset`
        // says so since 4.1, and before that it was the only layout.
        let data = unsafe { map.as_ptr().add(page) };
        let capacity = (pages * page) as u64;
        Ok(Ring { _map: map, control, data, capacity, tail: 0, seen: Cell::new(0) })
    }

    /// How far the kernel has written: every record before this position is complete.
    #[inline]
    pub fn head(&self) -> u64 {
        // SAFETY: `control` is mapped, writable and aligned to a page; the kernel stores this word whole.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*self.control).data_head) };
        // Acquire: the records before the head are read after it.
        let head = head.load(Ordering::Acquire);
        // The kernel never overtakes the tail; a size that fits before the head must fit the ring, too.
        let head = head.clamp(self.tail, self.tail + self.capacity);
        self.seen.set(head);
        head
    }

    /// Where the next record to be released begins.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Gives the space before `tail` back to the kernel; never behind what was given, nor beyond what was seen.
    #[inline]
    pub fn release(&mut self, tail: u64) {
        // Rounded down: every position between tail and head is aligned as records are.
        self.tail = (tail & !(ALIGN - 1)).clamp(self.tail, self.seen.get());
        // SAFETY: as in `head`; the kernel only reads this word.
        let shared = unsafe { AtomicU64::from_ptr(&raw mut (*self.control).data_tail) };
        // Release: every read of the records is done before the kernel may write there.
        shared.store(self.tail, Ordering::Release);
    }

    /// Bytes of data that the ring holds.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The record that begins at `at`, or `None` if that is at `head`, an earlier answer of [`Ring::head`].
    ///
    /// # Errors
    /// What stands there is no record. The reader counts that and goes on at the head.
    #[inline(always)]
    pub fn piece(&self, at: u64, head: u64) -> Result<Option<Piece<'_>>, Broken> {
        let head = head.min(self.seen.get());
        // Rotated, a number that is no multiple of eight is huge, as is one that went below zero: one
        // comparison says that `at` is aligned, not behind the tail and before the head.
        let window = head.saturating_sub(self.tail) / ALIGN;
        if at.wrapping_sub(self.tail).rotate_right(ALIGN.ilog2()) >= window {
            return if at >= head { Ok(None) } else { Err(Broken) };
        }
        let start = (at & (self.capacity - 1)) as usize;
        // SAFETY: `start` is below the capacity and both are multiples of eight, as a header is long, so it lies
        // whole and aligned within the data; it is between tail and head, where the kernel does not write.
        let header = unsafe { self.data.add(start).cast::<perf_event_header>().read() };
        let size = u64::from(header.size);
        self.prefetch(start, header.size);
        // Likewise: a multiple of eight, at least a header, at most up to the head.
        if size.wrapping_sub(ALIGN).rotate_right(ALIGN.ilog2()) >= (head - at) / ALIGN {
            return Err(Broken);
        }
        let (size, room) = (size as usize, self.capacity as usize - start);
        if size > room {
            // SAFETY: what was checked above is what it asks for.
            return Ok(Some(unsafe { self.split(start, room, size) }));
        }
        // SAFETY: `start + size` is within the data, and the bytes stay as they are while `self` is
        // borrowed: they lie between tail and head, and `release` needs `&mut self`.
        Ok(Some(Piece::Single(unsafe { std::slice::from_raw_parts(self.data.add(start), size) })))
    }

    /// Asks for a record ahead of the one of `size` bytes at `start`: another CPU wrote it, so it is in that one's cache, and
    /// to wait for it was half the cost of a record. Most records are as long as their neighbours.
    #[inline(always)]
    fn prefetch(&self, start: usize, size: u16) {
        /// Records ahead. With 32 of 112 bytes a drain that only steps over records took 10-19 ns each, with 4 and 8 of them
        /// 16-19, without any 16-23.
        const AHEAD: usize = 32;
        const LINE: usize = 64;
        let record = self
            .data
            .wrapping_add((start + AHEAD * usize::from(size)) & (self.capacity as usize - 1));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing into the program and faults on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(record.cast());
            _mm_prefetch::<_MM_HINT_T0>(record.wrapping_add(LINE).cast());
        }
    }

    /// The record of `size` bytes at `start`, of which only `room` stand before the end of the ring. Once a lap.
    ///
    /// # Safety
    /// `room` is what is between `start` and the capacity, and less than `size`; the record lies between tail
    /// and head.
    #[cold]
    unsafe fn split(&self, start: usize, room: usize, size: usize) -> Piece<'_> {
        // SAFETY: the first part ends with the data, the rest begins at their front; since `size` is at most
        // `head - tail`, which is at most the capacity, they do not meet. The bytes stay as in `piece`.
        unsafe {
            Piece::Split(
                std::slice::from_raw_parts(self.data.add(start), room),
                std::slice::from_raw_parts(self.data, size - room),
            )
        }
    }
}

/// Records begin at, and are long, multiples of this; it is also the size of their header.
const ALIGN: u64 = size_of::<perf_event_header>() as u64;

/// What stood where a record should begin was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no record begins here")]
pub struct Broken;

/// One record as it lies in a ring, its header included.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// In one stretch.
    Single(&'a [u8]),
    /// Around the end of the ring: first this, then that. Both are multiples of eight bytes long.
    Split(&'a [u8], &'a [u8]),
}

impl<'a> Piece<'a> {
    /// `perf_event_header.type`: which record it is, `PERF_RECORD_*`.
    #[inline(always)]
    pub fn kind(&self) -> u32 {
        self.header().map_or(0, |[a, b, c, d, ..]| u32::from_ne_bytes([a, b, c, d]))
    }

    /// `perf_event_header.misc`: the CPU's mode and flags.
    #[inline(always)]
    pub fn misc(&self) -> u16 {
        self.header().map_or(0, |[_, _, _, _, a, b, ..]| u16::from_ne_bytes([a, b]))
    }

    /// Bytes of the record, the header included.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a record has a header, so it is never empty")]
    pub fn len(&self) -> usize {
        match self {
            Piece::Single(bytes) => bytes.len(),
            Piece::Split(front, back) => front.len() + back.len(),
        }
    }

    /// The eight bytes at `offset` from the start of the record, or `None` beyond its end.
    ///
    /// Fields of a record are aligned, so that they lie on one side; an offset that is not a multiple of eight
    /// is good only where this holds by chance.
    #[inline(always)]
    pub fn u64_at(&self, offset: usize) -> Option<u64> {
        let end = offset.checked_add(8)?;
        match self.front().get(offset..end) {
            Some(word) => word.first_chunk().map(|word| u64::from_ne_bytes(*word)),
            None => self.u64_behind(offset),
        }
    }

    /// As [`Piece::u64_at`], where the first stretch has ended.
    #[cold]
    fn u64_behind(&self, offset: usize) -> Option<u64> {
        let Piece::Split(front, back) = self else { return None };
        let word = back.get(offset.checked_sub(front.len())?..)?.first_chunk();
        word.map(|word| u64::from_ne_bytes(*word))
    }

    /// The whole record in one stretch: in place, or copied to `scratch` if it wraps.
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
        // A record's size is a u16, so both always fit; somebody else's larger piece is cut.
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

/// Room for one record of any size, aligned as records are.
pub struct Scratch(Box<Aligned>);

#[repr(align(8))]
struct Aligned([u8; 1 << 16]);

impl Scratch {
    /// 64 KiB of zeroes.
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

    /// A record of `len` bytes: header, then words that count up.
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
    fn pieces_that_are_no_records_are_harmless() {
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
