//! Keeps spaces that have ended until newer ones need the room.
//!
//! Spaces that were never looked up are dropped first: on a machine that starts thousands of
//! programs per second, only spaces with chains are worth keeping.

use super::Spaces;
use crate::base::report::frame::Space;

impl Spaces {
    pub(super) fn retire(&mut self, space: Space) {
        let Some(entry) = self.entries.get_mut(&space.0).filter(|entry| !entry.ended) else {
            return;
        };
        entry.ended = true;
        let queue = if entry.queried { &mut self.queried } else { &mut self.unqueried };
        queue.push_back(space);
        while self.unqueried.len() > self.bounds.grace && self.forget_unqueried() {}
        while self.queried.len() > self.bounds.ended && self.forget_queried() {}
    }

    /// Drops the space that ended first; spaces that were never looked up are dropped before all
    /// others.
    pub(super) fn forget_oldest(&mut self) -> bool {
        self.forget_unqueried() || self.forget_queried()
    }

    fn forget_unqueried(&mut self) -> bool {
        while let Some(space) = self.unqueried.pop_front() {
            // It was looked up after its end.
            if self.entries.get(&space.0).is_some_and(|entry| entry.queried) {
                self.queried.push_back(space);
                continue;
            }
            self.forget(space);
            return true;
        }
        false
    }

    fn forget_queried(&mut self) -> bool {
        let Some(space) = self.queried.pop_front() else { return false };
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
