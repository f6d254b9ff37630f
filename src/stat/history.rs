//! A bounded history of a run's events, read once it is known that something took long.
//!
//! Copies every event, because which events will be requested is known only later. A copy must
//! therefore be cheap, and the memory bounded. Copies are written one after another into blocks.
//! When there is no room for another block, the oldest one is evicted and reused as the newest. A
//! copy never crosses the end of a block, writing a copy never reads an older one, and nothing is
//! allocated once all blocks exist. Blocks are allocated on demand, so a history of few events
//! takes little memory. Blocks that no request can reach any more are reused at once, while they
//! are still in the CPU caches: walking through all of the memory instead costs 20 ns per event.
//!
//! ```text
//! block: HEAD [SAMPLED] raw chain, HEAD [SAMPLED] raw chain, …
//! ```
//!
//! An evicted block leaves a count of its events, so a request for a time that is no longer stored
//! reports how much is missing. Events need not be in time order: each block stores its first and
//! last time.

mod copy;
mod gone;

use super::event_copy::{CopyAddress, CopyAddresses, CopyPosition, EventCopy, EventOwner};
use super::leaf::BorrowedEvent;
use crate::base::event::slot::Slot;
use copy::Copy;
use gone::{EvictedSpan, Gone};
use std::collections::VecDeque;
use std::rc::Rc;

/// Default size in bytes: at least half a second at a million events per second.
pub const BYTES: usize = 64 << 20;

/// Bytes of a block, the unit of eviction.
const BLOCK: usize = 256 << 10;

/// Minimum number of blocks, however small the history is.
const BLOCKS: usize = 16;

/// Maximum number of stored losses. A window with more of them indicates other problems of the run.
const LOSSES: usize = 1024;

/// The most recent events of a run.
pub struct History {
    blocks: VecDeque<Block>,
    /// Position of the oldest block.
    first: CopyPosition,
    /// Unused blocks; the last one was in use most recently.
    empty: Vec<Block>,
    /// Bytes of a block.
    size: usize,
    /// Maximum number of blocks.
    most: usize,
    gone: Gone,
    lost: VecDeque<(EvictedSpan, u64)>,
    batch: BatchCopies,
    walk: WindowWalk,
    read: Box<EventCopy>,
    address: Rc<CopyAddress>,
}

/// A block of consecutive copies.
struct Block {
    bytes: Vec<u8>,
    span: EvictedSpan,
    events: u64,
}

/// Positions of the copies of a batch, whose slots are contiguous in memory.
#[derive(Default)]
struct BatchCopies {
    /// Address of the first slot; compared, never dereferenced.
    slots: usize,
    positions: Vec<CopyPosition>,
}

/// The events missing from a requested window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Lower bound of the evicted events: a group of blocks that lies only partly in the window
    /// counts as one event.
    pub gone: u64,
    /// Events that the kernel lost in the window.
    pub lost: u64,
}

/// Progress of a visit of a window.
#[derive(Clone, Copy, Default)]
struct WindowWalk {
    window: EvictedSpan,
    block: usize,
    at: usize,
}

impl History {
    /// Returns an empty history of at most `bytes` bytes. An event that does not fit into a
    /// sixteenth of them is counted as evicted at once. The address of the event that is read back
    /// is registered in `addresses`.
    pub(super) fn new(bytes: usize, addresses: &CopyAddresses) -> History {
        let size = (bytes / BLOCKS).clamp(1, BLOCK);
        let read = Box::new(EventCopy::new());
        History {
            blocks: VecDeque::new(),
            first: CopyPosition(0),
            empty: Vec::new(),
            size,
            most: (bytes / size).max(1),
            gone: Gone::default(),
            lost: VecDeque::new(),
            batch: BatchCopies::default(),
            walk: WindowWalk::default(),
            address: addresses.register(&read.slot),
            read,
        }
    }

    /// Begins a batch: these slots are pushed next, in this order.
    pub fn begin_batch(&mut self, slots: &[Slot]) {
        self.batch.slots = slots.as_ptr() as usize;
        self.batch.positions.clear();
    }

    /// Copies an event and its owner. `again` marks the same record as the previous one, for
    /// another role. Returns false if the block is full; [`History::turn`] must be called then.
    #[inline]
    pub fn push(&mut self, event: &BorrowedEvent<'_>, owner: &EventOwner, again: bool) -> bool {
        let needed = Copy::size(event);
        let end = self.first.0 + (self.blocks.len() * self.size) as u64;
        let position = match self.blocks.back_mut() {
            Some(block) if needed <= self.size - block.bytes.len() => {
                let room = self.size - block.bytes.len();
                Copy::write(&mut block.bytes, event, owner, again);
                block.span.add(event.slot.time);
                block.events += 1;
                CopyPosition(end - room as u64)
            }
            _ if needed <= self.size => return false,
            _ => {
                self.gone.add(EvictedSpan::of(event.slot.time), 1);
                CopyPosition::NONE
            }
        };
        self.batch.positions.push(position);
        true
    }

