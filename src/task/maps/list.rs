//! The mappings of a space, by address, shared between forked processes until one changes them.

use std::cell::Cell;
use std::hash::{Hash, Hasher, RandomState};
use std::rc::Rc;

use hashbrown::{Equivalent, HashSet};

use crate::sys::maps::ProcMapping;

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub length: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The file or memory behind it, shared by all its mappings.
    pub file: Rc<Backing>,
}

/// The file or memory behind a mapping.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Backing {
    /// Identity of the file.
    pub identity: Identity,
    /// Path as seen by its process. Without a file, it is empty, in brackets, or begins with `//`.
    pub path: Box<[u8]>,
}

/// Identifies a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// No file: anonymous memory, or memory of the kernel.
    None,
    /// The inode, as `/proc/PID/maps` shows it; on overlayfs and btrfs, `stat` reports another
    /// device.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Distinguishes files that had the same inode number one after another. `/proc` does not
        /// show it.
        generation: Option<u64>,
    },
    /// The build ID and its length, up to 20 bytes.
    BuildId([u8; 20], u8),
}

impl Mapping {
    /// Returns the first address after the mapping.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// Returns the file offset of an address of the mapping.
    pub fn file_offset(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.offset)
    }

    /// Returns the part from an address inside.
    fn from(mut self, address: u64) -> Mapping {
        self.offset = self.file_offset(address);
        self.length = self.end() - address;
        self.start = address;
        self
    }

    /// Returns the part up to an address inside.
    fn until(mut self, address: u64) -> Mapping {
        self.length = address - self.start;
        self
    }
}

impl Backing {
    /// Returns whether it is code of the kernel, which it maps into processes.
    pub fn is_of_kernel(&self) -> bool {
        matches!(&*self.path, b"[vdso]" | b"[vsyscall]" | b"[uprobes]")
    }

    /// Returns whether it is a file that can be opened, not memory.
    pub fn is_file(&self) -> bool {
        self.identity != Identity::None && self.path.starts_with(b"/")
    }
}

impl Identity {
    /// Returns the identity from a row of `/proc/PID/maps`.
    pub fn of_row(row: &ProcMapping) -> Identity {
        match row.inode {
            0 => Identity::None,
            inode => {
                Identity::Inode { major: row.major, minor: row.minor, inode, generation: None }
            }
        }
    }

    /// Returns the identity from a build ID; None if it is empty or longer than 20 bytes.
    pub fn of_build_id(bytes: &[u8]) -> Option<Identity> {
        let mut id = [0; 20];
        id.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(Identity::BuildId(id, bytes.len() as u8))
    }
}

/// Number of mappings in all lists.
#[derive(Clone, Default)]
pub(super) struct Total(Rc<Cell<usize>>);

impl Total {
    pub(super) fn get(&self) -> usize {
        self.0.get()
    }
}

/// The mappings of a space.
#[derive(Clone)]
pub(super) struct MappingList(Rc<SharedMappings>);

/// Sorted, without overlaps.
struct SharedMappings {
    mappings: Vec<Mapping>,
    /// Mappings from records; the others were read from `/proc`. Empty if all are from records.
    recorded: Vec<Mapping>,
    read: bool,
    total: Total,
}

impl MappingList {
    pub(super) fn new(total: &Total) -> MappingList {
        let total = total.clone();
        MappingList(Rc::new(SharedMappings {
            mappings: Vec::new(),
            recorded: Vec::new(),
            read: false,
            total,
        }))
    }

    pub(super) fn mappings(&self) -> &[Mapping] {
        &self.0.mappings
    }

    pub(super) fn find(&self, address: u64) -> Option<&Mapping> {
        let behind = self.0.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = self.0.mappings.get(behind.checked_sub(1)?)?;
        (address < mapping.end()).then_some(mapping)
    }

    /// Returns whether a mapping would change the meaning of an address.
    pub(super) fn is_other(&self, new: &Mapping) -> bool {
        let first = self.0.mappings.partition_point(|mapping| mapping.end() <= new.start);
        let overlapped = self.0.mappings[first..].iter().take_while(|m| m.start < new.end());
        // The offset of memory without a file has no meaning.
        let moved = |old: &Mapping| {
            new.file.identity != Identity::None && old.file_offset(new.start) != new.offset
        };
        overlapped.into_iter().any(|old| old.file != new.file || moved(old))
    }

    /// Adds a mapping and replaces what it overlaps. Returns false if the list is too long.
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

    /// Adds mappings read from `/proc` where no mapping was recorded.
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

    /// Removes the mappings that were read.
    pub(super) fn retain_recorded(&mut self) {
        self.change(|shared| {
            if std::mem::take(&mut shared.read) {
                shared.mappings = std::mem::take(&mut shared.recorded);
            }
        });
    }

    /// Treats recorded mappings as read ones, so that a later reading replaces them.
    pub(super) fn distrust(&mut self) {
        self.change(|shared| {
            shared.read = true;
            shared.recorded.clear();
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut SharedMappings)) {
        let shared = Rc::make_mut(&mut self.0);
        let before = shared.size();
        change(shared);
        let total = &shared.total.0;
        total.set(total.get() - before + shared.size());
    }
}

impl SharedMappings {
    fn size(&self) -> usize {
        self.mappings.len() + self.recorded.len()
    }
}

impl Clone for SharedMappings {
    fn clone(&self) -> SharedMappings {
        self.total.0.set(self.total.get() + self.size());
        SharedMappings {
            mappings: self.mappings.clone(),
            recorded: self.recorded.clone(),
            read: self.read,
            total: self.total.clone(),
        }
    }
}

impl Drop for SharedMappings {
    fn drop(&mut self) {
        self.total.0.set(self.total.get() - self.size());
    }
}

/// Adds a mapping; keeps the parts of overlapped mappings that lie outside it.
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

/// Shares one [`Backing`] between all equal ones.
#[derive(Default)]
pub(super) struct Interner {
    known: HashSet<Rc<Backing>, RandomState>,
    /// Number of entries at which unused ones are removed.
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

/// Key to look up a [`Backing`] without allocating it.
struct Borrowed<'a> {
    identity: Identity,
    path: &'a [u8],
}

impl Hash for Borrowed<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The order of the fields of `Backing`, whose hash is derived.
        self.identity.hash(state);
        self.path.hash(state);
    }
}

impl Equivalent<Rc<Backing>> for Borrowed<'_> {
    fn equivalent(&self, key: &Rc<Backing>) -> bool {
        self.identity == key.identity && *self.path == *key.path
    }
}
