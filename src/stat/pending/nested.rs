//! Nested calls: the slots of a key form a stack, and the table's index holds the innermost.

use super::{NONE, Pending};
use crate::stat::word::{Word, hash};

/// Maximum nesting depth. Deeper calls are counted and not followed.
const DEPTH: u16 = 64;

impl Pending {
    /// Returns a new slot inside the innermost one of its key; None if the nesting is too deep.
    #[cold]
    #[inline(never)]
    pub(super) fn inside(&mut self, hash: u64, key: Word, outer: u32) -> Option<u32> {
        let slot = self.slots.get_mut(outer as usize)?;
        let depth = slot.depth + 1;
        if depth >= DEPTH {
            slot.deeper = slot.deeper.saturating_add(1);
            self.losses.evicted += 1;
            return None;
        }
        // Making room may evict the outer slot.
        let index = self.free_slot();
        let slots = &self.slots;
        let is_at = |&i: &u32| super::is_at(slots, i, key);
        match self.index.find_mut(hash, is_at) {
            Some(innermost) => {
                let below = std::mem::replace(innermost, index);
                if let Some(slot) = self.slots.get_mut(index as usize) {
                    (slot.below, slot.depth) = (below, depth);
                }
            }
            None => self.list(hash, index),
        }
        Some(index)
    }

    /// Closes the innermost slot of a key whose first value is `call`, and returns whether there
    /// was one; [`Pending::closed`] then holds it. Calls end from the inside out, so slots that are
    /// still open inside it never returned: they are dropped and counted as unmatched. If there is
    /// no such slot, all of them were inside a call that began before tracing.
    pub fn close_call(&mut self, key: Word, time: f64, call: f64) -> bool {
        while let Some(index) = self.find(hash(&[key]), key) {
            let first = self.values.get(index as usize * self.shape.values).copied();
            let Some(slot) = self.slots.get_mut(index as usize) else { return false };
            if slot.deeper > 0 {
                slot.deeper -= 1;
                return false;
            }
            if first == Some(call) {
                return self.close(key, time);
            }
            self.remove(index);
            self.losses.unmatched += 1;
        }
        false
    }

    /// Removes a slot from any position of its stack.
    pub(super) fn unnest(&mut self, index: u32, key: Word) {
        let below = self.slots.get(index as usize).map_or(NONE, |slot| slot.below);
        let slots = &self.slots;
        let found = self.index.find_entry(hash(&[key]), |&i| super::is_at(slots, i, key));
        let Ok(entry) = found else { return };
        let mut above = *entry.get();
        if above == index {
            match below {
                NONE => drop(entry.remove()),
                below => *entry.into_mut() = below,
            }
            return;
        }
        for _ in 0..DEPTH {
            match self.slots.get_mut(above as usize) {
                Some(slot) if slot.below == index => {
                    slot.below = below;
                    return;
                }
                Some(slot) => above = slot.below,
                None => return,
            }
        }
    }
}
