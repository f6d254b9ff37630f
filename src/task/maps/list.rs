//! The mappings of a space, by address, shared between forked processes until one changes them.

use std::cell::Cell;
use std::hash::{Hash, Hasher, RandomState};
use std::rc::Rc;

use hashbrown::{Equivalent, HashSet};

use crate::sys::maps::Row;

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Bytes into the file.
    pub offset: u64,
    /// What lies behind it; one object for all mappings of it.
    pub file: Rc<Backing>,
}

/// What lies behind a mapping.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Backing {
    /// Which file.
    pub identity: Identity,
    /// Its path as its process calls it; in brackets or empty, or beginning with `//`, where there is no file.
    pub path: Box<[u8]>,
}

/// How the kernel tells a mapped file from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// No file: anonymous memory, or the kernel's own.
    None,
    /// By its inode, as `/proc/PID/maps` shows it: on overlayfs and btrfs `stat` tells another device.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Tells files apart that had the inode number one after the other. `/proc` does not tell it.
        generation: Option<u64>,
    },
    /// By its build-id and the bytes of it: up to 20.
    BuildId([u8; 20], u8),
}

impl Mapping {
    /// The first address behind it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// Where in the file an address of the mapping lies.
    pub fn file_offset(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.offset)
    }

    /// The part that begins at an address inside.
    fn from(mut self, address: u64) -> Mapping {
        self.offset = self.file_offset(address);
        self.length = self.end() - address;
        self.start = address;
        self
    }

    /// The part that ends at an address inside.
    fn until(mut self, address: u64) -> Mapping {
        self.length = address - self.start;
        self
    }
}

impl Backing {
    /// Whether it is memory without a name, as code that is made while a program runs has.
    pub fn is_anonymous(&self) -> bool {
        self.identity == Identity::None && !self.path.starts_with(b"[")
    }

    /// Whether it is a file that could be opened, and not the kernel's or nobody's memory.
    pub fn is_file(&self) -> bool {
        self.identity != Identity::None && self.path.starts_with(b"/")
    }
}

impl Identity {
    /// That of a row of `/proc/PID/maps`.
    pub fn of_row(row: &Row) -> Identity {
        match row.inode {
            0 => Identity::None,
            inode => {
                Identity::Inode { major: row.major, minor: row.minor, inode, generation: None }
            }
        }
    }

    /// That of a build-id; None if it has no bytes, or more than 20.
    pub fn of_build_id(bytes: &[u8]) -> Option<Identity> {
        let mut id = [0; 20];
        id.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(Identity::BuildId(id, bytes.len() as u8))
    }
}

/// How many mappings all lists hold together.
#[derive(Clone, Default)]
pub(super) struct Total(Rc<Cell<usize>>);

impl Total {
    pub(super) fn get(&self) -> usize {
        self.0.get()
    }
}

/// The mappings of a space.
#[derive(Clone)]
pub(super) struct List(Rc<Shared>);

/// Sorted, none overlapping another.
struct Shared {
    mappings: Vec<Mapping>,
    /// Those that records told; the others were read. Empty where all were told.
    recorded: Vec<Mapping>,
    read: bool,
    total: Total,
}

impl List {
    pub(super) fn new(total: &Total) -> List {
        let total = total.clone();
        List(Rc::new(Shared { mappings: Vec::new(), recorded: Vec::new(), read: false, total }))
    }

    pub(super) fn mappings(&self) -> &[Mapping] {
        &self.0.mappings
    }

    pub(super) fn find(&self, address: u64) -> Option<&Mapping> {
        let behind = self.0.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = self.0.mappings.get(behind.checked_sub(1)?)?;
        (address < mapping.end()).then_some(mapping)
    }

    /// Whether a mapping would make an address mean something else than it did.
    pub(super) fn is_other(&self, new: &Mapping) -> bool {
        let first = self.0.mappings.partition_point(|mapping| mapping.end() <= new.start);
        let overlapped = self.0.mappings[first..].iter().take_while(|m| m.start < new.end());
        // Memory without a file is the same wherever it begins.
        let moved = |old: &Mapping| {
            new.file.identity != Identity::None && old.file_offset(new.start) != new.offset
        };
        overlapped.into_iter().any(|old| old.file != new.file || moved(old))
    }

