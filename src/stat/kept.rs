//! The copy of an event that outlives its record, and whose the event was.
//!
//! Each slot of the table owns its two vectors and uses them again, so a copy allocates only when a record is
//! longer than any before it in that slot.
//!
//! When a copy is read, its process may execute another program or its number be another's: so whose it is must be asked
//! when it is made. A slot has no room for the answer, which stands beside the copy. What is handed out is a slot, at
//! one of few addresses that never change, by which [`Owners::of`] tells whose is there; any other slot is a live event's.
//!
//! Where a run has a history, each event is copied already: what is kept is where its copy stands, until it is forgotten there.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use crate::base::{frame::Space, slot::Slot};
use crate::stat::history::{History, Position};
use crate::stat::leaf::Event;

/// Whose an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// What its user addresses belong to; unknown where it has none.
    pub space: Space,
    /// Its task's name, NUL-padded.
    pub comm: [u8; 16],
}

/// Tells whose an event is, while it is handled.
pub type Ask = Box<dyn Fn(&Event<'_>) -> Whose>;

/// Who is asked whose an event is that is kept, and whose the copies are that were handed out last.
#[derive(Default)]
pub struct Owners {
    ask: RefCell<Option<Ask>>,
    places: RefCell<Vec<Rc<Place>>>,
    past: OnceCell<Rc<RefCell<History>>>,
}

impl Owners {
    /// The run's history, if it has one.
    #[inline]
    pub fn past(&self) -> Option<&Rc<RefCell<History>>> {
        self.past.get()
    }

    /// The same; `begin` makes the one that the run has from then on.
    pub fn past_or(&self, begin: impl FnOnce() -> History) -> &Rc<RefCell<History>> {
        self.past.get_or_init(|| Rc::new(RefCell::new(begin())))
    }

    /// From now on these are asked.
    pub fn ask_by(&self, ask: Ask) {
        self.ask.replace(Some(ask));
    }

    /// Whose the copy is that this slot is part of; None of a slot that is no copy.
    #[inline]
    pub fn of(&self, slot: &Slot) -> Option<Whose> {
        let places = self.places.borrow();
        let place = places.iter().find(|place| std::ptr::eq(place.at, slot));
        place.map(|place| place.whose.get())
    }

    pub(super) fn ask(&self, event: &Event<'_>) -> Whose {
        self.ask.borrow().as_ref().map_or_else(Whose::default, |ask| ask(event))
    }

    /// A slot at which copies are handed out from now on; it does not move.
    pub(super) fn place(&self, slot: &Slot) -> Rc<Place> {
        let place = Rc::new(Place { at: slot, whose: Cell::default() });
        self.places.borrow_mut().push(place.clone());
        place
    }
}

/// A kept event while it is printed: a copy that no table can change.
pub struct Shown {
    kept: Box<Kept>,
    /// Where it is handed out, of the owners that were asked last.
    place: Option<(Rc<Owners>, Rc<Place>)>,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown { kept: Box::new(Kept::new()), place: None }
    }
}

impl Shown {
    /// Copies an event, which is good until the next call; the slot's address never changes.
    pub fn show(&mut self, owners: &Rc<Owners>, event: Event<'_>) -> *const Slot {
        if !std::ptr::eq(event.slot, &self.kept.slot) {
            let whose = owners.of(event.slot).unwrap_or_default();
            self.kept.fill(event.slot, event.raw, event.chain);
            if self.place.as_ref().is_none_or(|(of, _)| !Rc::ptr_eq(of, owners)) {
                self.place = Some((owners.clone(), owners.place(&self.kept.slot)));
            }
            self.place.iter().for_each(|(_, place)| place.whose.set(whose));
        }
        &raw const self.kept.slot
    }
}

/// Where copies are handed out. The address is compared and never followed.
pub(super) struct Place {
    at: *const Slot,
    pub(super) whose: Cell<Whose>,
}

/// Whom a table asks, and the places where it hands out what has ended and what is only read.
pub(super) struct Kinship {
    pub(super) owners: Rc<Owners>,
    pub(super) ended: Rc<Place>,
    pub(super) read: Option<Rc<Place>>,
}

impl Kinship {
    pub(super) fn new(owners: &Rc<Owners>, ended: &Slot, read: Option<&Slot>) -> Kinship {
        let (ended, read) = (owners.place(ended), read.map(|slot| owners.place(slot)));
        Kinship { owners: owners.clone(), ended, read }
    }
}

/// The copy of an event; the slot points into the two vectors.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) slot: Slot,
    pub(super) raw: Vec<u8>,
    pub(super) chain: Vec<u64>,
    pub(super) whose: Whose,
    /// Where the history has it; then what is above is of no meaning.
    pub(super) at: Position,
}

impl Kept {
    pub(super) fn new() -> Kept {
        let (slot, whose, at) = (Slot::NONE, Whose::default(), Position::NONE);
        Kept { slot, raw: Vec::new(), chain: Vec::new(), whose, at }
    }

    pub(super) fn copy(&mut self, event: Event<'_>, kinship: Option<&Kinship>) {
        self.whose = kinship.map_or_else(Whose::default, |kin| kin.owners.ask(&event));
        self.fill(event.slot, event.raw, event.chain);
    }

    /// The same event as another copy.
    pub(super) fn copy_again(&mut self, other: &Kept) {
        self.whose = other.whose;
        self.fill(&other.slot, &other.raw, &other.chain);
    }

    fn fill(&mut self, slot: &Slot, raw: &[u8], chain: &[u64]) {
        self.at = Position::NONE;
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

    /// Copies what the history has.
    pub(super) fn recall(&mut self, history: &History) {
        if !history.recall(self.at, self) {
            (self.slot, self.at) = (Slot::NONE, Position::NONE);
        }
    }

    /// Bytes held beside the struct itself.
    pub(super) fn bytes(&self) -> usize {
        self.raw.capacity() + self.chain.capacity() * size_of::<u64>()
    }
}
