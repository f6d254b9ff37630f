//! What Lua reads of slots: copies of plain fields at addresses that never change.

use super::{Pending, State, state::mark_values};
use crate::{
    base::slot::Slot,
    stat::{
        strings::Marks,
        word::{Part, Word},
    },
};

/// Where a slot is copied to.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Closed,
    Read,
}

impl Pending {
    /// What the last [`Pending::close`] found. Its address never changes.
    pub fn closed(&self) -> &State {
        &self.closed
    }

    /// What the last [`Pending::get`] or [`Pending::next`] found. Its address never changes.
    pub fn read(&self) -> &State {
        &self.read
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

    /// Copies an open slot field by field: a copy of a whole struct would wait for its stores.
    #[inline]
    pub(super) fn copy(&mut self, index: u32, target: Target) -> bool {
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
        into.unsure = u32::from(slot.time <= self.unsure_until);
        let start = index as usize * self.shape.values;
        let values = self.values.get(start..start + self.shape.values).unwrap_or_default();
        into.values.iter_mut().zip(values).for_each(|(into, value)| *into = *value);
        true
    }

    pub(super) fn read_at(&mut self, index: u32) -> bool {
        if !self.copy(index, Target::Read) {
            return false;
        }
        self.recall_to_read(index);
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
    pub(super) fn forget_read(&mut self, index: u32) {
        if self.read.index == index {
            self.read.event = std::ptr::null();
            *self.read_slot = Slot::NONE;
        }
    }
}
