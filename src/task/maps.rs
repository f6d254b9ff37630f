//! Address spaces: the files that each process executes, and their addresses, according to the
//! records.
//!
//! A [`Space`] is a process between two execs. Its mappings come from MMAP2 records; a later
//! mapping replaces what it overlaps. If it replaces other code in which chains were taken, the
//! process gets a new space, so that an address of a space never has two meanings. A forked child
//! shares the list of its parent until one of them changes it. Threads share the space of their
//! process. Ended spaces are kept for a while, since chains are named when they are drawn.
//!
//! For a process that started before the records, `/proc/PID/maps` is read once, when its space is
//! first looked up; mappings from records take precedence. Before its records are processed, the
//! process may have executed another program, or ended and left its id to another process: its
//! records then remove what was read.
//!
//! Only executable mappings are kept: they are the ones that records contain, and the ones with
//! code.

use std::collections::VecDeque;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use hashbrown::HashMap;

use super::TidHasher;
use crate::base::report::frame::Space;
use crate::sys::maps::{ProcMapping, executable};
use crate::sys::tasks::living_thread;

mod dated;
mod ended;
mod list;
#[cfg(test)]
mod tests;
mod unread;

pub use list::{Backing, Identity, Mapping};
use list::{Interner, MappingList, Total};

/// Maximum number of mappings of all spaces: 40 MB.
pub const MAPPINGS_MAX: usize = 1 << 20;

/// Maximum number of ended spaces with chains.
pub const ENDED_MAX: usize = 1 << 16;

/// Maximum number of ended spaces that were never looked up.
pub const GRACE: usize = 4096;

/// Maximum number of living spaces: the number of processes possible on most machines.
const SPACES_MAX: usize = 1 << 18;

/// Maximum number of ancestors of a process that are visited.
const GENERATIONS: usize = 64;

/// A mapping, as a record describes it.
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a> {
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub length: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Identity of the file.
    pub identity: Identity,
    /// Path as seen by the process, or a name in brackets.
    pub path: &'a [u8],
}

/// The address spaces of the machine's processes.
pub struct Spaces {
    /// The newest space of each process; an ended one stays until its id is reused or it is
    /// dropped.
    current: HashMap<u32, Current, BuildHasherDefault<TidHasher>>,
    entries: HashMap<u32, MapsEntry, BuildHasherDefault<TidHasher>>,
    /// Ended spaces in the order of their end: never looked up, and looked up.
    unqueried: VecDeque<Space>,
    queried: VecDeque<Space>,
    backings: Interner,
    total: Total,
    bounds: Bounds,
    next: u32,
    /// Time of the record that is handled (`CLOCK_MONOTONIC`).
    now_ns: u64,
    /// Whether chains are looked up some time after their events.
    is_late: bool,
    read: Read,
    forgotten: u64,
    refused: u64,
}

/// Reads the mappings of a living process.
type Read = Box<dyn Fn(u32) -> Option<Vec<ProcMapping>>>;

#[derive(Clone, Copy)]
struct Bounds {
    mappings: usize,
    ended: usize,
    grace: usize,
    spaces: usize,
}

#[derive(Clone, Copy)]
struct Current {
    space: Space,
    /// Whether it was looked up, so that nothing more can be read.
    ready: bool,
}

struct MapsEntry {
    pid: u32,
    /// The process that forked it; 0 if that was not recorded.
    parent_pid: u32,
    /// Time of the record with which it began; 0 if it began before the records.
    begun_ns: u64,
    /// The space in which the process was before.
    previous: Option<Space>,
    list: MappingList,
    /// From where its mappings are complete.
    origin: MappingOrigin,
    /// Threads that have not ended, if the first one has.
    remaining: Option<Vec<u32>>,
    ended: bool,
    queried: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum MappingOrigin {
    /// Began with a recorded exec, or with a fork of a complete space: nothing is missing.
    Complete,
    /// The records began later, or some were lost; `parent` had the same mappings at the fork.
    Partial { parent: Option<Space> },
    /// The missing mappings were read at this time (`CLOCK_MONOTONIC`).
    Read { at_ns: u64 },
}

impl Default for Spaces {
    fn default() -> Spaces {
        Spaces::reading(Box::new(|pid| executable(living_thread(pid)).ok()))
    }
}

impl Spaces {
    fn reading(read: Read) -> Spaces {
        Spaces {
            current: HashMap::default(),
            entries: HashMap::default(),
            unqueried: VecDeque::new(),
            queried: VecDeque::new(),
            backings: Interner::default(),
            total: Total::default(),
            bounds: Bounds {
                mappings: MAPPINGS_MAX,
                ended: ENDED_MAX,
                grace: GRACE,
                spaces: SPACES_MAX,
            },
            next: 1,
            now_ns: 0,
            is_late: false,
            read,
            forgotten: 0,
            refused: 0,
        }
    }

