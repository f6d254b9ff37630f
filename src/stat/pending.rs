//! State between two events: opened by the first, closed by the second.
//!
//! There is one slot per key. Opening a key again replaces its open slot, which then counts as
//! unmatched. Closing copies the slot into one result that stays valid until the next close, so
//! nothing is allocated per event and Lua reads plain fields. The ends may be among lost events:
//! slots that were open then must be dropped ([`Pending::drop_before`]), and so must the slot of a
//! task that ended ([`Pending::drop_task`]). When the table is full, the slot that was opened first
//! is evicted, and so is any slot that exceeds the maximum age.
//!
//! With [`PendingOptions::nested`], opening a key again begins a call inside the open one, and
//! closing ends the innermost ([`Pending::close_call`]).

mod counted;
mod history_copy;
mod iterate;
mod leaf;
mod links;
mod losses;
mod nested;
mod read;
mod shape;
mod state;

use super::{
    budget::{Budget, BudgetGrant},
    event_copy::{CopyPosition, EventCopy},
    leaf::{BorrowedEvent, EventLeaf},
    owners::{CopyOwner, Owners},
    word::{Word, hash},
};
use crate::base::event::slot::Slot;
use hashbrown::HashTable;
use iterate::SlotWalk;
use read::CopyTarget;
use state::{PendingSlot, is_at};
use std::rc::Rc;

pub use leaf::leaves;
pub use shape::{PendingLosses, PendingOptions};
pub use state::PendingState;

/// Maximum number of values per slot, in addition to the time.
pub const VALUES: usize = 8;

/// A bit of `kinds` for [`Pending::open`]: a slot that is already open for the key is left as it
/// is.
pub const ONCE: u32 = 1 << 30;

const NONE: u32 = u32::MAX;

/// Open slots by key.
pub struct Pending {
    shape: PendingOptions,
    slots: Vec<PendingSlot>,
    values: Vec<f64>,
    kept: Vec<EventCopy>,
    index: HashTable<u32>,
    oldest: u32,
    newest: u32,
    free: u32,
    /// First slot in opening order whose event the history may hold.
    fresh: u32,
    /// Bytes of a slot. `capacity` is the number of slots that fit, `kept_bytes` the size of the
    /// event copies.
    slot_bytes: usize,
    capacity: usize,
    room: BudgetGrant,
    kept_bytes: usize,
    kept_room: BudgetGrant,
    closed: Box<PendingState>,
    closed_kept: Box<EventCopy>,
    read: Box<PendingState>,
    read_slot: Box<Slot>,
    walk: SlotWalk,
    owner_lookup: Option<CopyOwner>,
    /// Events were lost until this time: a slot that begins by then is not opened.
    unsafe_until: f64,
    /// The same with [`PendingOptions::keep_lost`]: a slot that began by then may
    /// have ended unnoticed.
    unsure_until: f64,
    losses: PendingLosses,
    /// Starts that the kernel keeps.
    counted_open: u64,
    /// Slots opened so far, including those dropped at once.
    starts: u64,
}

impl Pending {
    /// Returns an empty table.
    pub fn new(shape: PendingOptions) -> Pending {
        let values = shape.values.min(VALUES);
        let slot = size_of::<PendingSlot>()
            + values * size_of::<f64>()
            + 8
            + if shape.keep_event { size_of::<EventCopy>() } else { 0 };
        Pending {
            shape: PendingOptions { values, ..shape },
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
            room: BudgetGrant::new(shape.bound),
            kept_bytes: 0,
            kept_room: BudgetGrant::new(shape.bound),
            closed: Box::new(PendingState::EMPTY),
            closed_kept: Box::new(EventCopy::new()),
            read: Box::new(PendingState::EMPTY),
            read_slot: Box::new(Slot::NONE),
            walk: SlotWalk::default(),
            owner_lookup: None,
            unsafe_until: f64::NEG_INFINITY,
            unsure_until: f64::NEG_INFINITY,
            losses: PendingLosses::default(),
            counted_open: 0,
            starts: 0,
        }
    }

    /// Also looks up the owners of the events it keeps, and reports the owners of those it returns.
    pub fn with_owners(mut self, owners: &Rc<Owners>) -> Pending {
        let (ended, read) = (&self.closed_kept.slot, Some(&*self.read_slot));
        self.owner_lookup = self.shape.keep_event.then(|| CopyOwner::new(owners, ended, read));
        self
    }

    /// Takes its memory from a budget.
    pub fn with_budget(self, budget: &Rc<Budget>) -> Pending {
        let (room, kept_room) = (self.room.with_budget(budget), self.kept_room.with_budget(budget));
        Pending { capacity: 0, room, kept_room, ..self }
    }

