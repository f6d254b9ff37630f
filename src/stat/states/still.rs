//! A state that can be read: one that ended, or one that is still held when somebody asks, at the end of an interval.

use super::States;

impl States {
    /// Makes the first timed state from slot `index` on, held at `now`, the one that [`States::ended`] gives, however long it
    /// is. Returns the index to go on with, or 0 when there is none. Nothing else changes: no time is added.
    pub fn still(&mut self, index: u32, now: f64) -> u32 {
        let slots = self.slots.get(index as usize..).unwrap_or_default();
        let held = slots.iter().position(|s| s.open && s.state >= 0 && s.since <= now);
        let Some(at) = held.map(|after| after + index as usize) else { return 0 };
        if let Some(kept) = self.kept.get(at) {
            self.ended_kept.copy_again(kept);
        }
        self.tell(at, self.slots.get(at).map_or(0.0, |slot| now - slot.since));
        at as u32 + 1
    }

    /// Makes a slot's state the one that can be read; its event is `ended_kept`.
    pub(super) fn tell(&mut self, index: usize, delay: f64) {
        let Some(slot) = self.slots.get(index) else { return };
        let ended = &mut *self.ended;
        (ended.time, ended.delay, ended.key) = (slot.since, delay, f64::from(slot.tid));
        (ended.values, ended.kinds) = (slot.values, slot.kinds);
        if let Some(value) = ended.values.get_mut(self.shape.state) {
            *value = f64::from(slot.state);
        }
        if self.shape.keep_event {
            ended.event = &raw const self.ended_kept.slot;
            let whose = self.ended_kept.whose;
            self.kinship.iter().for_each(|kinship| kinship.ended.whose.set(whose));
        }
    }
}
