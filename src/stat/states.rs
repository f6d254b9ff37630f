//! The current state of each task, and the time spent in each state: what a task does between two
//! switches.
//!
//! Entering a state ends the previous one, whose time is added to a latency table under the values
//! that the state was entered with. Most of these values (such as the name) are the same from one
//! state to the next, so a known task only *moves*: its name is not read from each event, and its
//! rows in the table are cached. A renamed task is unknown and must be entered again.
//!
//! A state below 0 is not timed. State 0 is running. A task that ends is still running and is
//! switched out once more, so its state is kept until it is left. A task cannot end in any other
//! timed state; such a state is dropped and counted. Moves may be among lost events: states that
//! were entered before must be dropped ([`States::drop_before`]). When the table is full, a task is
//! evicted.

mod leaf;
mod losses;
mod open;
pub mod switch;
mod transition;

use super::{
    budget::{Budget, BudgetGrant},
    event_copy::EventCopy,
    latency::Latency,
    leaf::{BorrowedEvent, EventLeaf, SharedAggregate},
    owners::{CopyOwner, Owners},
    pending::{PendingLosses, PendingState, VALUES},
    strings::Marks,
    word::{Word, words},
};
use crate::base::event::slot::Slot as EventSlot;
use hashbrown::HashTable;
use std::rc::Rc;

pub use leaf::leaves;

/// Options of a table of states.
#[derive(Clone, Copy, Debug)]
pub struct StatesOptions {
    /// Number of values of a state, itself included; they are the key of the latency table.
    pub values: usize,
    /// Index of the value that is the state.
    pub state: usize,
    /// A state that lasted longer than these nanoseconds is reported.
    pub than: f64,
    /// Whether to copy the events that began the states.
    pub keep_event: bool,
    /// Maximum size in bytes.
    pub bound: usize,
}

/// The current states by task.
pub struct States {
    shape: StatesOptions,
    slots: Vec<TaskSlot>,
    kept: Vec<EventCopy>,
    index: HashTable<u32>,
    /// Cache of slot indices by thread id: most tasks are looked up again soon.
    recent: Box<[u32; RECENT]>,
    free: Vec<u32>,
    /// Bytes of a slot; `capacity` is the number of slots that fit.
    slot_bytes: usize,
    capacity: usize,
    room: BudgetGrant,
    /// The slot that was evicted last when there was no room; the next eviction takes the following
    /// one.
    hand: usize,
    spent: SharedAggregate<Latency>,
    ended: Box<PendingState>,
    ended_kept: Box<EventCopy>,
    owner_lookup: Option<CopyOwner>,
    /// Events were lost until this time: a state that begins by then is not entered.
    unsafe_until: f64,
    losses: PendingLosses,
    /// Timed states entered so far.
    starts: u64,
}

/// One task.
#[derive(Clone, Copy)]
struct TaskSlot {
    tid: u32,
    state: i32,
    since: f64,
    open: bool,
    /// Its values are outdated, because the task was renamed.
    stale: bool,
    kinds: u32,
    /// Epoch of the latency table in which `rows` is valid.
    epoch: u32,
    rows: [StateRow; ROWS],
    values: [f64; VALUES],
}

/// A state's row in the table of latencies.
#[derive(Clone, Copy)]
struct StateRow {
    state: i32,
    row: u32,
}

/// The result of a move or an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The task is unknown and must be entered with all of its values.
    Unknown = 0,
    /// Nothing else is required.
    Done = 1,
    /// As `Done`, and the previous state was longer than `than`: [`States::ended`] holds it.
    Longer = 2,
}

const NONE: u32 = u32::MAX;
const RECENT: usize = 1024;
/// Bytes assumed for a kept event: a record and a deep call chain.
const KEPT: usize = 1024;
/// Cached rows per task: more than the states that tasks are in.
const ROWS: usize = 8;
const NO_ROWS: [StateRow; ROWS] = [StateRow { state: -1, row: 0 }; ROWS];

