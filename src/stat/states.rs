//! One state at a time for each task, and how long each was held: what a task does between two switches.
//!
//! Entering a state ends the one before, whose time is added to a table of latencies under the values that the
//! state was entered with. Most of these (a name) are the same from one state to the next, so a task that is known
//! only *moves*: nobody has to read its name out of each event, and its rows in the table are remembered. A
//! task that was renamed is known no more.
//!
//! A state below 0 is not timed: what a task does while nobody is interested. State 0 is running. A task that ends is
//! still running, and is switched out once more: so its state stays until it is left. In any other timed state it cannot
//! have ended, which is dropped and counted. Lost events may have been moves: what was entered before must be
//! dropped ([`States::drop_before`]). When the table is full some task is forgotten.

use super::{
    budget::{Budget, Room},
    kept::{Kept, Kinship, Owners},
    latency::Latency,
    leaf::{Event, EventLeaf, Shared},
    pending::{Losses, State, VALUES},
    strings::Marks,
    word::{Word, words},
};
use crate::base::slot::Slot as EventSlot;
use hashbrown::HashTable;
use std::rc::Rc;

/// What a table of states is made for.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many values a state has, itself included; they are the key of the table of latencies.
    pub values: usize,
    /// Which one is the state itself.
    pub state: usize,
    /// A state that was held longer than these nanoseconds is worth a word.
    pub than: f64,
    /// Whether the events are copied that began the states.
    pub keep_event: bool,
    /// Bytes it may take.
    pub bound: usize,
}

/// Current states by task.
pub struct States {
    shape: Shape,
    slots: Vec<Slot>,
    kept: Vec<Kept>,
    index: HashTable<u32>,
    /// Where a task was found last, by its number: most are asked for again soon.
    recent: Box<[u32; RECENT]>,
    free: Vec<u32>,
    /// Bytes of a slot, and how many there is room for.
    slot_bytes: usize,
    capacity: usize,
    room: Room,
    /// The slot that is forgotten next when there is no room.
    hand: usize,
    spent: Shared<Latency>,
    ended: Box<State>,
    ended_kept: Box<Kept>,
    kinship: Option<Kinship>,
    /// Up to here events were lost: what begins by then is not entered.
    unsafe_until: f64,
    losses: Losses,
    /// Timed states entered so far.
    starts: u64,
}

/// One task.
#[derive(Clone, Copy)]
struct Slot {
    tid: u32,
    state: i32,
    since: f64,
    open: bool,
    /// Its values are of the past.
    stale: bool,
    kinds: u32,
    /// The rows of the table that it has used are good in this epoch.
    epoch: u32,
    rows: [Row; ROWS],
    values: [f64; VALUES],
}

/// A state's row in the table of latencies.
#[derive(Clone, Copy)]
struct Row {
    state: i32,
    row: u32,
}

/// What became of a move or an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Nowhere: nothing is known of the task, it has to be entered with all of its values.
    Unknown = 0,
    /// It is where it should be.
    Done = 1,
    /// It is, and was longer than `than` in the state before: [`States::ended`] is that.
    Longer = 2,
}

const NONE: u32 = u32::MAX;
const RECENT: usize = 1024;
/// Bytes of a kept event: a record and a deep call chain.
const KEPT: usize = 1024;
/// Rows that a task remembers: more than the states that tasks are in.
const ROWS: usize = 8;
const NO_ROWS: [Row; ROWS] = [Row { state: -1, row: 0 }; ROWS];

