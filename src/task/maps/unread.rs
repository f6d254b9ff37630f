//! Reads the mappings that records do not contain, when a space is first looked up.

use super::{GENERATIONS, Identity, Mapping, MappingOrigin, Spaces, is_process};
use crate::base::report::frame::Space;
use crate::sys::clock::monotonic_ns;
use crate::sys::maps::ProcMapping;

impl Spaces {
    #[cold]
    pub(super) fn make_ready(&mut self, pid: u32) -> Space {
        if !is_process(pid) {
            return Space::UNKNOWN;
        }
        let known = self.current.get(&pid).map(|current| current.space);
        let space = known.or_else(|| self.begin(pid, MappingOrigin::Partial { parent: None }));
        let Some(space) = space else { return Space::UNKNOWN };
        self.complete(space);
        if let Some(entry) = self.entries.get_mut(&space.0) {
            entry.queried = true;
        }
        if let Some(current) = self.current.get_mut(&pid) {
            current.ready = true;
        }
        space
    }

    /// Reads the missing mappings from the process, or from its parent if it has ended.
    pub(super) fn complete(&mut self, space: Space) {
        let (mut from, at_ns) = (space, monotonic_ns());
        for _ in 0..GENERATIONS {
            let Some(entry) = self.entries.get(&from.0) else { return };
            let MappingOrigin::Partial { parent } = entry.origin else { break };
            let rows = if entry.ended { None } else { (self.read)(entry.pid) };
            if let Some(rows) = rows.filter(|rows| !rows.is_empty()) {
                self.take_in(from, &rows, at_ns);
                break;
            }
            match parent {
                Some(parent) => from = parent,
                None => return,
            }
        }
        if from == space {
            return;
        }
        let Some(source) = self.entries.get(&from.0).map(|entry| entry.list.clone()) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(&space.0) {
            entry.list.put_below(source.mappings());
            entry.origin = MappingOrigin::Read { at_ns };
        }
    }

    fn take_in(&mut self, space: Space, rows: &[ProcMapping], at_ns: u64) {
        self.make_room();
        let room = self.bounds.mappings.saturating_sub(self.total.get());
        self.refused += rows.len().saturating_sub(room) as u64;
        let read: Vec<Mapping> = rows
            .iter()
            .take(room)
            .filter(|row| row.length > 0)
            .map(|row| Mapping {
                start: row.start,
                length: row.length,
                offset: row.offset,
                file: self.backings.intern(Identity::of_row(row), &row.path),
            })
            .collect();
        if let Some(entry) = self.entries.get_mut(&space.0) {
            entry.list.put_below(&read);
            entry.origin = MappingOrigin::Read { at_ns };
        }
    }
}
