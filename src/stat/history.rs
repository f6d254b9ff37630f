//! The events of a run so far, as many as fit: what somebody may want to see once it is known that something took long.
//!
//! Every event is copied, since which of them will be asked for is known only later; so a copy must be cheap, and what is
//! remembered bounded. Copies stand one behind the other in blocks; when there is no room for a block more, the oldest is
//! emptied and begins anew as the newest. A copy never crosses the end of a block, an old one is never looked at when a
//! new one is written, and nothing is allocated once all blocks are there. They are made one by one as they are
//! needed, so that a history of few events takes little.
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

/// The last events of a run.
pub struct History {
    blocks: VecDeque<Block>,
    /// Bytes of each.
    size: usize,
    /// How many there may be.
    most: usize,
    gone: Gone,
    lost: VecDeque<(Span, u64)>,
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
            size,
            most: (bytes / size).max(1),
            gone: Gone::default(),
            lost: VecDeque::new(),
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

    /// Remembers an event, and whose it is. `again` says that it is the same record as the one before, for another role.
    #[inline]
    pub fn push(&mut self, event: &Event<'_>, whose: &Whose, again: bool) {
        let (time, needed) = (event.slot.time, Copy::size(event));
        let room = self.blocks.back().map_or(0, |block| self.size - block.bytes.len());
        if needed > room && !self.turn(needed, time) {
            return;
        }
        let Some(block) = self.blocks.back_mut() else { return };
        Copy::write(&mut block.bytes, event, whose, again);
        block.span.add(time);
        block.events += 1;
    }

    /// Begins a block; false if not even an empty one has so much room.
    #[cold]
    fn turn(&mut self, needed: usize, time: f64) -> bool {
        self.walk = Walk::default();
        if needed > self.size {
            self.gone.add(Span::of(time), 1);
            return false;
        }
        let block = if self.blocks.len() < self.most {
            let bytes = Vec::with_capacity(self.size);
            Block { bytes, span: Span::default(), events: 0 }
        } else {
            let Some(mut oldest) = self.blocks.pop_front() else { return false };
            self.gone.add(oldest.span, oldest.events);
            oldest.bytes.clear();
            Block { span: Span::default(), events: 0, ..oldest }
        };
        self.blocks.push_back(block);
        true
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
        self.blocks.iter().map(|block| block.bytes.capacity()).sum()
    }
}

#[cfg(test)]
mod tests;
