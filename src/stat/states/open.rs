//! Readable states: the one that ended last, or one that is still held at the end of an interval.

use super::States;

impl States {
    /// Stores the first timed state from slot `index` on that is held at `now` for
    /// [`States::ended`], whatever its length. Returns the index to continue with, or 0 if there is
    /// none. Changes nothing else: no time is added.
    pub fn still(&mut self, index: u32, now: f64) -> u32 {
        let slots = self.slots.get(index as usize..).unwrap_or_default();
        let held = slots.iter().position(|s| s.open && s.state >= 0 && s.since <= now);
        let Some(at) = held.map(|after| after + index as usize) else { return 0 };
        if let Some(kept) = self.kept.get(at) {
            self.ended_kept.copy_again(kept);
        }
        self.store_ended(at, self.slots.get(at).map_or(0.0, |slot| now - slot.since));
        at as u32 + 1
    }

    /// Stores a slot's state for [`States::ended`]; its event is `ended_kept`.
    pub(super) fn store_ended(&mut self, index: usize, delay: f64) {
        let Some(slot) = self.slots.get(index) else { return };
        let ended = &mut *self.ended;
        (ended.time, ended.delay, ended.key) = (slot.since, delay, f64::from(slot.tid));
        (ended.values, ended.kinds) = (slot.values, slot.kinds);
        if let Some(value) = ended.values.get_mut(self.shape.state) {
            *value = f64::from(slot.state);
        }
        if self.shape.keep_event {
            ended.event = &raw const self.ended_kept.slot;
            let owner = self.ended_kept.owner;
            self.owner_lookup.iter().for_each(|owner_lookup| owner_lookup.ended.owner.set(owner));
        }
    }
}
