//! The events of a run so far, as many as fit: what somebody may want to see once it is known that something took long.
//!
//! Every event is copied, since which of them will be asked for is known only later; so a copy must be cheap, and what is
//! remembered bounded. Copies stand one behind the other in blocks; when there is no room for a block more, the oldest is
//! emptied and begins anew as the newest. A copy never crosses the end of a block, an old one is never looked at when a
//! new one is written, and nothing is allocated once all blocks are there. They are made one by one as they are
//! needed, so that a history of few events takes little. Where it is known what nobody will ask for any more, those blocks
//! are written again at once, as long as the caches still have them: to walk through all the memory instead costs an event
//! 20 ns.
//!
//! ```text
//! block: HEAD [SAMPLED] raw chain, HEAD [SAMPLED] raw chain, …
//! ```
//!
//! What an emptied block held is remembered as a count, so that whoever asks for a time that is no longer there is
//! told how much is missing. Events need not be in order of time: each block knows its first and last.

mod copy;
mod gone;

use super::kept::{Kept, Owners, Place, Whose};
use super::leaf::Event;
use crate::base::slot::Slot;
use copy::Copy;
use gone::{Gone, Span};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes that a run remembers unless it asks for fewer: half a second and more of a million events a second.
pub const BYTES: usize = 64 << 20;

/// Bytes of a block: what is forgotten at once.
const BLOCK: usize = 256 << 10;

/// A history has at least so many blocks, however small it is.
const BLOCKS: usize = 16;

/// Losses that are remembered: more of them in one window are a run that has other troubles.
const LOSSES: usize = 1024;

/// Where a copy stands: how many bytes of blocks came before it since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

impl Position {
    /// Where none stands; behind all others.
    pub const NONE: Position = Position(u64::MAX);
}

/// The last events of a run.
pub struct History {
    blocks: VecDeque<Block>,
    /// Where the oldest begins.
    first: Position,
    /// Emptied ones; the last was in use last.
    empty: Vec<Block>,
    /// Bytes of each.
    size: usize,
    /// How many there may be.
    most: usize,
    gone: Gone,
    lost: VecDeque<(Span, u64)>,
    batch: Copied,
    walk: Walk,
    read: Box<Kept>,
    place: Option<Rc<Place>>,
}

/// Copies, one behind the other.
struct Block {
    bytes: Vec<u8>,
    span: Span,
    events: u64,
}

/// Where the copies of the slots of a batch stand, which lie one behind the other in memory.
#[derive(Default)]
struct Copied {
    /// The first slot's address, which is compared and never followed.
    slots: usize,
    positions: Vec<Position>,
}

/// What is missing in a window that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Events that were forgotten, at least: of a block that lay across the window's beginning it says one.
    pub gone: u64,
    /// Events that the kernel lost in it.
    pub lost: u64,
}

/// Where a visit of a window stands.
#[derive(Clone, Copy, Default)]
struct Walk {
    window: Span,
    block: usize,
    at: usize,
}

impl History {
    /// An empty one that takes at most so many bytes. An event that does not fit in a sixteenth of them is forgotten at once.
    pub fn new(bytes: usize) -> History {
        let size = (bytes / BLOCKS).clamp(1, BLOCK);
        History {
            blocks: VecDeque::new(),
            first: Position(0),
            empty: Vec::new(),
            size,
            most: (bytes / size).max(1),
            gone: Gone::default(),
            lost: VecDeque::new(),
            batch: Copied::default(),
            walk: Walk::default(),
            read: Box::new(Kept::new()),
            place: None,
        }
    }

    /// The same, which tells whose the events are that it reads back.
    pub fn telling(mut self, owners: &Owners) -> History {
        self.place = Some(owners.place(&self.read.slot));
        self
    }

    /// Begins a batch: these slots are pushed next, in this order.
    pub fn begin_batch(&mut self, slots: &[Slot]) {
        self.batch.slots = slots.as_ptr() as usize;
        self.batch.positions.clear();
    }

    /// Remembers an event, and whose it is. `again` says that it is the same record as the one before, for another role.
    /// False if its block is full: then there has to be a [`History::turn`] first.
    #[inline]
    pub fn push(&mut self, event: &Event<'_>, whose: &Whose, again: bool) -> bool {
        let needed = Copy::size(event);
        let end = self.first.0 + (self.blocks.len() * self.size) as u64;
        let position = match self.blocks.back_mut() {
            Some(block) if needed <= self.size - block.bytes.len() => {
                let room = self.size - block.bytes.len();
                Copy::write(&mut block.bytes, event, whose, again);
                block.span.add(event.slot.time);
                block.events += 1;
                Position(end - room as u64)
            }
            _ if needed <= self.size => return false,
            _ => {
                self.gone.add(Span::of(event.slot.time), 1);
                Position::NONE
            }
        };
        self.batch.positions.push(position);
        true
    }

