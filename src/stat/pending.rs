//! State between two events: opened by the first, closed by the second.
//!
//! One slot a key: opening again replaces what is open, which then never had its end and counts as unmatched.
//! Closing copies the slot into one result that stays good until the next close, so no memory is made per
//! event and Lua reads plain fields. Events that were lost may have been the missing ends: what was open
//! then must be dropped ([`Pending::drop_before`]), as must the state of a task that ended
//! ([`Pending::drop_task`]). When the table is full the slot that was opened first goes, and so does one that is older
//! than it may be.
//!
//! With [`Shape::nested`] opening again begins inside of what is open, and closing ends the innermost ([`Pending::close_call`]).

mod drop;
mod links;
mod nest;
mod read;
mod rescue;
mod shape;
mod state;
mod walk;

use super::{
    budget::{Budget, Room},
    history::Position,
    kept::{Kept, Kinship, Owners},
    leaf::{Event, EventLeaf},
    word::{Word, hash},
};
use crate::base::slot::Slot;
use hashbrown::HashTable;
use read::Target;
use state::{Open, is_at};
use std::rc::Rc;
use walk::Walk;

pub use shape::{Losses, Shape};
pub use state::State;

/// The most values that are remembered beside the time.
pub const VALUES: usize = 8;

/// A bit of `kinds` under [`Pending::open`]: what is open for the key stays.
pub const ONCE: u32 = 1 << 30;

const NONE: u32 = u32::MAX;

/// Open slots by key.
pub struct Pending {
    shape: Shape,
    slots: Vec<Open>,
    values: Vec<f64>,
    kept: Vec<Kept>,
    index: HashTable<u32>,
    oldest: u32,
    newest: u32,
    free: u32,
    /// From here on, in the order in which they were opened, the history may have the events.
    fresh: u32,
    /// Bytes of a slot, and how many there is room for; bytes of the copies of events.
    slot_bytes: usize,
    capacity: usize,
    room: Room,
    kept_bytes: usize,
    kept_room: Room,
    closed: Box<State>,
    closed_kept: Box<Kept>,
    read: Box<State>,
    read_slot: Box<Slot>,
    walk: Walk,
    kinship: Option<Kinship>,
    /// Up to here events were lost: what begins by then is not opened.
    unsafe_until: f64,
    /// The same where slots outlive lost events: what began by then may have ended unseen.
    unsure_until: f64,
    losses: Losses,
    /// Openings so far, those at once dropped included.
    starts: u64,
}

impl Pending {
    /// An empty table.
    pub fn new(shape: Shape) -> Pending {
        let values = shape.values.min(VALUES);
        let slot = size_of::<Open>()
            + values * size_of::<f64>()
            + 8
            + if shape.keep_event { size_of::<Kept>() } else { 0 };
        Pending {
            shape: Shape { values, ..shape },
            slots: Vec::new(),
            values: Vec::new(),
            kept: Vec::new(),
            index: HashTable::new(),
            oldest: NONE,
            newest: NONE,
            free: NONE,
            fresh: NONE,
            slot_bytes: slot,
            capacity: (shape.bound / slot).clamp(1, NONE as usize - 1),
            room: Room::new(shape.bound),
            kept_bytes: 0,
            kept_room: Room::new(shape.bound),
            closed: Box::new(State::EMPTY),
            closed_kept: Box::new(Kept::new()),
            read: Box::new(State::EMPTY),
            read_slot: Box::new(Slot::NONE),
            walk: Walk::default(),
            kinship: None,
            unsafe_until: f64::NEG_INFINITY,
            unsure_until: f64::NEG_INFINITY,
            losses: Losses::default(),
            starts: 0,
        }
    }

    /// The same, which asks whose the events are that it keeps, and tells whose it hands out.
    pub fn asking(mut self, owners: &Rc<Owners>) -> Pending {
        let (ended, read) = (&self.closed_kept.slot, Some(&*self.read_slot));
        self.kinship = self.shape.keep_event.then(|| Kinship::new(owners, ended, read));
        self
    }