impl States {
    /// Returns an empty table that adds the times of the states to `spent`.
    pub fn new(shape: StatesOptions, spent: SharedAggregate<Latency>) -> States {
        let shape = StatesOptions { values: shape.values.min(VALUES), ..shape };
        let kept = if shape.keep_event { size_of::<EventCopy>() + KEPT } else { 0 };
        States {
            shape,
            slots: Vec::new(),
            kept: Vec::new(),
            index: HashTable::new(),
            recent: Box::new([NONE; RECENT]),
            free: Vec::new(),
            slot_bytes: size_of::<TaskSlot>() + kept + 8,
            capacity: (shape.bound / (size_of::<TaskSlot>() + kept + 8))
                .clamp(1, NONE as usize - 1),
            room: BudgetGrant::new(shape.bound),
            hand: 0,
            spent,
            ended: Box::new(PendingState::EMPTY),
            ended_kept: Box::new(EventCopy::new()),
            owner_lookup: None,
            unsafe_until: f64::NEG_INFINITY,
            losses: PendingLosses::default(),
            starts: 0,
        }
    }

    /// Also looks up the owners of the events it keeps.
    pub fn with_owners(mut self, owners: &Rc<Owners>) -> States {
        let owner_lookup = || CopyOwner::new(owners, &self.ended_kept.slot, None);
        self.owner_lookup = self.shape.keep_event.then(owner_lookup);
        self
    }

    /// Takes its memory from a budget.
    pub fn with_budget(self, budget: &Rc<Budget>) -> States {
        let room = self.room.with_budget(budget);
        States { capacity: 0, room, ..self }
    }

    /// Enters a state. The doubles are the task, the time and the values; bit 1 + i of `kinds` is
    /// set if value i is a string.
    pub fn enter(
        &mut self,
        event: Option<BorrowedEvent<'_>>,
        doubles: &[f64],
        kinds: u32,
    ) -> Moved {
        let [tid, time, values @ ..] = doubles else { return Moved::Done };
        let (tid, time) = (*tid as u32, *time);
        if time <= self.unsafe_until {
            return Moved::Done;
        }
        let mut moved = Moved::Done;
        let index = match self.find(tid) {
            Some(index) => {
                moved = self.end(index, time);
                index
            }
            None => self.new_slot(tid),
        };
        let state = values.get(self.shape.state).map_or(0, |state| *state as i32);
        self.starts += u64::from(state >= 0);
        let Some(slot) = self.slots.get_mut(index) else { return moved };
        slot.values.iter_mut().zip(values).for_each(|(into, value)| *into = *value);
        (slot.state, slot.since, slot.kinds) = (state, time, kinds);
        (slot.stale, slot.rows) = (false, NO_ROWS);
        self.keep(index, event);
        moved
    }

    /// Ends the state of a task, if it has one, and enters none.
    pub fn leave(&mut self, tid: u32, time: f64) -> Moved {
        let Some(index) = self.find(tid) else { return Moved::Done };
        let moved = self.end(index, time);
        self.forget(index);
        moved
    }

    /// Ends a slot's state: adds its time, and stores it for [`States::ended`] if it was longer
    /// than `than`.
    fn end(&mut self, index: usize, time: f64) -> Moved {
        let Some(slot) = self.slots.get_mut(index) else { return Moved::Done };
        if slot.state < 0 {
            return Moved::Done;
        }
        let delay = time - slot.since;
        add(slot, slot.state, delay, &self.shape, &self.spent);
        if delay <= self.shape.than || delay.is_nan() {
            return Moved::Done;
        }
        if let Some(kept) = self.kept.get_mut(index) {
            std::mem::swap(kept, &mut self.ended_kept);
        }
        self.store_ended(index, delay);
        Moved::Longer
    }

    fn keep(&mut self, index: usize, event: Option<BorrowedEvent<'_>>) {
        match (self.kept.get_mut(index), event) {
            (Some(kept), Some(event)) => {
                let owner = self.owner_lookup.as_ref().map(|lookup| lookup.look_up(&event));
                kept.copy(event, owner.unwrap_or_default());
            }
            (Some(kept), None) => kept.slot = EventSlot::NONE,
            (None, _) => {}
        }
    }

    /// Marks a task as renamed: its next state must be entered with all values.
    pub fn rename_task(&mut self, tid: u32) {
        if let Some(slot) = self.find(tid).and_then(|index| self.slots.get_mut(index)) {
            slot.stale = true;
        }
    }

    /// Returns the state that ended last and was longer than `than`. Its address never changes.
    pub fn ended(&self) -> &PendingState {
        &self.ended
    }