    /// Handles an MMAP2 record. Returns the stored mapping; None if it is empty or there is no
    /// room.
    pub fn on_mmap(&mut self, pid: u32, mapped: &Mapped<'_>) -> Option<Mapping> {
        if mapped.length == 0 || !is_process(pid) {
            return None;
        }
        self.make_room();
        let space = self.newest(pid)?;
        let mapping = Mapping {
            start: mapped.start,
            length: mapped.length,
            // Without a file, the kernel reports the address as the offset.
            offset: if mapped.identity == Identity::None { 0 } else { mapped.offset },
            file: self.backings.intern(mapped.identity, mapped.path),
        };
        let is_late = self.is_late;
        let queried = self.entries.get(&space.0).filter(|entry| entry.queried || is_late);
        let space = match queried {
            Some(entry) if entry.list.is_other(&mapping) => self.succeed(pid, space)?,
            _ => space,
        };
        let entry = self.entries.get_mut(&space.0)?;
        if self.total.get() >= self.bounds.mappings || !entry.list.lay(mapping.clone()) {
            self.refused += 1;
            return None;
        }
        Some(mapping)
    }

    /// Handles a FORK record. The record of a thread matters only if the first one has ended.
    pub fn on_fork(&mut self, pid: u32, tid: u32, parent_pid: u32) {
        if pid == parent_pid || !is_process(pid) {
            return self.add_remaining(pid, tid);
        }
        let parent = self.current.get(&parent_pid).map(|current| current.space);
        let parent =
            parent.or_else(|| self.begin(parent_pid, MappingOrigin::Partial { parent: None }));
        let of_parent = parent.and_then(|parent| self.entries.get(&parent.0));
        let list = of_parent.map(|entry| entry.list.clone());
        let origin = match of_parent.map(|entry| entry.origin) {
            Some(MappingOrigin::Partial { .. }) | None => MappingOrigin::Partial { parent },
            Some(known) => known,
        };
        if let Some(space) = self.begin(pid, origin)
            && let (Some(entry), Some(list)) = (self.entries.get_mut(&space.0), list)
        {
            entry.list = list;
            entry.parent_pid = parent_pid;
        }
    }

    /// Handles a COMM record of an exec at this time (`CLOCK_MONOTONIC`): begins an empty space.
    pub fn on_exec(&mut self, pid: u32, at_ns: u64) {
        if !is_process(pid) {
            return;
        }
        self.end(pid, at_ns);
        self.begin(pid, MappingOrigin::Complete);
    }

    /// Handles a loss of records: mappings of living spaces are read again at their next lookup.
    /// Spaces with chains end here, since an exec may have been lost: later code must not name
    /// their chains.
    pub fn on_lost(&mut self) {
        let living = |(pid, current): (&u32, &Current)| {
            let entry = self.entries.get(&current.space.0).filter(|entry| !entry.ended)?;
            Some((*pid, current.space, entry.queried))
        };
        let living: Vec<_> = self.current.iter().filter_map(living).collect();
        for (pid, space, queried) in living {
            let space = if queried { self.succeed(pid, space) } else { Some(space) };
            let Some(entry) = space.and_then(|space| self.entries.get_mut(&space.0)) else {
                continue;
            };
            entry.list.distrust();
            entry.origin = MappingOrigin::Partial { parent: None };
        }
    }

    /// Returns the space of a process at the current record. The first call reads what records do
    /// not contain.
    #[inline]
    pub fn space_of(&mut self, pid: u32) -> Space {
        self.ready_space_of(pid).unwrap_or_else(|| self.make_ready(pid))
    }

    /// Like [`Spaces::space_of`]; None if something must be read first.
    #[inline]
    pub fn ready_space_of(&self, pid: u32) -> Option<Space> {
        self.current.get(&pid).filter(|current| current.ready).map(|current| current.space)
    }

    /// Returns the space of a process without reading anything.
    pub fn known_space_of(&self, pid: u32) -> Option<Space> {
        self.current.get(&pid).map(|current| current.space)
    }

