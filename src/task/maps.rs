//! Address spaces: which files each process executes from where, as the records tell.
//!
//! A [`Space`] is a process between two execs. Its mappings come from MMAP2 records; a later one replaces what it
//! overlaps of earlier ones. If that was other code, and chains were taken in it, the process gets a new space, so that
//! one address of a space never means two things. A forked child shares its parent's list until one of them changes it. Threads share
//! the space of their process. What has ended is remembered for a while, since chains are named when they are drawn.
//!
//! Of a process that ran before the records began, `/proc/PID/maps` is read when somebody first asks for its space,
//! once; what records said stands above it. A process can have executed another program, or have ended and left its
//! number to another one, before its records were handled: what was read then is dropped again when they are.
//!
//! Only executable mappings are kept: that is what records are written of, and where code lies.

use std::collections::VecDeque;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use hashbrown::HashMap;

use super::TidHasher;
use crate::base::frame::Space;
use crate::sys::maps::{Row, executable};

mod ended;
mod list;
#[cfg(test)]
mod tests;
mod unread;

pub use list::{Backing, Identity, Mapping};
use list::{Interner, List, Total};

/// Mappings that all spaces hold together at most: 40 MB.
pub const MAPPINGS_MAX: usize = 1 << 20;

/// Ended spaces that are remembered at most, if a chain was taken in them.
pub const ENDED_MAX: usize = 1 << 16;

/// Ended spaces that are remembered at most of those that nobody has asked for yet.
pub const GRACE: usize = 4096;

/// Living spaces at most: as many as there can be processes on most machines.
const SPACES_MAX: usize = 1 << 18;

/// Forks that are followed back at most.
const GENERATIONS: usize = 64;

/// What a record says of a new mapping.
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a> {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Bytes into the file.
    pub offset: u64,
    /// Which file.
    pub identity: Identity,
    /// Its path as the process calls it, or a name in brackets.
    pub path: &'a [u8],
}

/// The address spaces of the machine's processes.
pub struct Spaces {
    /// The newest space of each process; an ended one until its number is used again or it is forgotten.
    current: HashMap<u32, Current, BuildHasherDefault<TidHasher>>,
    entries: HashMap<u32, Entry, BuildHasherDefault<TidHasher>>,
    /// Ended, by their end: those that nobody asked for, and those that somebody did.
    unasked: VecDeque<Space>,
    asked: VecDeque<Space>,
    backings: Interner,
    total: Total,
    bounds: Bounds,
    next: u32,
    read: Read,
    forgotten: u64,
    refused: u64,
}

/// Reads the mappings of a living process.
type Read = Box<dyn Fn(u32) -> Option<Vec<Row>>>;

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
    /// Whether it was asked for, and so is as complete as it can be.
    ready: bool,
}

struct Entry {
    pid: u32,
    /// The process that forked it; 0 if that was not recorded.
    parent_pid: u32,
    list: List,
    /// Since when records tell everything; before that `/proc` has to.
    origin: Origin,
    ended: bool,
    asked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    /// Begun by an exec that was recorded, or by the fork of one that was: nothing is missing.
    Complete,
    /// Records began in its middle, or some were lost; `parent` had the same mappings when it was forked.
    Partial { parent: Option<Space> },
    /// What was missing was read at this time (`CLOCK_MONOTONIC`).
    Read { at_ns: u64 },
}

impl Default for Spaces {
    fn default() -> Spaces {
        Spaces::reading(Box::new(|pid| executable(pid).ok()))
    }
}

impl Spaces {
    fn reading(read: Read) -> Spaces {
        Spaces {
            current: HashMap::default(),
            entries: HashMap::default(),
            unasked: VecDeque::new(),
            asked: VecDeque::new(),
            backings: Interner::default(),
            total: Total::default(),
            bounds: Bounds {
                mappings: MAPPINGS_MAX,
                ended: ENDED_MAX,
                grace: GRACE,
                spaces: SPACES_MAX,
            },
            next: 1,
            read,
            forgotten: 0,
            refused: 0,
        }
    }