    /// Returns how many tasks are known.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether no task is known.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns how many timed states were entered so far: each has ended, is held, or is counted by
    /// [`States::losses`].
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns how many timed states are held.
    pub fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.open && slot.state >= 0).count()
    }

    /// Returns the counts of dropped states.
    pub fn losses(&self) -> PendingLosses {
        self.losses
    }

    /// Marks the strings in use, including those of the state that ended last.
    pub fn mark(&self, marks: &mut Marks) {
        let ended = (&self.ended.values, self.ended.kinds);
        let open = self.slots.iter().filter(|slot| slot.open).map(|s| (&s.values, s.kinds));
        for (values, kinds) in open.chain([ended]) {
            let mut buffer = Word::BUFFER;
            words(&mut buffer, values, kinds >> 1).iter().for_each(|word| marks.mark_word(*word));
        }
    }

    #[inline]
    fn find(&mut self, tid: u32) -> Option<usize> {
        let recent = self.recent.get_mut(tid as usize % RECENT)?;
        let is_it = |slot: &TaskSlot| slot.tid == tid && slot.open;
        if self.slots.get(*recent as usize).is_some_and(is_it) {
            return Some(*recent as usize);
        }
        let at = |index: &u32| self.slots.get(*index as usize).is_some_and(is_it);
        let found = self.index.find(hash(tid), at).copied()?;
        *recent = found;
        Some(found as usize)
    }

    #[cold]
    fn new_slot(&mut self, tid: u32) -> usize {
        if self.free.is_empty() && self.slots.len() >= self.capacity {
            self.room.grow();
            self.capacity = (self.room.bytes() / self.slot_bytes).clamp(1, NONE as usize - 1);
        }
        if self.free.is_empty() && self.slots.len() >= self.capacity {
            self.hand = (self.hand + 1) % self.slots.len();
            let timed = self.slots.get(self.hand).is_some_and(|slot| slot.open && slot.state >= 0);
            self.forget(self.hand);
            self.losses.evicted += u64::from(timed);
        }
        let empty = TaskSlot {
            tid,
            state: -1,
            since: 0.0,
            open: true,
            stale: false,
            kinds: 0,
            epoch: 0,
            rows: NO_ROWS,
            values: [0.0; VALUES],
        };
        let index = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(index as usize) {
            Some(slot) => *slot = empty,
            None => {
                self.slots.push(empty);
                if self.shape.keep_event {
                    self.kept.push(EventCopy::new());
                }
            }
        }
        let slots = &self.slots;
        let hash_of = |index: &u32| hash(slots.get(*index as usize).map_or(0, |slot| slot.tid));
        self.index.insert_unique(hash(tid), index, hash_of);
        index as usize
    }

    fn forget(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.open) else { return };
        slot.open = false;
        let tid = slot.tid;
        if let Ok(entry) = self.index.find_entry(hash(tid), |at| *at as usize == index) {
            entry.remove();
        }
        self.free.push(index as u32);
    }
}

#[inline]
fn hash(tid: u32) -> u64 {
    (u64::from(tid) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Adds the time that a task spent in a state.
#[inline(always)]
fn add(
    slot: &mut TaskSlot,
    state: i32,
    delay: f64,
    shape: &StatesOptions,
    spent: &SharedAggregate<Latency>,
) {
    let Ok(mut spent) = spent.try_borrow_mut() else { return };
    if delay.is_nan() || delay < 0.0 {
        // Counts an invalid latency, and makes no row.
        return spent.add(&[], delay);
    }
    if slot.epoch != spent.epoch() {
        (slot.rows, slot.epoch) = (NO_ROWS, spent.epoch());
    }
    let state_bits = state as u32;
    let place = &mut slot.rows[((state_bits + (state_bits >> 7) * 3) % ROWS as u32) as usize];
    if place.state != state {
        let mut values = slot.values;
        if let Some(value) = values.get_mut(shape.state) {
            *value = f64::from(state);
        }
        let mut buffer = Word::BUFFER;
        let values = values.get(..shape.values).unwrap_or_default();
        let row = spent.row_of(words(&mut buffer, values, slot.kinds >> 1)) as u32;
        // Adding the row may have renumbered the others.
        if slot.epoch != spent.epoch() {
            slot.rows = NO_ROWS;
            slot.epoch = spent.epoch();
        }
        slot.rows[((state_bits + (state_bits >> 7) * 3) % ROWS as u32) as usize] =
            StateRow { state, row };
        return spent.add_at(row as usize, delay);
    }
    spent.add_at(place.row as usize, delay);
}

impl EventLeaf for States {
    fn take_event(&mut self, event: Option<BorrowedEvent<'_>>, doubles: &[f64], flags: u32) -> u32 {
        self.enter(event, doubles, flags) as u32
    }
}

#[cfg(test)]
mod tests;
