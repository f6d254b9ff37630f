//! The space of a process at a time: for chains that the kernel has counted, which are read some
//! time after their events.

use super::{MappingOrigin, Spaces};
use crate::base::report::frame::Space;

/// Maximum number of earlier spaces of a process that are visited.
const EARLIER_MAX: usize = 1024;

impl Spaces {
    /// Sets the time of the records that are handled next (`CLOCK_MONOTONIC`).
    pub fn set_time(&mut self, at_ns: u64) {
        self.now_ns = at_ns;
    }

    /// Sets whether chains are looked up some time after their events: then a process gets a new
    /// space whenever other code replaces mapped code, also before its space is first looked up.
    pub fn set_late_lookups(&mut self, is_late: bool) {
        self.is_late = is_late;
    }

    /// Returns whether a space has chains, or may have some that are not looked up yet.
    pub fn may_have_chains(&self, space: Space) -> bool {
        self.is_late || self.was_queried(space)
    }

    /// Returns the space in which a process was at a time, if that is not the current one:
    /// [`Space::UNKNOWN`] for one that is not known.
    pub fn earlier_space_of(&self, pid: u32, at_ns: u64) -> Option<Space> {
        let mut spaces = self.spaces_until(pid, at_ns);
        let current = spaces.next()?;
        let last = spaces.last().unwrap_or(current);
        let entry = self.entries.get(&last.0)?;
        // The program before an exec whose mappings were never read, or one too far back.
        let is_unread = entry.origin == MappingOrigin::Complete || entry.previous.is_some();
        if entry.begun_ns > at_ns && is_unread {
            return Some(Space::UNKNOWN);
        }
        (last != current).then_some(last)
    }

    /// Returns whether a space that a process entered after this one has other code at all of these
    /// addresses, so that a chain of them may belong to either.
    pub fn may_be_of_later(&self, pid: u32, space: Space, addresses: &[u64]) -> bool {
        let later = self.spaces_until(pid, 0).take_while(|later| *later != space);
        later.into_iter().any(|later| {
            let code = |space, address| {
                let mapping = self.find(space, address)?;
                Some((mapping.file.clone(), mapping.file_offset(address)))
            };
            let mut is_other = false;
            let all = addresses.iter().all(|address| {
                let now = code(later, *address);
                let then = code(space, *address);
                is_other |= now != then;
                // An address that neither has, as of a wrong frame pointer, decides nothing.
                now.is_some() || then.is_none()
            });
            all && is_other
        })
    }

    /// Reads what records do not contain of an earlier space. Returns whether it was not looked up
    /// before.
    pub fn look_up(&mut self, space: Space) -> bool {
        let Some(entry) = self.entries.get_mut(&space.0).filter(|entry| !entry.queried) else {
            return false;
        };
        entry.queried = true;
        self.complete(space);
        true
    }

    /// Returns the spaces of a process, the current one first, down to the one at a time.
    fn spaces_until(&self, pid: u32, at_ns: u64) -> impl Iterator<Item = Space> + '_ {
        let current = self.current.get(&pid).map(|current| current.space);
        let earlier = move |space: &Space| {
            let entry = self.entries.get(&space.0).filter(|entry| entry.begun_ns > at_ns)?;
            entry.previous.filter(|previous| self.entries.contains_key(&previous.0))
        };
        std::iter::successors(current, earlier).take(EARLIER_MAX)
    }
}
