//! Copies of events that outlive their records, and the events' owners.
//!
//! Each slot of a table owns its two vectors and reuses them, so a copy allocates only when a
//! record is longer than any before it in that slot.
//!
//! By the time a copy is read, its process may have executed another program, or its pid may have
//! been reused. The owner is therefore looked up when the copy is made. A slot has no room for it,
//! so it is stored beside the copy. Copies are returned as slots at a few addresses that never
//! change, by which [`Owners::of`] finds their owner; any other slot belongs to a live event.
//!
//! If the run has a history, each event is copied already: pending state stores the position of
//! that copy, and copies the event only when it is read or before the history evicts it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use crate::base::{event::slot::Slot, report::frame::Space};
use crate::stat::history::{CopyPosition, History};
use crate::stat::leaf::BorrowedEvent;

/// The owner of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventOwner {
    /// Address space of its user addresses; unknown if it has none.
    pub space: Space,
    /// Name of its task, NUL-padded.
    pub comm: [u8; 16],
}

/// Returns the owner of an event while the event is handled.
pub type Ask = Box<dyn Fn(&BorrowedEvent<'_>) -> EventOwner>;

/// Looks up the owners of copied events, and stores the owners of the copies returned last.
#[derive(Default)]
pub struct Owners {
    ask: RefCell<Option<Ask>>,
    places: RefCell<Vec<Rc<CopyAddress>>>,
    past: OnceCell<Rc<RefCell<History>>>,
}

impl Owners {
    /// Returns the run's history, if it has one.
    #[inline]
    pub fn past(&self) -> Option<&Rc<RefCell<History>>> {
        self.past.get()
    }

    /// Returns the run's history; creates it with `begin` if there is none.
    pub fn past_or(&self, begin: impl FnOnce() -> History) -> &Rc<RefCell<History>> {
        self.past.get_or_init(|| Rc::new(RefCell::new(begin())))
    }

    /// Sets the function that looks up owners.
    pub fn ask_by(&self, ask: Ask) {
        self.ask.replace(Some(ask));
    }

    /// Returns the owner of the copy that `slot` is part of; None if the slot is not a copy.
    #[inline]
    pub fn of(&self, slot: &Slot) -> Option<EventOwner> {
        let places = self.places.borrow();
        let place = places.iter().find(|place| std::ptr::eq(place.at, slot));
        place.map(|place| place.owner.get())
    }

    pub(super) fn ask(&self, event: &BorrowedEvent<'_>) -> EventOwner {
        self.ask.borrow().as_ref().map_or_else(EventOwner::default, |ask| ask(event))
    }

    /// Registers a slot at which copies are returned from now on; it must not move.
    pub(super) fn place(&self, slot: &Slot) -> Rc<CopyAddress> {
        let place = Rc::new(CopyAddress { at: slot, owner: Cell::default() });
        self.places.borrow_mut().push(place.clone());
        place
    }
}

/// A copy of an event for printing, which no table can change.
pub struct PrintedCopy {
    kept: Box<EventCopy>,
    /// Its place, registered with the owners passed last.
    place: Option<(Rc<Owners>, Rc<CopyAddress>)>,
}

impl Default for PrintedCopy {
    fn default() -> PrintedCopy {
        PrintedCopy { kept: Box::new(EventCopy::new()), place: None }
    }
}

impl PrintedCopy {
    /// Copies an event and returns its slot. The copy is valid until the next call; the slot's
    /// address never changes.
    pub fn show(&mut self, owners: &Rc<Owners>, event: BorrowedEvent<'_>) -> *const Slot {
        if !std::ptr::eq(event.slot, &self.kept.slot) {
            let owner = owners.of(event.slot).unwrap_or_default();
            self.kept.fill(event.slot, event.raw, event.chain);
            if self.place.as_ref().is_none_or(|(of, _)| !Rc::ptr_eq(of, owners)) {
                self.place = Some((owners.clone(), owners.place(&self.kept.slot)));
            }
            self.place.iter().for_each(|(_, place)| place.owner.set(owner));
        }
        &raw const self.kept.slot
    }
}

/// An address at which copies are returned; compared, never dereferenced.
pub(super) struct CopyAddress {
    at: *const Slot,
    pub(super) owner: Cell<EventOwner>,
}

/// A table's source of owners, and the places at which it returns the events of ended and of read
/// slots.
pub(super) struct CopyOwner {
    pub(super) owners: Rc<Owners>,
    pub(super) ended: Rc<CopyAddress>,
    pub(super) read: Option<Rc<CopyAddress>>,
}

impl CopyOwner {
    pub(super) fn new(owners: &Rc<Owners>, ended: &Slot, read: Option<&Slot>) -> CopyOwner {
        let (ended, read) = (owners.place(ended), read.map(|slot| owners.place(slot)));
        CopyOwner { owners: owners.clone(), ended, read }
    }
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

    pub(super) fn copy(&mut self, event: BorrowedEvent<'_>, owner_lookup: Option<&CopyOwner>) {
        self.owner =
            owner_lookup.map_or_else(EventOwner::default, |lookup| lookup.owners.ask(&event));
        self.fill(event.slot, event.raw, event.chain);
    }

    /// Copies the event of another copy.
    pub(super) fn copy_again(&mut self, other: &EventCopy) {
        self.owner = other.owner;
        self.fill(&other.slot, &other.raw, &other.chain);
    }

    fn fill(&mut self, slot: &Slot, raw: &[u8], chain: &[u64]) {
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

    /// Copies the event from the history; clears the slot if it has been evicted there.
    pub(super) fn recall(&mut self, history: &History) {
        if !history.recall(self.at, self) {
            (self.slot, self.at) = (Slot::NONE, CopyPosition::NONE);
        }
    }

    /// Returns the bytes allocated in addition to the struct itself.
    pub(super) fn bytes(&self) -> usize {
        self.raw.capacity() + self.chain.capacity() * size_of::<u64>()
    }
}
