//! Copies of events that outlive their records.
//!
//! Each slot of a table owns its two vectors and reuses them, so a copy allocates only when a
//! record is longer than any before it in that slot.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::base::{event::slot::Slot, report::frame::Space};
use crate::stat::leaf::BorrowedEvent;

/// Position of a copy in the history: the bytes of all blocks before it since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyPosition(pub(super) u64);

impl CopyPosition {
    /// The position of no copy; greater than all others.
    pub const NONE: CopyPosition = CopyPosition(u64::MAX);
}

/// The owner of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventOwner {
    /// Address space of its user addresses; unknown if it has none.
    pub space: Space,
    /// Name of its task, NUL-padded.
    pub comm: [u8; 16],
}

/// The addresses at which copies are returned. One is valid as long as a table holds it: the memory
/// of a dropped table may belong to another event by now.
#[derive(Default)]
pub(super) struct CopyAddresses(RefCell<Vec<Rc<CopyAddress>>>);

impl CopyAddresses {
    /// Returns the owner of the copy that `slot` is part of; None if the slot is not a copy.
    #[inline]
    pub(super) fn owner_of(&self, slot: &Slot) -> Option<EventOwner> {
        let addresses = self.0.borrow();
        let is_at = |of: &&Rc<CopyAddress>| std::ptr::eq(of.at, slot) && Rc::strong_count(of) > 1;
        let address = addresses.iter().find(is_at);
        address.map(|address| address.owner.get())
    }

    /// Registers a slot at which copies are returned from now on; it must not move.
    pub(super) fn register(&self, slot: &Slot) -> Rc<CopyAddress> {
        let address = Rc::new(CopyAddress { at: slot, owner: Cell::default() });
        let mut addresses = self.0.borrow_mut();
        addresses.retain(|known| Rc::strong_count(known) > 1);
        addresses.push(address.clone());
        address
    }
}

/// An address at which copies are returned; compared, never dereferenced.
pub(super) struct CopyAddress {
    at: *const Slot,
    pub(super) owner: Cell<EventOwner>,
}

/// The copy of an event; the slot points into the two vectors.
#[derive(Clone, Debug)]
pub(super) struct EventCopy {
    pub(super) slot: Slot,
    pub(super) raw: Vec<u8>,
    pub(super) chain: Vec<u64>,
    pub(super) owner: EventOwner,
    /// Position in the history. Unless it is [`CopyPosition::NONE`], the fields above are
    /// meaningless.
    pub(super) at: CopyPosition,
}

impl EventCopy {
    pub(super) fn new() -> EventCopy {
        let (slot, owner, at) = (Slot::NONE, EventOwner::default(), CopyPosition::NONE);
        EventCopy { slot, raw: Vec::new(), chain: Vec::new(), owner, at }
    }

    pub(super) fn copy(&mut self, event: BorrowedEvent<'_>, owner: EventOwner) {
        self.owner = owner;
        self.fill(event.slot, event.raw, event.chain);
    }

    /// Copies the event of another copy.
    pub(super) fn copy_again(&mut self, other: &EventCopy) {
        self.owner = other.owner;
        self.fill(&other.slot, &other.raw, &other.chain);
    }

    pub(super) fn fill(&mut self, slot: &Slot, raw: &[u8], chain: &[u64]) {
        self.at = CopyPosition::NONE;
        self.raw.clear();
        self.raw.extend_from_slice(raw);
        self.chain.clear();
        self.chain.extend_from_slice(chain);
        self.slot = Slot {
            raw: if raw.is_empty() { std::ptr::null() } else { self.raw.as_ptr() },
            chain: if chain.is_empty() { std::ptr::null() } else { self.chain.as_ptr() },
            ..*slot
        };
    }

    /// Returns the bytes allocated in addition to the struct itself.
    pub(super) fn bytes(&self) -> usize {
        self.raw.capacity() + self.chain.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_dropped_tables_are_forgotten() {
        let (addresses, slots) = (CopyAddresses::default(), [Slot::NONE; 3]);
        let held = addresses.register(&slots[0]);
        for _ in 0..1000 {
            addresses.register(&slots[1]);
            assert_eq!(addresses.owner_of(&slots[1]), None, "its table is gone");
        }
        let last = addresses.register(&slots[2]);
        assert!(addresses.owner_of(&slots[0]).is_some() && addresses.owner_of(&slots[2]).is_some());
        assert_eq!(addresses.0.borrow().len(), 2);
        drop((held, last));
        assert_eq!(addresses.owner_of(&slots[0]), None);
    }
}
