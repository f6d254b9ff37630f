//! Ends spaces with their processes, and keeps them until newer ones need the room.
//!
//! Spaces that were never looked up are dropped first: on a machine that starts thousands of
//! programs per second, only spaces with chains are worth keeping.

use super::{MappingOrigin, Spaces};
use crate::base::report::frame::Space;

impl Spaces {
    /// Handles the EXIT record of a thread. The last one ends the space, which is kept for late
    /// events. `others` returns the further threads of the process that have not ended; it is
    /// called at the end of the first thread, which the others nearly always precede. Returns the
    /// space if it ended.
    pub fn on_exit(
        &mut self,
        pid: u32,
        tid: u32,
        at_ns: u64,
        others: impl FnOnce() -> Vec<u32>,
    ) -> Option<Space> {
        let space = self.known_space_of(pid)?;
        let entry = self.entries.get_mut(&space.0).filter(|entry| !entry.ended)?;
        match &mut entry.remaining {
            Some(remaining) => remaining.retain(|other| *other != tid),
            None if pid == tid => entry.remaining = Some(others()),
            None => {}
        }
        if entry.remaining.as_ref().is_none_or(|remaining| !remaining.is_empty()) {
            return None;
        }
        self.end(pid, at_ns);
        Some(space)
    }

    /// Adds a thread that another one than the first started.
    pub(super) fn add_remaining(&mut self, pid: u32, tid: u32) {
        if let Some(space) = self.known_space_of(pid)
            && let Some(entry) = self.entries.get_mut(&space.0)
            && let Some(remaining) = &mut entry.remaining
            && !remaining.contains(&tid)
        {
            remaining.push(tid);
        }
    }

    pub(super) fn end(&mut self, pid: u32, at_ns: u64) {
        let Some(space) = self.current.get(&pid).map(|current| current.space) else { return };
        if let Some(entry) = self.entries.get_mut(&space.0)
            && matches!(entry.origin, MappingOrigin::Read { at_ns: read } if read > at_ns)
        {
            // The mappings that were read belong to a later program or process.
            entry.list.retain_recorded();
        }
        self.retire(space);
    }

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
