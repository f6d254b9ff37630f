//! The owners of copied events, and the history that the copies may be in.
//!
//! By the time a copy is read, its process may have executed another program, or its pid may have
//! been reused. The owner is therefore looked up when the copy is made. A slot has no room for it,
//! so it is stored beside the copy. Copies are returned as slots at a few addresses that never
//! change, by which [`Owners::of`] finds their owner; any other slot belongs to a live event.
//!
//! If the run has a history, each event is copied already: pending state stores the position of
//! that copy, and copies the event only when it is read or before the history evicts it.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use crate::base::event::slot::Slot;
use crate::stat::event_copy::{CopyAddress, CopyAddresses, EventCopy, EventOwner};
use crate::stat::history::History;
use crate::stat::leaf::BorrowedEvent;

/// Returns the owner of an event while the event is handled.
pub type OwnerLookup = Box<dyn Fn(&BorrowedEvent<'_>) -> EventOwner>;

/// Looks up the owners of copied events, and stores the owners of the copies returned last.
#[derive(Default)]
pub struct Owners {
    lookup: RefCell<Option<OwnerLookup>>,
    addresses: CopyAddresses,
    past: OnceCell<Rc<RefCell<History>>>,
}

impl Owners {
    /// Returns the run's history, if it has one.
    #[inline]
    pub fn past(&self) -> Option<&Rc<RefCell<History>>> {
        self.past.get()
    }

    /// Returns the run's history; begins one of at most `bytes` bytes if there is none.
    pub fn past_or_begin(&self, bytes: usize) -> &Rc<RefCell<History>> {
        self.past.get_or_init(|| Rc::new(RefCell::new(History::new(bytes, &self.addresses))))
    }

    /// Sets the function that looks up owners.
    pub fn look_up_with(&self, lookup: OwnerLookup) {
        self.lookup.replace(Some(lookup));
    }

    /// Returns the owner of the copy that `slot` is part of; None if the slot is not a copy.
    #[inline]
    pub fn of(&self, slot: &Slot) -> Option<EventOwner> {
        self.addresses.owner_of(slot)
    }

    fn look_up(&self, event: &BorrowedEvent<'_>) -> EventOwner {
        self.lookup.borrow().as_ref().map_or_else(EventOwner::default, |lookup| lookup(event))
    }
}

/// A copy of an event for printing, which no table can change.
pub struct PrintedCopy {
    kept: Box<EventCopy>,
    /// Its address, registered with the owners passed last.
    address: Option<(Rc<Owners>, Rc<CopyAddress>)>,
}

impl Default for PrintedCopy {
    fn default() -> PrintedCopy {
        PrintedCopy { kept: Box::new(EventCopy::new()), address: None }
    }
}

impl PrintedCopy {
    /// Copies an event and returns its slot. The copy is valid until the next call; the slot's
    /// address never changes.
    pub fn show(&mut self, owners: &Rc<Owners>, event: BorrowedEvent<'_>) -> *const Slot {
        if !std::ptr::eq(event.slot, &self.kept.slot) {
            let owner = owners.of(event.slot).unwrap_or_default();
            self.kept.fill(event.slot, event.raw, event.chain);
            if self.address.as_ref().is_none_or(|(of, _)| !Rc::ptr_eq(of, owners)) {
                self.address = Some((owners.clone(), owners.addresses.register(&self.kept.slot)));
            }
            self.address.iter().for_each(|(_, address)| address.owner.set(owner));
        }
        &raw const self.kept.slot
    }
}

/// A table's source of owners, and the addresses at which it returns the events of ended and of
/// read slots.
pub(super) struct CopyOwner {
    owners: Rc<Owners>,
    pub(super) ended: Rc<CopyAddress>,
    pub(super) read: Option<Rc<CopyAddress>>,
}

impl CopyOwner {
    pub(super) fn new(owners: &Rc<Owners>, ended: &Slot, read: Option<&Slot>) -> CopyOwner {
        let register = |slot| owners.addresses.register(slot);
        let (ended, read) = (register(ended), read.map(register));
        CopyOwner { owners: owners.clone(), ended, read }
    }

    /// Returns the owner of an event that is about to be copied.
    pub(super) fn look_up(&self, event: &BorrowedEvent<'_>) -> EventOwner {
        self.owners.look_up(event)
    }

    /// Returns the run's history, if it has one.
    #[inline]
    pub(super) fn past(&self) -> Option<&Rc<RefCell<History>>> {
        self.owners.past()
    }
}
