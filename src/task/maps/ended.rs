//! What becomes of spaces that have ended: they are remembered until others need the room.
//!
//! Those that nobody has asked for go first: on a machine that starts thousands of programs a second, only those in which
//! chains were taken are worth their room.

use super::Spaces;
use crate::base::frame::Space;

impl Spaces {
    pub(super) fn retire(&mut self, space: Space) {
        let Some(entry) = self.entries.get_mut(&space.0).filter(|entry| !entry.ended) else {
            return;
        };
        entry.ended = true;
        let queue = if entry.asked { &mut self.asked } else { &mut self.unasked };
        queue.push_back(space);
        while self.unasked.len() > self.bounds.grace && self.forget_unasked() {}
        while self.asked.len() > self.bounds.ended && self.forget_asked() {}
    }

    /// Forgets the space that ended first, those that nobody asked for before all others.
    pub(super) fn forget_oldest(&mut self) -> bool {
        self.forget_unasked() || self.forget_asked()
    }

    fn forget_unasked(&mut self) -> bool {
        while let Some(space) = self.unasked.pop_front() {
            // Asked for after its end.
            if self.entries.get(&space.0).is_some_and(|entry| entry.asked) {
                self.asked.push_back(space);
                continue;
            }
            self.forget(space);
            return true;
        }
        false
    }

    fn forget_asked(&mut self) -> bool {
        let Some(space) = self.asked.pop_front() else { return false };
        self.forgotten += 1;
        self.forget(space);
        true
    }

    fn forget(&mut self, space: Space) {
        let Some(entry) = self.entries.remove(&space.0) else { return };
        if self.current.get(&entry.pid).is_some_and(|current| current.space == space) {
            self.current.remove(&entry.pid);
        }
    }

    pub(super) fn make_room(&mut self) {
        while self.total.get() >= self.bounds.mappings && self.forget_oldest() {}
    }
}