    /// An MMAP2 record. Returns the mapping as it is kept; None if it is none, or there is no room.
    pub fn on_mmap(&mut self, pid: u32, mapped: &Mapped<'_>) -> Option<Mapping> {
        if mapped.length == 0 || !is_process(pid) {
            return None;
        }
        self.make_room();
        let space = self.newest(pid)?;
        let mapping = Mapping {
            start: mapped.start,
            length: mapped.length,
            // Of what is no file, the kernel tells the address.
            offset: if mapped.identity == Identity::None { 0 } else { mapped.offset },
            file: self.backings.intern(mapped.identity, mapped.path),
        };
        let asked = self.entries.get(&space.0).filter(|entry| entry.asked);
        let space = match asked {
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

    /// A FORK record of a new process; one of a thread changes nothing.
    pub fn on_fork(&mut self, pid: u32, parent_pid: u32) {
        if pid == parent_pid || !is_process(pid) {
            return;
        }
        let parent = self.current.get(&parent_pid).map(|current| current.space);
        let parent = parent.or_else(|| self.begin(parent_pid, Origin::Partial { parent: None }));
        let of_parent = parent.and_then(|parent| self.entries.get(&parent.0));
        let list = of_parent.map(|entry| entry.list.clone());
        let origin = match of_parent.map(|entry| entry.origin) {
            Some(Origin::Partial { .. }) | None => Origin::Partial { parent },
            Some(known) => known,
        };
        if let Some(space) = self.begin(pid, origin)
            && let (Some(entry), Some(list)) = (self.entries.get_mut(&space.0), list)
        {
            entry.list = list;
            entry.parent_pid = parent_pid;
        }
    }

    /// A COMM record by exec, at this time (`CLOCK_MONOTONIC`): a new space, with nothing mapped yet.
    pub fn on_exec(&mut self, pid: u32, at_ns: u64) {
        if !is_process(pid) {
            return;
        }
        self.end(pid, at_ns);
        self.begin(pid, Origin::Complete);
    }

    /// The EXIT record of a process's last thread, or of the first: the space stays for what is handled late.
    pub fn on_exit(&mut self, pid: u32, at_ns: u64) {
        self.end(pid, at_ns);
    }

    /// Records were lost: what living spaces lack since then is read again when they are next asked for. Those in which chains
    /// were taken end here, since one of the records may have been an exec: what runs now must not name them.
    pub fn on_lost(&mut self) {
        let living = |(pid, current): (&u32, &Current)| {
            let entry = self.entries.get(&current.space.0).filter(|entry| !entry.ended)?;
            Some((*pid, current.space, entry.asked))
        };
        let living: Vec<_> = self.current.iter().filter_map(living).collect();
        for (pid, space, asked) in living {
            let space = if asked { self.succeed(pid, space) } else { Some(space) };
            let Some(entry) = space.and_then(|space| self.entries.get_mut(&space.0)) else {
                continue;
            };
            entry.list.distrust();
            entry.origin = Origin::Partial { parent: None };
        }
    }

    /// The space that a process lives in now, that is, at the record that is being handled. The first question reads
    /// what records have not told.
    #[inline]
    pub fn space_of(&mut self, pid: u32) -> Space {
        self.ready_space_of(pid).unwrap_or_else(|| self.make_ready(pid))
    }

    /// The same, if it was asked for before and nothing is to be read.
    #[inline]
    pub fn ready_space_of(&self, pid: u32) -> Option<Space> {
        self.current.get(&pid).filter(|current| current.ready).map(|current| current.space)
    }

    /// The space that a process lives in now, without reading anything.
    pub fn known_space_of(&self, pid: u32) -> Option<Space> {
        self.current.get(&pid).map(|current| current.space)
    }

    /// The mapping that an address of a space lies in.
    pub fn find(&self, space: Space, address: u64) -> Option<&Mapping> {
        self.entries.get(&space.0)?.list.find(address)
    }

    /// All mappings of a space, by address.
    pub fn mappings(&self, space: Space) -> &[Mapping] {
        self.entries.get(&space.0).map_or(&[], |entry| entry.list.mappings())
    }

    /// The process of a space; it may have ended, or have executed another program since.
    pub fn process(&self, space: Space) -> Option<u32> {
        self.entries.get(&space.0).map(|entry| entry.pid)
    }

    /// Whether the space's process still lives in it, as far as records tell.
    pub fn lives(&self, space: Space) -> bool {
        self.entries.get(&space.0).is_some_and(|entry| !entry.ended)
    }

    /// Whether a chain was taken in it.
    pub fn was_asked(&self, space: Space) -> bool {
        self.entries.get(&space.0).is_some_and(|entry| entry.asked)
    }

    /// The process that a process was forked by, the one that forked that, and so on, as far as records tell.
    pub fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |pid: &u32| {
            let space = self.current.get(pid)?.space;
            let parent = self.entries.get(&space.0)?.parent_pid;
            (parent != 0).then_some(parent)
        };
        std::iter::successors(parent(&pid), parent).take(GENERATIONS)
    }

    /// Living processes that have a file mapped, and where.
    pub fn users<'a>(&'a self, file: &'a Rc<Backing>) -> impl Iterator<Item = (u32, &'a Mapping)> {
        self.current.iter().filter_map(move |(pid, current)| {
            let entry = self.entries.get(&current.space.0).filter(|entry| !entry.ended)?;
            let mapping = entry.list.mappings().iter().find(|m| Rc::ptr_eq(&m.file, file))?;
            Some((*pid, mapping))
        })
    }