    /// Returns the position before which a turn must evict to get another block. That covers
    /// everything that happened before `floor`, in nanoseconds of the run; if there is nothing and
    /// no room either, the oldest block.
    pub fn room(&self, floor: f64) -> CopyPosition {
        let past = self.blocks.iter().take_while(|block| block.span.last < floor).count();
        let least = usize::from(self.blocks.len() >= self.most);
        CopyPosition(self.first.0 + (past.max(least) * self.size) as u64)
    }

    /// Evicts the blocks before `room`, and begins a new one.
    #[cold]
    pub fn turn(&mut self, room: CopyPosition) {
        self.walk = WindowWalk::default();
        while self.first < room {
            let Some(Block { mut bytes, span, events }) = self.blocks.pop_front() else { break };
            self.gone.add(span, events);
            bytes.clear();
            self.empty.push(Block { bytes, span: EvictedSpan::default(), events: 0 });
            self.first.0 += self.size as u64;
        }
        let new = || Block {
            bytes: Vec::with_capacity(self.size),
            span: EvictedSpan::default(),
            events: 0,
        };
        let block = self.empty.pop().unwrap_or_else(new);
        self.blocks.push_back(block);
    }

    /// Returns the position of the copy of a slot of the batch pushed last; None for any other
    /// slot, and for one that did not fit.
    #[inline]
    pub fn position_of(&self, slot: &Slot) -> Option<CopyPosition> {
        let distance = (&raw const *slot as usize).wrapping_sub(self.batch.slots);
        let position = *self.batch.positions.get(distance / size_of::<Slot>())?;
        (position >= self.first && position != CopyPosition::NONE).then_some(position)
    }

    /// Reads the event of a copy that has only its position; clears the copy if the event has been
    /// evicted. Returns whether it was read.
    pub(super) fn recall(&self, kept: &mut EventCopy) -> bool {
        let copy = kept.at.0.checked_sub(self.first.0).and_then(|distance| {
            let (nth, at) = (distance as usize / self.size, distance as usize % self.size);
            Copy::at(&self.blocks.get(nth)?.bytes, at)
        });
        match &copy {
            Some(copy) => copy.read(kept),
            None => (kept.slot, kept.at) = (Slot::NONE, CopyPosition::NONE),
        }
        copy.is_some()
    }

    /// Records that the kernel lost `count` events between two times.
    pub fn lose(&mut self, from: f64, to: f64, count: u64) {
        if self.lost.len() >= LOSSES {
            self.lost.pop_front();
        }
        self.lost.push_back((EvictedSpan::between(from, to), count));
    }

    /// Begins a visit of the events between two times, both inclusive. Returns what is missing
    /// there.
    pub fn between(&mut self, from: f64, to: f64) -> Missing {
        let window = EvictedSpan::between(from, to);
        self.walk = WindowWalk { window, ..WindowWalk::default() };
        let lost = self.lost.iter().filter(|(span, _)| span.overlaps(&window));
        Missing { gone: self.gone.within(&window), lost: lost.map(|(_, count)| count).sum() }
    }

    /// Reads the next event of the visit into [`History::read`], in the order of arrival. Returns
    /// whether it is the same record as the previous one, for another role; None at the end.
    pub fn advance(&mut self) -> Option<bool> {
        let WindowWalk { window, mut block, mut at } = self.walk;
        while let Some(one) = self.blocks.get(block) {
            if !one.span.overlaps(&window) {
                (block, at) = (block + 1, 0);
                continue;
            }
            while let Some(copy) = Copy::at(&one.bytes, at) {
                at += copy.len();
                if window.has(copy.time()) {
                    let again = copy.again();
                    copy.read(&mut self.read);
                    self.walk = WindowWalk { window, block, at };
                    self.address.owner.set(self.read.owner);
                    return Some(again);
                }
            }
            (block, at) = (block + 1, 0);
        }
        self.walk.block = block;
        None
    }

    /// Returns what [`History::advance`] read. Its pointers are valid until the next call; its
    /// address never changes.
    pub fn read(&self) -> &Slot {
        &self.read.slot
    }

    /// Returns whether the history reaches back to `time`.
    pub fn reaches(&self, time: f64) -> bool {
        self.blocks.iter().any(|block| block.span.first <= time)
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().chain(&self.empty).map(|block| block.bytes.capacity()).sum()
    }
}

#[cfg(test)]
mod tests;