    /// What a turn has to forget to have a block more: all that stands before this position. That is what happened before `floor`,
    /// nanoseconds of the run, and if there is nothing, and no room, the oldest block.
    pub fn room(&self, floor: f64) -> Position {
        let past = self.blocks.iter().take_while(|block| block.span.last < floor).count();
        let least = usize::from(self.blocks.len() >= self.most);
        Position(self.first.0 + (past.max(least) * self.size) as u64)
    }

    /// Forgets what stands before `room`, and begins a block.
    #[cold]
    pub fn turn(&mut self, room: Position) {
        self.walk = Walk::default();
        while self.first < room {
            let Some(Block { mut bytes, span, events }) = self.blocks.pop_front() else { break };
            self.gone.add(span, events);
            bytes.clear();
            self.empty.push(Block { bytes, span: Span::default(), events: 0 });
            self.first.0 += self.size as u64;
        }
        let new =
            || Block { bytes: Vec::with_capacity(self.size), span: Span::default(), events: 0 };
        let block = self.empty.pop().unwrap_or_else(new);
        self.blocks.push_back(block);
    }

    /// Where the copy of a slot of the batch stands that was pushed last; None of any other slot, and of one that had no room.
    #[inline]
    pub fn position_of(&self, slot: &Slot) -> Option<Position> {
        let distance = (&raw const *slot as usize).wrapping_sub(self.batch.slots);
        let position = *self.batch.positions.get(distance / size_of::<Slot>())?;
        (position >= self.first && position != Position::NONE).then_some(position)
    }

    /// Reads the copy at a position; false if it is forgotten.
    pub(super) fn recall(&self, position: Position, into: &mut Kept) -> bool {
        let copy = position.0.checked_sub(self.first.0).and_then(|distance| {
            let (nth, at) = (distance as usize / self.size, distance as usize % self.size);
            Copy::at(&self.blocks.get(nth)?.bytes, at)
        });
        copy.iter().for_each(|copy| copy.read(into));
        copy.is_some()
    }

    /// The kernel lost so many events between two times.
    pub fn lose(&mut self, from: f64, to: f64, count: u64) {
        if self.lost.len() >= LOSSES {
            self.lost.pop_front();
        }
        self.lost.push_back((Span::between(from, to), count));
    }

    /// Begins a visit of the events from one time to another, both included; tells what of them is missing.
    pub fn between(&mut self, from: f64, to: f64) -> Missing {
        let window = Span::between(from, to);
        self.walk = Walk { window, ..Walk::default() };
        let lost = self.lost.iter().filter(|(span, _)| span.meets(&window));
        Missing { gone: self.gone.within(&window), lost: lost.map(|(_, count)| count).sum() }
    }

    /// Reads the next event of the visit, in the order in which they came: [`History::read`] then holds it. Whether it is the
    /// same record as the one before, for another role; None when there is no further one.
    pub fn advance(&mut self) -> Option<bool> {
        let Walk { window, mut block, mut at } = self.walk;
        while let Some(one) = self.blocks.get(block) {
            if !one.span.meets(&window) {
                (block, at) = (block + 1, 0);
                continue;
            }
            while let Some(copy) = Copy::at(&one.bytes, at) {
                at += copy.len();
                if window.has(copy.time()) {
                    let again = copy.again();
                    copy.read(&mut self.read);
                    self.walk = Walk { window, block, at };
                    self.place.iter().for_each(|place| place.whose.set(self.read.whose));
                    return Some(again);
                }
            }
            (block, at) = (block + 1, 0);
        }
        self.walk.block = block;
        None
    }

    /// What [`History::advance`] read; its pointers are good until the next one, and its address never changes.
    pub fn read(&self) -> &Slot {
        &self.read.slot
    }

    /// Whether it reaches back to that time.
    pub fn reaches(&self, time: f64) -> bool {
        self.blocks.iter().any(|block| block.span.first <= time)
    }

    /// Bytes that are taken.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().chain(&self.empty).map(|block| block.bytes.capacity()).sum()
    }
}

#[cfg(test)]
mod tests;