    /// The same, whose bytes are of a budget.
    pub fn within(self, budget: &Rc<Budget>) -> Pending {
        let (room, kept_room) = (self.room.within(budget), self.kept_room.within(budget));
        Pending { capacity: 0, room, kept_room, ..self }
    }

    /// Opens a slot; doubles are the key, the time and the values, `kinds` as in [`State`], and [`ONCE`]. Returns 0.
    #[inline]
    pub fn open(&mut self, event: Option<Event<'_>>, doubles: &[f64], kinds: u32) -> u32 {
        let [key, time, values @ ..] = doubles else { return 0 };
        if *time <= self.unsafe_until {
            self.starts += 1;
            self.losses.unsafe_ += 1;
            return 0;
        }
        let key = Word::passed(*key, kinds & 1 != 0);
        let hash = hash(&[key]);
        let index = match self.find(hash, key) {
            Some(_) if kinds & ONCE != 0 => return 0,
            Some(outer) if self.shape.nested => match self.inside(hash, key, outer) {
                Some(index) => index,
                None => {
                    self.starts += 1;
                    return 0;
                }
            },
            Some(index) => {
                self.losses.unmatched += 1;
                self.forget_read(index);
                self.unlink(index);
                index
            }
            None => self.new_slot(hash),
        };
        self.starts += 1;
        self.link(index);
        let Some(slot) = self.slots.get_mut(index as usize) else { return 0 };
        slot.generation = slot.generation.wrapping_add(1);
        (slot.time, slot.key, slot.kinds, slot.open) = (*time, key, kinds & !ONCE, true);
        let start = index as usize * self.shape.values;
        if let Some(into) = self.values.get_mut(start..start + self.shape.values) {
            into.iter_mut().zip(values).for_each(|(into, value)| *into = *value);
        }
        self.keep(index, event);
        while self.oldest != index && self.is_too_old(self.oldest, *time) {
            self.evict_oldest();
        }
        0
    }

    /// Closes a slot and says whether there was one: [`Pending::closed`] then holds it.
    #[inline]
    pub fn close(&mut self, key: Word, time: f64) -> bool {
        let (slots, hash) = (&self.slots, hash(&[key]));
        let Ok(entry) = self.index.find_entry(hash, |&i| is_at(slots, i, key)) else {
            return false;
        };
        let index = *entry.get();
        match slots.get(index as usize).map_or(NONE, |slot| slot.below) {
            NONE => drop(entry.remove()),
            below => *entry.into_mut() = below,
        }
        if self.is_too_old(index, time) {
            self.release(index);
            self.losses.evicted += 1;
            return false;
        }
        self.copy(index, Target::Closed);
        self.closed.delay = time - self.closed.time;
        if let Some(kept) = self.kept.get_mut(index as usize) {
            self.closed.event = &raw const self.closed_kept.slot;
            self.closed_kept.at = kept.at;
            if kept.at == Position::NONE {
                // Read here, and not where the swap has just written it: that would wait for its stores.
                let (before, whose) = (kept.bytes(), kept.whose);
                std::mem::swap(kept, &mut self.closed_kept);
                self.kept_bytes =
                    self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
                if let Some(kinship) = &self.kinship {
                    kinship.ended.whose.set(whose);
                }
            }
        }
        self.release(index);
        true
    }

    /// Reads a slot without closing it and says whether there is one: [`Pending::read`] then holds it.
    pub fn get(&mut self, key: Word) -> bool {
        let Some(index) = self.find(hash(&[key]), key) else { return false };
        self.read_at(index)
    }