impl States {
    /// No states yet; `spent` gets their times.
    pub fn new(shape: Shape, spent: Shared<Latency>) -> States {
        let shape = Shape { values: shape.values.min(VALUES), ..shape };
        let kept = if shape.keep_event { size_of::<Kept>() + KEPT } else { 0 };
        States {
            shape,
            slots: Vec::new(),
            kept: Vec::new(),
            index: HashTable::new(),
            recent: Box::new([NONE; RECENT]),
            free: Vec::new(),
            slot_bytes: size_of::<Slot>() + kept + 8,
            capacity: (shape.bound / (size_of::<Slot>() + kept + 8)).clamp(1, NONE as usize - 1),
            room: Room::new(shape.bound),
            hand: 0,
            spent,
            ended: Box::new(State::EMPTY),
            ended_kept: Box::new(Kept::new()),
            kinship: None,
            unsafe_until: f64::NEG_INFINITY,
            losses: Losses::default(),
            starts: 0,
        }
    }

    /// The same, which asks whose the events are that it keeps.
    pub fn asking(mut self, owners: &Rc<Owners>) -> States {
        let kinship = || Kinship::new(owners, &self.ended_kept.slot, None);
        self.kinship = self.shape.keep_event.then(kinship);
        self
    }

    /// The same, whose bytes are of a budget.
    pub fn within(self, budget: &Rc<Budget>) -> States {
        let room = self.room.within(budget);
        States { capacity: 0, room, ..self }
    }

    /// Enters a state: doubles are the task, the time and the values; bit 1 + i of `kinds` says that value i is a string.
    pub fn enter(&mut self, event: Option<Event<'_>>, doubles: &[f64], kinds: u32) -> Moved {
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

    /// Leaves the state of a task, if there is one, and enters none.
    pub fn leave(&mut self, tid: u32, time: f64) -> Moved {
        let Some(index) = self.find(tid) else { return Moved::Done };
        let moved = self.end(index, time);
        self.forget(index);
        moved
    }

    /// Adds the time of a slot's state, and makes it the one that ended last.
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
        self.tell(index, delay);
        Moved::Longer
    }

    fn keep(&mut self, index: usize, event: Option<Event<'_>>) {
        match (self.kept.get_mut(index), event) {
            (Some(kept), Some(event)) => kept.copy(event, self.kinship.as_ref()),
            (Some(kept), None) => kept.slot = EventSlot::NONE,
            (None, _) => {}
        }
    }

    /// A task has another name: with its next state it is entered anew.
    pub fn rename_task(&mut self, tid: u32) {
        if let Some(slot) = self.find(tid).and_then(|index| self.slots.get_mut(index)) {
            slot.stale = true;
        }
    }

    /// The state that ended last and was longer than `than`. Its address never changes.
    pub fn ended(&self) -> &State {
        &self.ended
    }

    /// How many tasks are known.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// How many timed states were entered so far: each has ended, is held, or is one of
    /// [`States::losses`].
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// How many timed states are held.
    pub fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.open && slot.state >= 0).count()
    }

    /// What was dropped.
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Marks the strings in use, also those of what ended last.
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
        let is_it = |slot: &Slot| slot.tid == tid && slot.open;
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
        let empty = Slot {
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
                    self.kept.push(Kept::new());
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

/// Adds the time that a task was in a state.
#[inline(always)]
fn add(slot: &mut Slot, state: i32, delay: f64, shape: &Shape, spent: &Shared<Latency>) {
    let Ok(mut spent) = spent.try_borrow_mut() else { return };
    if delay.is_nan() || delay < 0.0 {
        // It counts what is no latency, and makes no row.
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
        // Making it may have moved the others.
        if slot.epoch != spent.epoch() {
            slot.rows = NO_ROWS;
            slot.epoch = spent.epoch();
        }
        slot.rows[((state_bits + (state_bits >> 7) * 3) % ROWS as u32) as usize] =
            Row { state, row };
        return spent.add_at(row as usize, delay);
    }
    spent.add_at(place.row as usize, delay);
}

impl EventLeaf for States {
    fn take_event(&mut self, event: Option<Event<'_>>, doubles: &[f64], flags: u32) -> u32 {
        self.enter(event, doubles, flags) as u32
    }
}

mod dropped;
mod moves;
mod still;
pub mod switch;
#[cfg(test)]
mod tests;
