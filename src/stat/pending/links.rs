//! The opening order of the slots, as a doubly linked list.

use super::{NONE, Pending, PendingSlot};

impl Pending {
    /// Appends a slot as the newest.
    #[inline]
    pub(super) fn link(&mut self, index: u32) {
        let newest = std::mem::replace(&mut self.newest, index);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            (slot.older, slot.newer) = (newest, NONE);
        }
        match self.slots.get_mut(newest as usize) {
            Some(slot) => slot.newer = index,
            None => self.oldest = index,
        }
        if self.fresh == NONE {
            self.fresh = index;
        }
    }

    #[inline]
    pub(super) fn unlink(&mut self, index: u32) {
        let Some(&PendingSlot { older, newer, .. }) = self.slots.get(index as usize) else {
            return;
        };
        if self.fresh == index {
            self.fresh = newer;
        }
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }
}
