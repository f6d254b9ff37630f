//! The stored form of one event: a head, followed by the record and the call chain.

use super::super::event_copy::{CopyPosition, EventCopy, EventOwner};
use super::super::leaf::BorrowedEvent;
use crate::base::event::slot::Slot;
use crate::base::report::frame::Space;

/// Bytes of time, pid, tid, space, cpu, role, sizes, name and flags.
const HEAD: usize = 48;

/// Bytes of ip, addr and period, which only counter samples have.
const SAMPLED: usize = 24;

/// Bits of the flags.
const AGAIN: u32 = 1;
const HAS_SAMPLE: u32 = 2;

/// A copy, located at the beginning of these bytes.
#[derive(Clone, Copy)]
pub(super) struct Copy<'a> {
    head: &'a [u8; HEAD],
    rest: &'a [u8],
}

impl<'a> Copy<'a> {
    /// Returns the bytes that a copy of `event` takes.
    #[inline]
    pub(super) fn size(event: &BorrowedEvent<'_>) -> usize {
        let sampled = if is_sampled(event.slot) { SAMPLED } else { 0 };
        HEAD + sampled + event.raw.len() + size_of_val(event.chain)
    }

    /// Appends a copy of `event`.
    #[inline]
    pub(super) fn write(
        out: &mut Vec<u8>,
        event: &BorrowedEvent<'_>,
        owner: &EventOwner,
        again: bool,
    ) {
        let slot = event.slot;
        let sampled = is_sampled(slot);
        let mut head = [0; HEAD];
        head[0..8].copy_from_slice(&slot.time.to_ne_bytes());
        head[8..12].copy_from_slice(&slot.pid.to_ne_bytes());
        head[12..16].copy_from_slice(&slot.tid.to_ne_bytes());
        head[16..20].copy_from_slice(&owner.space.0.to_ne_bytes());
        head[20..22].copy_from_slice(&slot.cpu.to_ne_bytes());
        head[22..24].copy_from_slice(&slot.ev.to_ne_bytes());
        head[24..26].copy_from_slice(&(event.raw.len() as u16).to_ne_bytes());
        head[26..28].copy_from_slice(&(event.chain.len() as u16).to_ne_bytes());
        let flags = if again { AGAIN } else { 0 } | if sampled { HAS_SAMPLE } else { 0 };
        // Writes all four bytes: with a gap here, reading the name back would span two stores and
        // wait for both.
        head[28..32].copy_from_slice(&flags.to_ne_bytes());
        head[32..48].copy_from_slice(&owner.comm);
        out.extend_from_slice(&head);
        if sampled {
            for word in [slot.ip, slot.addr, slot.period] {
                out.extend_from_slice(&word.to_ne_bytes());
            }
        }
        out.extend_from_slice(event.raw);
        for entry in event.chain {
            out.extend_from_slice(&entry.to_ne_bytes());
        }
    }

    /// Returns the copy at offset `at`; None if there is none.
    #[inline]
    pub(super) fn at(bytes: &'a [u8], at: usize) -> Option<Copy<'a>> {
        let (head, rest) = bytes.get(at..)?.split_first_chunk::<HEAD>()?;
        Some(Copy { head, rest })
    }

    /// Returns its size in bytes.
    pub(super) fn len(&self) -> usize {
        HEAD + self.sampled() + self.raw_size() + self.chain_len() * size_of::<u64>()
    }

    /// Returns the event's time.
    pub(super) fn time(&self) -> f64 {
        f64::from_ne_bytes(self.array_at(0))
    }

    /// Returns whether it is the same record as the previous copy, for another role.
    pub(super) fn again(&self) -> bool {
        self.u32_at(28) & AGAIN != 0
    }

    /// Restores the slot and its owner.
    pub(super) fn read(&self, into: &mut EventCopy) {
        let (sample, rest) = self.rest.split_at_checked(self.sampled()).unwrap_or_default();
        let (raw, chain) = rest.split_at_checked(self.raw_size()).unwrap_or_default();
        let mut words = sample.chunks_exact(8).map(word);
        let [ip, addr, period] = [0, 0, 1].map(|usual| words.next().unwrap_or(usual));
        into.raw.clear();
        into.raw.extend_from_slice(raw);
        into.chain.clear();
        into.chain.extend(chain.chunks_exact(8).take(self.chain_len()).map(word));
        into.at = CopyPosition::NONE;
        into.owner = EventOwner { space: Space(self.u32_at(16)), comm: self.array_at(32) };
        into.slot = Slot {
            time: self.time(),
            raw: if raw.is_empty() { std::ptr::null() } else { into.raw.as_ptr() },
            chain: if into.chain.is_empty() { std::ptr::null() } else { into.chain.as_ptr() },
            ip,
            addr,
            period,
            pid: self.u32_at(8),
            tid: self.u32_at(12),
            cpu: self.u16_at(20),
            ev: self.u16_at(22),
            raw_size: into.raw.len() as u16,
            chain_len: into.chain.len() as u16,
        };
    }

    fn sampled(&self) -> usize {
        if self.u32_at(28) & HAS_SAMPLE != 0 { SAMPLED } else { 0 }
    }

    fn raw_size(&self) -> usize {
        self.u16_at(24).into()
    }

    fn chain_len(&self) -> usize {
        self.u16_at(26).into()
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array_at(at))
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array_at(at))
    }

    /// Returns the bytes at offset `at`, a constant inside the head.
    fn array_at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.head.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

#[inline]
fn is_sampled(slot: &Slot) -> bool {
    slot.ip | slot.addr != 0 || slot.period != 1
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}
