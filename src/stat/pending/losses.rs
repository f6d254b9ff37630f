//! Slots that are dropped without an end: lost events, an ended task, no room, or age.

use super::{NONE, Pending, PendingLosses};
use crate::stat::{
    event_copy::EventCopy,
    word::{Word, hash},
};

impl Pending {
    /// Drops everything opened at or before `time`, because events were lost until then. A slot
    /// that begins by then is not opened. With [`keep_lost`](super::PendingOptions::keep_lost)
    /// nothing is dropped, and slots that began by then are marked as unsure.
    pub fn drop_before(&mut self, time: f64) {
        if self.shape.keep_lost {
            self.unsure_until = self.unsure_until.max(time);
            return;
        }
        self.unsafe_until = self.unsafe_until.max(time);
        if self.is_empty() {
            return;
        }
        for index in 0..self.slots.len() as u32 {
            if self.slots.get(index as usize).is_some_and(|slot| slot.open && slot.time <= time) {
                self.remove(index);
                self.losses.unsafe_ += 1;
            }
        }
    }

    /// Drops the slot of a task that ended if the keys are tasks.
    pub fn drop_task(&mut self, tid: u32) {
        if !self.shape.by_task {
            return;
        }
        let key = Word::number(f64::from(tid));
        while let Some(index) = self.find(hash(&[key]), key) {
            self.remove(index);
            self.losses.exited += 1;
        }
    }

    /// Drops the slot of a key whose end was missed, and counts it as unmatched.
    pub fn miss(&mut self, key: Word) {
        if let Some(index) = self.find(hash(&[key]), key) {
            self.remove(index);
            self.losses.unmatched += 1;
        }
    }

    /// Returns the counts of dropped slots.
    pub fn losses(&self) -> PendingLosses {
        self.losses
    }

    #[inline]
    pub(super) fn is_too_old(&self, index: u32, now: f64) -> bool {
        self.slots.get(index as usize).is_some_and(|slot| now - slot.time > self.shape.age)
    }

    /// Evicts the oldest slots, but not `except`, while the event copies take too many bytes.
    #[inline]
    pub(super) fn evict_for_bytes(&mut self, except: u32) {
        while self.kept_bytes > self.kept_room.bytes() {
            if self.kept_room.grow() {
                continue;
            }
            if self.oldest == except || self.oldest == NONE {
                return;
            }
            self.evict_oldest();
        }
    }

    #[cold]
    pub(super) fn evict_oldest(&mut self) {
        if self.oldest != NONE {
            let index = self.oldest;
            self.remove(index);
            self.losses.evicted += 1;
            if let Some(kept) = self.kept.get_mut(index as usize) {
                self.kept_bytes = self.kept_bytes.saturating_sub(kept.bytes());
                *kept = EventCopy::new();
            }
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        let Some(key) = self.slots.get(index as usize).map(|slot| slot.key) else { return };
        if self.shape.nested {
            self.unnest(index, key);
        } else if let Ok(entry) = self.index.find_entry(hash(&[key]), |&i| i == index) {
            entry.remove();
        }
        self.release(index);
    }

    /// Frees a slot that is no longer in the index.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        self.forget_read(index);
        self.unlink(index);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.open = false;
            slot.newer = self.free;
            self.free = index;
        }
    }
}
