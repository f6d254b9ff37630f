//! A switch: two tasks whose states change at the same time, in one call.
//!
//! Who gives a CPU away was running, and who gets one was not. Where that is not so, the event between is missing (kernels were
//! seen to leave out the switches from a task, and not to count them): nobody knows when the state before ended. It is no
//! row's time then, and counts as unmatched.

use super::{Event, Moved, States};

/// Nothing is known of the task that gave its CPU away: it has to be entered.
pub const PREV_UNKNOWN: u32 = 1;
/// Nothing is known of the one that got it.
pub const NEXT_UNKNOWN: u32 = 2;
/// The state of the former was longer than `than`.
pub const PREV_LONGER: u32 = 4;
/// That of the latter.
pub const NEXT_LONGER: u32 = 8;

impl States {
    /// One task gives its CPU to another: `prev` enters `state`, then `next` state 0. Task 0 is nobody. Gives the sum of
    /// [`PREV_UNKNOWN`], [`NEXT_UNKNOWN`], [`NEXT_LONGER`], or [`PREV_LONGER`] alone: then `next` is still to be moved.
    #[inline]
    pub fn switch(
        &mut self,
        event: Option<Event<'_>>,
        prev: u32,
        next: u32,
        time: f64,
        state: i32,
    ) -> u32 {
        let mut became = 0;
        if prev != 0 {
            match self.step(event, prev, time, state) {
                Moved::Done => {}
                Moved::Unknown => became = PREV_UNKNOWN,
                Moved::Longer => return PREV_LONGER,
            }
        }
        if next != 0 {
            match self.step(event, next, time, 0) {
                Moved::Done => {}
                Moved::Unknown => became |= NEXT_UNKNOWN,
                Moved::Longer => became |= NEXT_LONGER,
            }
        }
        became
    }

    #[inline]
    fn step(&mut self, event: Option<Event<'_>>, tid: u32, time: f64, state: i32) -> Moved {
        let Some(index) = self.find(tid) else { return Moved::Unknown };
        let slot = self.slots.get_mut(index);
        if let Some(slot) = slot.filter(|s| s.state >= 0 && (s.state > 0) == (state > 0)) {
            slot.state = -1;
            self.losses.unmatched += 1;
        }
        self.move_known(event, index, time, state)
    }
}