    /// Opens a slot and returns whether it did. The doubles are the key, the time and the values;
    /// `kinds` is as in [`PendingState`], plus [`ONCE`].
    #[inline]
    pub fn open(&mut self, event: Option<BorrowedEvent<'_>>, doubles: &[f64], kinds: u32) -> bool {
        let [key, time, values @ ..] = doubles else { return false };
        if *time <= self.unsafe_until {
            self.starts += 1;
            self.losses.unsafe_ += 1;
            return false;
        }
        let key = Word::passed(*key, kinds & 1 != 0);
        let hash = hash(&[key]);
        let index = match self.find(hash, key) {
            Some(_) if kinds & ONCE != 0 => return false,
            Some(outer) if self.shape.nested => match self.inside(hash, key, outer) {
                Some(index) => index,
                None => {
                    self.starts += 1;
                    return false;
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
        let Some(slot) = self.slots.get_mut(index as usize) else { return false };
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
        true
    }

    /// Closes a slot and returns whether there was one; [`Pending::closed`] then holds it.
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
        self.copy(index, CopyTarget::Closed);
        self.closed.delay = time - self.closed.time;
        if let Some(kept) = self.kept.get_mut(index as usize) {
            self.closed.event = &raw const self.closed_kept.slot;
            self.closed_kept.at = kept.at;
            if kept.at == CopyPosition::NONE {
                // Reads the owner before the swap: reading what the swap has just written would
                // wait for its stores.
                let (before, owner) = (kept.bytes(), kept.owner);
                std::mem::swap(kept, &mut self.closed_kept);
                self.kept_bytes =
                    self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
                if let Some(owner_lookup) = &self.owner_lookup {
                    owner_lookup.ended.owner.set(owner);
                }
            }
        }
        self.release(index);
        true
    }

    /// Reads a slot without closing it and returns whether there is one; [`Pending::read`] then
    /// holds it.
    pub fn get(&mut self, key: Word) -> bool {
        let Some(index) = self.find(hash(&[key]), key) else { return false };
        self.read_at(index)
    }

    /// Writes value `field` of an open slot that was read before, with its bits of `kinds`. Returns
    /// false if that slot is gone or has no such value.
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
        if (self.read.index, self.read.generation) != (index, generation) {
            return self.read_at(index);
        }
        self.read.kinds = slot.kinds;
        if let Some(into) = self.read.values.get_mut(field) {
            *into = value;
        }
        true
    }

    /// Returns how many slots were opened so far: each was closed, is open, or is counted by
    /// [`Pending::losses`].
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns how many slots were closed so far.
    pub fn ended(&self) -> u64 {
        let PendingLosses { unmatched, unsafe_, exited, evicted } = self.losses;
        let open = self.len() as u64 + self.counted_open;
        self.starts - (open + unmatched + unsafe_ + exited + evicted).min(self.starts)
    }

    /// Returns whether the keys are thread ids.
    pub fn is_by_task(&self) -> bool {
        self.shape.by_task
    }

    /// Returns how many slots are open.
    pub fn len(&self) -> usize {
        match self.shape.nested {
            true => self.slots.iter().filter(|slot| slot.open).count(),
            false => self.index.len(),
        }
    }

    /// Returns whether no slot is open.
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

    /// Adds a slot to the index.
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

    /// Requests memory for more slots and returns whether there is room.
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
        self.slots.push(PendingSlot {
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
            self.kept.push(EventCopy::new());
        }
        (self.slots.len() - 1) as u32
    }

    #[inline]
    fn keep(&mut self, index: u32, event: Option<BorrowedEvent<'_>>) {
        let Some(kept) = self.kept.get_mut(index as usize) else { return };
        kept.at = CopyPosition::NONE;
        let Some(event) = event else {
            kept.slot = Slot::NONE;
            return;
        };
        let past = self.owner_lookup.as_ref().and_then(|lookup| lookup.past());
        if let Some(position) = past.and_then(|past| past.borrow().position_of(event.slot)) {
            kept.at = position;
            return;
        }
        let before = kept.bytes();
        let owner = self.owner_lookup.as_ref().map(|lookup| lookup.look_up(&event));
        kept.copy(event, owner.unwrap_or_default());
        self.kept_bytes = self.kept_bytes.saturating_add(kept.bytes()).saturating_sub(before);
        self.evict_for_bytes(index);
    }
}

impl EventLeaf for Pending {
    fn take_event(&mut self, event: Option<BorrowedEvent<'_>>, doubles: &[f64], flags: u32) -> u32 {
        u32::from(self.open(event, doubles, flags))
    }
}

#[cfg(test)]
mod tests;