    /// Returns the mapping that contains an address of a space.
    pub fn find(&self, space: Space, address: u64) -> Option<&Mapping> {
        self.entries.get(&space.0)?.list.find(address)
    }

    /// Returns all mappings of a space, by address.
    pub fn mappings(&self, space: Space) -> &[Mapping] {
        self.entries.get(&space.0).map_or(&[], |entry| entry.list.mappings())
    }

    /// Returns the process of a space; it may have ended or executed another program since.
    pub fn process(&self, space: Space) -> Option<u32> {
        self.entries.get(&space.0).map(|entry| entry.pid)
    }

    /// Returns whether the process of the space still runs in it, according to the records.
    pub fn lives(&self, space: Space) -> bool {
        self.entries.get(&space.0).is_some_and(|entry| !entry.ended)
    }

    /// Returns whether the space was looked up, so that it may have chains.
    pub fn was_queried(&self, space: Space) -> bool {
        self.entries.get(&space.0).is_some_and(|entry| entry.queried)
    }

    /// Returns the recorded ancestors of a process, the parent first.
    pub fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |pid: &u32| {
            let space = self.current.get(pid)?.space;
            let parent = self.entries.get(&space.0)?.parent_pid;
            (parent != 0).then_some(parent)
        };
        std::iter::successors(parent(&pid), parent).take(GENERATIONS)
    }

    /// Returns the living processes that map a file, with the mapping.
    pub fn users<'a>(&'a self, file: &'a Rc<Backing>) -> impl Iterator<Item = (u32, &'a Mapping)> {
        self.current.iter().filter_map(move |(pid, current)| {
            let entry = self.entries.get(&current.space.0).filter(|entry| !entry.ended)?;
            let mapping = entry.list.mappings().iter().find(|m| Rc::ptr_eq(&m.file, file))?;
            Some((*pid, mapping))
        })
    }

    /// Returns whether the space is still known.
    pub fn knows(&self, space: Space) -> bool {
        self.entries.contains_key(&space.0)
    }

    /// Returns the number of dropped spaces with chains, whose addresses have no names.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the number of mappings and spaces refused because of the limits.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn newest(&mut self, pid: u32) -> Option<Space> {
        let known = self.current.get(&pid).map(|current| current.space);
        // A mapping of an ended process belongs to a new one whose FORK record was lost.
        match known.filter(|space| self.lives(*space)) {
            Some(space) => Some(space),
            None => self.begin(pid, MappingOrigin::Partial { parent: None }),
        }
    }

    fn begin(&mut self, pid: u32, origin: MappingOrigin) -> Option<Space> {
        if self.entries.len() >= self.bounds.spaces && !self.forget_oldest() {
            self.refused += 1;
            return None;
        }
        let space = Space(self.next);
        // After four billion execs the ids are used up: later chains get no names.
        self.next = self.next.checked_add(1)?;
        let (mut parent_pid, mut previous) = (0, None);
        if let Some(old) = self.current.insert(pid, Current { space, ready: false }) {
            previous = Some(old.space);
            // An exec does not change the parent.
            parent_pid = self.entries.get(&old.space.0).map_or(0, |entry| entry.parent_pid);
            // Its EXIT record was lost.
            self.retire(old.space);
        }
        let list = MappingList::new(&self.total);
        let (remaining, ended, queried) = (None, false, false);
        let is_first = previous.is_none() && origin == MappingOrigin::Partial { parent: None };
        let begun_ns = if is_first { 0 } else { self.now_ns };
        let entry = MapsEntry {
            pid,
            parent_pid,
            begun_ns,
            previous,
            list,
            origin,
            remaining,
            ended,
            queried,
        };
        self.entries.insert(space.0, entry);
        Some(space)
    }

    /// Returns a new space of a process with the mappings of the old one.
    fn succeed(&mut self, pid: u32, old: Space) -> Option<Space> {
        let entry = self.entries.get(&old.0)?;
        let (list, origin, remaining) = (entry.list.clone(), entry.origin, entry.remaining.clone());
        let space = self.begin(pid, origin)?;
        let entry = self.entries.get_mut(&space.0)?;
        (entry.list, entry.remaining) = (list, remaining);
        Some(space)
    }
}

/// Returns whether it is the id of a process: 0 is the idle task, -1 a task without an id in this
/// pid namespace.
fn is_process(pid: u32) -> bool {
    pid != 0 && pid != u32::MAX
}
