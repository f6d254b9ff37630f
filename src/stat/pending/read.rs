//! Slots as Lua reads them: copies of plain fields at addresses that never change.

use super::{Pending, PendingState, state::mark_values};
use crate::{
    base::event::slot::Slot,
    stat::{
        strings::Marks,
        word::{Word, WordContent},
    },
};

/// The destination of a copied slot.
#[derive(Clone, Copy)]
pub(super) enum CopyTarget {
    Closed,
    Read,
}

impl Pending {
    /// Returns what the last [`Pending::close`] found. Its address never changes.
    pub fn closed(&self) -> &PendingState {
        &self.closed
    }

    /// Returns what the last [`Pending::get`] or [`Pending::next`] found. Its address never
    /// changes.
    pub fn read(&self) -> &PendingState {
        &self.read
    }

    /// Marks the strings in use, including those of the slots closed or read last.
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

    /// Copies an open slot field by field: copying the whole struct would wait for its stores.
    #[inline]
    pub(super) fn copy(&mut self, index: u32, target: CopyTarget) -> bool {
        let into = match target {
            CopyTarget::Closed => &mut *self.closed,
            CopyTarget::Read => &mut *self.read,
        };
        let Some(slot) = self.slots.get(index as usize).filter(|slot| slot.open) else {
            return false;
        };
        into.time = slot.time;
        into.key = match slot.key.part() {
            WordContent::Number(key) => key,
            WordContent::String(id) => f64::from(id),
        };
        (into.kinds, into.index, into.generation) = (slot.kinds, index, slot.generation);
        into.unsure = u32::from(slot.time <= self.unsure_until);
        let start = index as usize * self.shape.values;
        let values = self.values.get(start..start + self.shape.values).unwrap_or_default();
        into.values.iter_mut().zip(values).for_each(|(into, value)| *into = *value);
        true
    }

    pub(super) fn read_at(&mut self, index: u32) -> bool {
        if !self.copy(index, CopyTarget::Read) {
            return false;
        }
        self.recall_to_read(index);
        if let Some(kept) = self.kept.get(index as usize) {
            *self.read_slot = kept.slot;
            self.read.event = &raw const *self.read_slot;
            if let Some(place) = self.owner_lookup.as_ref().and_then(|lookup| lookup.read.as_ref())
            {
                place.owner.set(kept.owner);
            }
        }
        true
    }

    /// Clears the event that was read last if it belongs to this slot.
    #[inline]
    pub(super) fn forget_read(&mut self, index: u32) {
        if self.read.index == index {
            self.read.event = std::ptr::null();
            *self.read_slot = Slot::NONE;
        }
    }
}
