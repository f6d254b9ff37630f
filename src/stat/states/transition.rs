//! Moves of a task to another state with the same other values, which most events cause.

use super::{BorrowedEvent, Moved, States, add};

impl States {
    /// Enters another state with the same other values. If `mask` is not 0, moves the task only
    /// from a state that shares a bit with it, of a state that is not timed with its absolute
    /// value; does nothing for any other task, unknown ones included.
    #[inline]
    pub fn move_to(
        &mut self,
        event: Option<BorrowedEvent<'_>>,
        tid: u32,
        time: f64,
        mask: u32,
        state: i32,
    ) -> Moved {
        let Some(index) = self.find(tid) else {
            return if mask == 0 { Moved::Unknown } else { Moved::Done };
        };
        if mask == 0 {
            return self.move_known(event, index, time, state);
        }
        let before = self.slots.get(index).map_or(0, |slot| slot.state);
        if before.unsigned_abs() & mask == 0 {
            return Moved::Done;
        }
        self.move_slot(event, index, time, state)
    }

    /// Moves a slot, unless its task must be entered again.
    #[inline]
    pub(super) fn move_known(
        &mut self,
        event: Option<BorrowedEvent<'_>>,
        index: usize,
        time: f64,
        state: i32,
    ) -> Moved {
        if self.slots.get(index).is_none_or(|slot| slot.stale) {
            return Moved::Unknown;
        }
        self.move_slot(event, index, time, state)
    }

    #[inline]
    fn move_slot(
        &mut self,
        event: Option<BorrowedEvent<'_>>,
        index: usize,
        time: f64,
        state: i32,
    ) -> Moved {
        self.starts += u64::from(state >= 0);
        let Some(slot) = self.slots.get_mut(index) else { return Moved::Unknown };
        let (before, delay) = (slot.state, time - slot.since);
        if self.shape.keep_event || delay > self.shape.than {
            return self.move_slowly(event, index, time, state);
        }
        (slot.state, slot.since) = (state, time);
        if before >= 0 {
            add(slot, before, delay, &self.shape, &self.spent);
        }
        Moved::Done
    }

    /// Moves a slot on the slow path: the ended state must be readable, or the event kept.
    #[cold]
    #[inline(never)]
    fn move_slowly(
        &mut self,
        event: Option<BorrowedEvent<'_>>,
        index: usize,
        time: f64,
        state: i32,
    ) -> Moved {
        let moved = self.end(index, time);
        if let Some(slot) = self.slots.get_mut(index) {
            (slot.state, slot.since) = (state, time);
        }
        self.keep(index, event);
        moved
    }
}