    /// Whether the space is still remembered.
    pub fn knows(&self, space: Space) -> bool {
        self.entries.contains_key(&space.0)
    }

    /// Spaces that were forgotten although a chain had been taken in them: its addresses stay without names.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Mappings and spaces that the bounds kept out.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn newest(&mut self, pid: u32) -> Option<Space> {
        let known = self.current.get(&pid).map(|current| current.space);
        // What an ended process maps is another's, whose FORK record was lost.
        match known.filter(|space| self.lives(*space)) {
            Some(space) => Some(space),
            None => self.begin(pid, Origin::Partial { parent: None }),
        }
    }

    fn begin(&mut self, pid: u32, origin: Origin) -> Option<Space> {
        if self.entries.len() >= self.bounds.spaces && !self.forget_oldest() {
            self.refused += 1;
            return None;
        }
        let space = Space(self.next);
        // After four billion execs no chain can be told apart any more: nothing further is named.
        self.next = self.next.checked_add(1)?;
        let mut parent_pid = 0;
        if let Some(old) = self.current.insert(pid, Current { space, ready: false }) {
            // An exec does not change who forked it.
            parent_pid = self.entries.get(&old.space.0).map_or(0, |entry| entry.parent_pid);
            // One whose exit was lost ends here.
            self.retire(old.space);
        }
        let list = List::new(&self.total);
        let entry = Entry { pid, parent_pid, list, origin, ended: false, asked: false };
        self.entries.insert(space.0, entry);
        Some(space)
    }

    /// A new space of a process, with everything that the old one has.
    fn succeed(&mut self, pid: u32, old: Space) -> Option<Space> {
        let entry = self.entries.get(&old.0)?;
        let (list, origin) = (entry.list.clone(), entry.origin);
        let space = self.begin(pid, origin)?;
        self.entries.get_mut(&space.0)?.list = list;
        Some(space)
    }

    fn end(&mut self, pid: u32, at_ns: u64) {
        let Some(space) = self.current.get(&pid).map(|current| current.space) else { return };
        if let Some(entry) = self.entries.get_mut(&space.0)
            && matches!(entry.origin, Origin::Read { at_ns: read } if read > at_ns)
        {
            // What was read is of the program, or even the process, that came after this one.
            entry.list.retain_recorded();
        }
        self.retire(space);
    }
}

/// 0 is the idle task, -1 a task that has no number in this pid namespace.
fn is_process(pid: u32) -> bool {
    pid != 0 && pid != u32::MAX
}
