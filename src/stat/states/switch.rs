//! A switch: two tasks change their states at the same time, in one call.
//!
//! The task that gives up a CPU was running, and the task that gets it was not. If that does not
//! hold, an event in between is missing (some kernels omit switches from a task and do not count
//! them as lost), so the end of the previous state is unknown. Its time is not added to any row,
//! and it counts as unmatched.

use super::{BorrowedEvent, Moved, States};

/// The task that gave up its CPU is unknown and must be entered.
pub const PREV_UNKNOWN: u32 = 1;
/// The task that got the CPU is unknown and must be entered.
pub const NEXT_UNKNOWN: u32 = 2;
/// The ended state of the former was longer than `than`.
pub const PREV_LONGER: u32 = 4;
/// The ended state of the latter was longer than `than`.
pub const NEXT_LONGER: u32 = 8;

impl States {
    /// Switches a CPU between two tasks: `prev` enters `state`, then `next` enters state 0. Task 0
    /// means no task. Returns the sum of [`PREV_UNKNOWN`], [`NEXT_UNKNOWN`] and [`NEXT_LONGER`], or
    /// [`PREV_LONGER`] alone, in which case `next` has not been moved yet.
    #[inline]
    pub fn switch(
        &mut self,
        event: Option<BorrowedEvent<'_>>,
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
    fn step(&mut self, event: Option<BorrowedEvent<'_>>, tid: u32, time: f64, state: i32) -> Moved {
        let Some(index) = self.find(tid) else { return Moved::Unknown };
        let slot = self.slots.get_mut(index);
        if let Some(slot) = slot.filter(|s| s.state >= 0 && (s.state != 0) == (state != 0)) {
            slot.state = -1;
            self.losses.unmatched += 1;
        }
        self.move_known(event, index, time, state)
    }
}
