//! State between two events: opened by the first, closed by the second.
//!
//! One slot a key: opening again replaces what is open, which then never had its end and counts as unmatched.
//! Closing copies the slot into one result that stays good until the next close, so no memory is made per
//! event and Lua reads plain fields. Events that were lost may have been the missing ends: what was open
//! then must be dropped ([`Pending::drop_before`]), as must the state of a task that ended
//! ([`Pending::drop_task`]). When the table is full the slot that was opened first goes, and so does one that is older
//! than it may be.

mod dropped;
mod links;
mod shape;
mod state;
mod walk;

use super::{
    kept::{Kept, Kinship, Owners},
    leaf::{Event, EventLeaf},
    strings::Marks,
    word::{Part, Word, hash},
};
use crate::base::slot::Slot;
use hashbrown::HashTable;
use state::{Open, is_at, mark_values};
use std::rc::Rc;
use walk::Walk;

pub use shape::{Losses, Shape};
pub use state::State;

/// The most values that are remembered beside the time.
pub const VALUES: usize = 8;

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
    capacity: usize,
    kept_bytes: usize,
    closed: Box<State>,
    closed_kept: Box<Kept>,
    read: Box<State>,
    read_slot: Box<Slot>,
    walk: Walk,
    kinship: Option<Kinship>,
    /// Up to here events were lost: what begins by then is not opened.
    unsafe_until: f64,
    losses: Losses,
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
            capacity: (shape.bound / slot).clamp(1, NONE as usize - 1),
            kept_bytes: 0,
            closed: Box::new(State::EMPTY),
            closed_kept: Box::new(Kept::new()),
            read: Box::new(State::EMPTY),
            read_slot: Box::new(Slot::EMPTY),
            walk: Walk::default(),
            kinship: None,
            unsafe_until: f64::NEG_INFINITY,
            losses: Losses::default(),
        }
    }

    /// The same, which asks whose the events are that it keeps, and tells whose it hands out.
    pub fn asking(mut self, owners: &Rc<Owners>) -> Pending {
        let (ended, read) = (&self.closed_kept.slot, Some(&*self.read_slot));
        self.kinship = self.shape.keep_event.then(|| Kinship::new(owners, ended, read));
        self
    }

    /// Opens a slot; doubles are the key, the time and the values, `kinds` as in [`State`]. Returns 0.
    #[inline]
    pub fn open(&mut self, event: Option<Event<'_>>, doubles: &[f64], kinds: u32) -> u32 {
        let [key, time, values @ ..] = doubles else { return 0 };
        if *time <= self.unsafe_until {
            self.losses.unsafe_ += 1;
            return 0;
        }
        let key = Word::passed(*key, kinds & 1 != 0);
        let hash = hash(&[key]);
        let index = match self.find(hash, key) {
            Some(index) => {
                self.losses.unmatched += 1;
                self.forget_read(index);
                self.unlink(index);
                index
            }
            None => self.new_slot(hash),
        };
        self.link(index);
        let Some(slot) = self.slots.get_mut(index as usize) else { return 0 };
        slot.generation = slot.generation.wrapping_add(1);
        (slot.time, slot.key, slot.kinds, slot.open) = (*time, key, kinds, true);
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
        let (index, _) = entry.remove();
        if self.is_too_old(index, time) {
            self.release(index);
            self.losses.evicted += 1;
            return false;
        }
        self.copy(index, Target::Closed);
        self.closed.delay = time - self.closed.time;
        if let Some(kept) = self.kept.get_mut(index as usize) {
            let before = kept.bytes();
            std::mem::swap(kept, &mut self.closed_kept);
            self.kept_bytes = self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
            self.closed.event = &raw const self.closed_kept.slot;
            if let Some(kinship) = &self.kinship {
                kinship.ended.whose.set(self.closed_kept.whose);
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

    /// How many are open.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// What the last [`Pending::close`] found. Its address never changes.
    pub fn closed(&self) -> &State {
        &self.closed
    }

    /// What the last [`Pending::get`] or [`Pending::next`] found. Its address never changes.
    pub fn read(&self) -> &State {
        &self.read
    }

    /// What was dropped.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Marks the strings in use, also those of what was closed or read last.
    pub fn mark(&self, marks: &mut Marks) {
        for (i, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.open) {
            marks.mark_word(slot.key);
            let values = self.values.get(i * self.shape.values..).unwrap_or_default();
            mark_values(values.iter().take(self.shape.values), slot.kinds, marks);
        }
        for state in [&self.closed, &self.read] {
            marks.mark_word(Word::passed(state.key, state.kinds & 1 != 0));
            mark_values(state.values.iter().take(self.shape.values), state.kinds, marks);
        }
    }

    #[inline]
    fn is_too_old(&self, index: u32, now: f64) -> bool {
        self.slots.get(index as usize).is_some_and(|slot| now - slot.time > self.shape.age)
    }

    #[inline]
    fn find(&self, hash: u64, key: Word) -> Option<u32> {
        self.index.find(hash, |&i| is_at(&self.slots, i, key)).copied()
    }

    /// Copies an open slot field by field: a copy of a whole struct would wait for its stores.
    #[inline]
    fn copy(&mut self, index: u32, target: Target) -> bool {
        let into = match target {
            Target::Closed => &mut *self.closed,
            Target::Read => &mut *self.read,
        };
        let Some(slot) = self.slots.get(index as usize).filter(|slot| slot.open) else {
            return false;
        };
        into.time = slot.time;
        into.key = match slot.key.part() {
            Part::Number(key) => key,
            Part::String(id) => f64::from(id),
        };
        (into.kinds, into.index, into.generation) = (slot.kinds, index, slot.generation);
        let start = index as usize * self.shape.values;
        let values = self.values.get(start..start + self.shape.values).unwrap_or_default();
        into.values.iter_mut().zip(values).for_each(|(into, value)| *into = *value);
        true
    }

    fn read_at(&mut self, index: u32) -> bool {
        if !self.copy(index, Target::Read) {
            return false;
        }
        if let Some(kept) = self.kept.get(index as usize) {
            *self.read_slot = kept.slot;
            self.read.event = &raw const *self.read_slot;
            if let Some(place) = self.kinship.as_ref().and_then(|kin| kin.read.as_ref()) {
                place.whose.set(kept.whose);
            }
        }
        true
    }

    /// The copy of the event that was read last goes with its slot.
    #[inline]
    fn forget_read(&mut self, index: u32) {
        if self.read.index == index {
            self.read.event = std::ptr::null();
            *self.read_slot = Slot::EMPTY;
        }
    }

    #[inline]
    fn new_slot(&mut self, hash: u64) -> u32 {
        if self.free == NONE && self.slots.len() >= self.capacity {
            self.evict_oldest();
        }
        let index = self.free;
        let index = match self.slots.get(index as usize) {
            Some(slot) => {
                self.free = slot.newer;
                index
            }
            None => self.grow(),
        };
        let slots = &self.slots;
        let hash_of = |&i: &u32| slots.get(i as usize).map_or(0, |slot| self::hash(&[slot.key]));
        self.index.insert_unique(hash, index, hash_of);
        index
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
            open: false,
        });
        self.values.resize(self.slots.len() * self.shape.values, 0.0);
        if self.shape.keep_event {
            self.kept.push(Kept::new());
        }
        (self.slots.len() - 1) as u32
    }

    #[cold]
    fn evict_oldest(&mut self) {
        if self.oldest != NONE {
            let index = self.oldest;
            self.remove(index);
            self.losses.evicted += 1;
            if let Some(kept) = self.kept.get_mut(index as usize) {
                self.kept_bytes = self.kept_bytes.saturating_sub(kept.bytes());
                *kept = Kept::new();
            }
        }
    }

    #[inline]
    fn keep(&mut self, index: u32, event: Option<Event<'_>>) {
        let Some(kept) = self.kept.get_mut(index as usize) else { return };
        let before = kept.bytes();
        let Some(event) = event else {
            kept.slot = Slot::EMPTY;
            return;
        };
        kept.copy(event, self.kinship.as_ref());
        self.kept_bytes = self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
        while self.kept_bytes > self.shape.bound && self.oldest != index && self.oldest != NONE {
            self.evict_oldest();
        }
    }

    fn remove(&mut self, index: u32) {
        let Some(key) = self.slots.get(index as usize).map(|slot| slot.key) else { return };
        if let Ok(entry) = self.index.find_entry(hash(&[key]), |&i| i == index) {
            entry.remove();
        }
        self.release(index);
    }

    /// Makes a slot free that the index does not know any more.
    #[inline]
    fn release(&mut self, index: u32) {
        self.forget_read(index);
        self.unlink(index);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.open = false;
            slot.newer = self.free;
            self.free = index;
        }
    }
}

impl EventLeaf for Pending {
    fn take_event(&mut self, event: Option<Event<'_>>, doubles: &[f64], flags: u32) -> u32 {
        self.open(event, doubles, flags)
    }
}

/// Where a slot is copied to.
#[derive(Clone, Copy)]
enum Target {
    Closed,
    Read,
}

#[cfg(test)]
mod tests;
