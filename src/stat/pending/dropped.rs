//! Slots that go without their end: events were lost, or their task has ended.

use super::Pending;
use crate::stat::word::{Word, hash};

impl Pending {
    /// Drops everything opened at or before `time`: events were lost until then. What begins by then is not opened.
    pub fn drop_before(&mut self, time: f64) {
        if self.shape.keep_lost {
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

    /// Drops the slot of a task that ended, when the keys are tasks.
    pub fn drop_task(&mut self, tid: u32) {
        if !self.shape.by_task {
            return;
        }
        let key = Word::number(f64::from(tid));
        if let Some(index) = self.find(hash(&[key]), key) {
            self.remove(index);
            self.losses.exited += 1;
        }
    }
}