    /// Lays a mapping over what is there. False if the list is too long.
    pub(super) fn lay(&mut self, mapping: Mapping) -> bool {
        const MOST: usize = 1 << 16;
        if self.0.mappings.len() >= MOST {
            return false;
        }
        self.change(|shared| {
            if shared.read && shared.recorded.len() < MOST {
                lay_over(&mut shared.recorded, mapping.clone());
            }
            lay_over(&mut shared.mappings, mapping);
        });
        true
    }

    /// Puts what was read where nothing has been recorded.
    pub(super) fn put_below(&mut self, read: &[Mapping]) {
        self.change(|shared| {
            if !shared.read {
                shared.recorded = std::mem::take(&mut shared.mappings);
            }
            shared.mappings = read.to_vec();
            for mapping in &shared.recorded {
                lay_over(&mut shared.mappings, mapping.clone());
            }
            shared.read = true;
        });
    }

    /// Takes back what was read.
    pub(super) fn retain_recorded(&mut self) {
        self.change(|shared| {
            if std::mem::take(&mut shared.read) {
                shared.mappings = std::mem::take(&mut shared.recorded);
            }
        });
    }

    /// Takes what was recorded as if it had been read: later readings know better.
    pub(super) fn distrust(&mut self) {
        self.change(|shared| {
            shared.read = true;
            shared.recorded.clear();
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Shared)) {
        let shared = Rc::make_mut(&mut self.0);
        let before = shared.size();
        change(shared);
        let total = &shared.total.0;
        total.set(total.get() - before + shared.size());
    }
}

impl Shared {
    fn size(&self) -> usize {
        self.mappings.len() + self.recorded.len()
    }
}

impl Clone for Shared {
    fn clone(&self) -> Shared {
        self.total.0.set(self.total.get() + self.size());
        Shared {
            mappings: self.mappings.clone(),
            recorded: self.recorded.clone(),
            read: self.read,
            total: self.total.clone(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.total.0.set(self.total.get() - self.size());
    }
}

/// Replaces what a mapping overlaps; of those that stick out, the rest stays.
fn lay_over(mappings: &mut Vec<Mapping>, new: Mapping) {
    let first = mappings.partition_point(|mapping| mapping.end() <= new.start);
    let behind = mappings.partition_point(|mapping| mapping.start < new.end()).max(first);
    let overlapped = &mappings[first..behind];
    let left = overlapped.first().filter(|old| old.start < new.start);
    let right = overlapped.last().filter(|old| old.end() > new.end());
    let left = left.map(|old| old.clone().until(new.start));
    let right = right.map(|old| old.clone().from(new.end()));
    mappings.splice(first..behind, left.into_iter().chain([new]).chain(right));
}

/// Makes one [`Backing`] of all that are equal.
#[derive(Default)]
pub(super) struct Interner {
    known: HashSet<Rc<Backing>, RandomState>,
    /// At this many it looks which are still in use.
    sweep_at: usize,
}

impl Interner {
    pub(super) fn intern(&mut self, identity: Identity, path: &[u8]) -> Rc<Backing> {
        if let Some(known) = self.known.get(&Borrowed { identity, path }) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|backing| Rc::strong_count(backing) > 1);
            self.sweep_at = (self.known.len() * 2).max(1024);
        }
        let backing = Rc::new(Backing { identity, path: path.into() });
        self.known.insert(backing.clone());
        backing
    }
}

/// A [`Backing`] that is looked for.
struct Borrowed<'a> {
    identity: Identity,
    path: &'a [u8],
}

impl Hash for Borrowed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // In the order of the fields of `Backing`, whose hash is derived.
        self.identity.hash(state);
        self.path.hash(state);
    }
}

impl Equivalent<Rc<Backing>> for Borrowed<'_> {
    fn equivalent(&self, key: &Rc<Backing>) -> bool {
        self.identity == key.identity && *self.path == *key.path
    }
}