    /// Writes value `field` of an open slot as it was read, with its bits of `kinds`; false when that slot has gone.
    pub fn set(
        &mut self,
        index: u32,
        generation: u32,
        field: usize,
        value: f64,
        kinds: u32,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(index as usize) else { return false };
        if slot.generation != generation || !slot.open || field >= self.shape.values {
            return false;
        }
        let bits = 0x202 << field;
        slot.kinds = slot.kinds & !bits | kinds & bits;
        if let Some(into) = self.values.get_mut(index as usize * self.shape.values + field) {
            *into = value;
        }
        self.read_at(index)
    }

    /// How many were opened so far: each was closed, is open, or is one of [`Pending::losses`].
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// How many were closed so far.
    pub fn ended(&self) -> u64 {
        let Losses { unmatched, unsafe_, exited, evicted } = self.losses;
        self.starts - (self.len() as u64 + unmatched + unsafe_ + exited + evicted).min(self.starts)
    }

    /// Whether the keys are tasks.
    pub fn is_by_task(&self) -> bool {
        self.shape.by_task
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        match self.shape.nested {
            true => self.slots.iter().filter(|slot| slot.open).count(),
            false => self.index.len(),
        }
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    #[inline]
    fn find(&self, hash: u64, key: Word) -> Option<u32> {
        self.index.find(hash, |&i| is_at(&self.slots, i, key)).copied()
    }

    #[inline]
    fn new_slot(&mut self, hash: u64) -> u32 {
        let index = self.free_slot();
        self.list(hash, index);
        index
    }

    /// Lets a slot be found by its key.
    #[inline]
    fn list(&mut self, hash: u64, index: u32) {
        let slots = &self.slots;
        let hash_of = |&i: &u32| slots.get(i as usize).map_or(0, |slot| self::hash(&[slot.key]));
        self.index.insert_unique(hash, index, hash_of);
    }

    #[inline]
    fn free_slot(&mut self) -> u32 {
        if self.free == NONE && self.slots.len() >= self.capacity && !self.more_slots() {
            self.evict_oldest();
        }
        let index = self.free;
        match self.slots.get_mut(index as usize) {
            Some(slot) => {
                self.free = slot.newer;
                (slot.below, slot.depth, slot.deeper) = (NONE, 0, 0);
                index
            }
            None => self.grow(),
        }
    }

    /// Makes room for more slots, and returns whether there is some.
    #[cold]
    fn more_slots(&mut self) -> bool {
        self.room.grow();
        self.capacity = (self.room.bytes() / self.slot_bytes).clamp(1, NONE as usize - 1);
        self.slots.len() < self.capacity
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let generation = 0;
        let (older, newer) = (NONE, NONE);
        self.slots.push(Open {
            time: 0.0,
            key: Word::ZERO,
            kinds: 0,
            generation,
            older,
            newer,
            below: NONE,
            depth: 0,
            deeper: 0,
            open: false,
        });
        self.values.resize(self.slots.len() * self.shape.values, 0.0);
        if self.shape.keep_event {
            self.kept.push(Kept::new());
        }
        (self.slots.len() - 1) as u32
    }

    #[inline]
    fn keep(&mut self, index: u32, event: Option<Event<'_>>) {
        let Some(kept) = self.kept.get_mut(index as usize) else { return };
        kept.at = Position::NONE;
        let Some(event) = event else {
            kept.slot = Slot::NONE;
            return;
        };
        let past = self.kinship.as_ref().and_then(|kin| kin.owners.past());
        if let Some(position) = past.and_then(|past| past.borrow().position_of(event.slot)) {
            kept.at = position;
            return;
        }
        let before = kept.bytes();
        kept.copy(event, self.kinship.as_ref());
        self.kept_bytes = self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
        self.evict_for_bytes(index);
    }
}

impl EventLeaf for Pending {
    fn take_event(&mut self, event: Option<Event<'_>>, doubles: &[f64], flags: u32) -> u32 {
        self.open(event, doubles, flags)
    }
}

#[cfg(test)]
mod tests;
