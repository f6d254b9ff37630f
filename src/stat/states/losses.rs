//! States that end without an event: the task ended, its thread id was reused, or events were lost.

use super::States;

impl States {
    /// Drops everything known of the previous task with this thread id, which a new task has now.
    pub fn forget_task(&mut self, tid: u32) {
        if let Some(index) = self.find(tid) {
            self.losses.exited += u64::from(self.slots.get(index).is_some_and(|s| s.state >= 0));
            self.forget(index);
        }
    }

    /// Drops the state of a task that ended, unless it is running. A timed state is counted.
    pub fn drop_task(&mut self, tid: u32) {
        let Some(index) = self.find(tid) else { return };
        let state = self.slots.get(index).map_or(0, |slot| slot.state);
        if state != 0 {
            self.forget(index);
            self.losses.exited += u64::from(state > 0);
        }
    }

    /// Drops everything entered at or before `time`, because events were lost until then. A state
    /// that begins by then is not entered.
    pub fn drop_before(&mut self, time: f64) {
        self.unsafe_until = self.unsafe_until.max(time);
        for index in 0..self.slots.len() {
            let slot = self.slots.get(index).filter(|slot| slot.open && slot.since <= time);
            if let Some(state) = slot.map(|slot| slot.state) {
                self.forget(index);
                self.losses.unsafe_ += u64::from(state >= 0);
            }
        }
    }
}
