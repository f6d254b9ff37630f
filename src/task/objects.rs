//! Objects: the ELF files that are executed, each open once for all processes that map it.
//!
//! A file is opened when it is first mapped: a moment later its process may be gone, or its path
//! may lead elsewhere. These paths are tried in this order:
//!
//! 1. the mapping of the process, `/proc/PID/map_files`, which also leads to deleted files and
//!    needs a privilege
//! 2. its path below the root of the process (another mount namespace)
//! 3. the program itself, `/proc/PID/exe`
//! 4. its path below the roots of the ancestors of the process, which usually outlive it in the
//!    same mount namespace
//! 5. its path as perilune sees it
//! 6. the mappings of other processes
//!
//! A file is used only if it is the one that the kernel named: by device and inode, and by
//! generation if the file system reports one. On overlayfs and btrfs, `stat` reports another device
//! than a mapping; the file is then compared as the kernel shows it mapped into perilune. A file
//! therefore never names what another file executed.
//!
//! Two files with the same build ID (a library in two containers) share an object, unless a user
//! could thereby choose the names in programs of other users: the same user must have written both,
//! or root wrote the one that is used and both have the same bytes. Beyond [`OBJECTS_MAX`] the
//! least used objects are dropped. A file that was not found is tried again after a pause that
//! doubles each time: the next process that maps it may lead to it, but a thousand processes per
//! second must not cost a search each.
//!
//! btrfs numbers inodes separately in each subvolume, and a mapping shows the device of the whole
//! file system: two files of two subvolumes can have the same [`Identity`], as in `/proc/PID/maps`.
//! The first file found is then used for both. Their generations, if records contain them, usually
//! differ; build IDs in the records remove the ambiguity.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hashbrown::HashMap;
use std::hash::RandomState;

use super::maps::{Backing, Identity, Mapping, Spaces};
use crate::decode::elf::Elf;
use crate::sys::clock::monotonic_ns;
use crate::sys::mapped_file::{MappedFile, vdso};

mod paths;
#[cfg(test)]
mod tests;

use paths::{TooLarge, open_that, ways};

/// Maximum number of objects. Each needs a descriptor, another one if it is a copy, and one for its
/// names.
pub const OBJECTS_MAX: usize = 1024;

/// Maximum size in bytes of a file that is compared with another one: some milliseconds.
const COMPARED_MAX: usize = 16 << 20;

/// Maximum number of files that are known to be missing.
const MISSING_MAX: usize = 4096;

/// Pause before a missing file is tried again: the first one and the longest one.
const PAUSE_MIN_NS: u64 = 100_000_000;
const PAUSE_MAX_NS: u64 = 10_000_000_000;

/// An executed file, open and mapped.
#[derive(Debug)]
pub struct Object {
    held: MappedFile,
    build_id: Option<Box<[u8]>>,
    /// The only user besides root who can write it.
    writer: Option<u32>,
    number: u32,
}

impl Object {
    /// Returns the bytes, which are untrusted: any user can have written them.
    pub fn bytes(&self) -> &[u8] {
        &self.held
    }

    /// Returns the build ID.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Returns a number that is unique within the run, for caches of data derived from the object.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns a path that leads to the bytes while the object exists: to the file, even if its own
    /// path was removed, or to its copy.
    pub fn path(&self) -> PathBuf {
        self.held.path()
    }

    /// Returns the inode number that `stat` reports.
    pub fn inode(&self) -> Option<u64> {
        Some(self.held.inode().ok()?.number)
    }

    /// Returns whether the file is unchanged since it was opened. Call it before a long use of
    /// [`Object::bytes`].
    pub fn is_intact(&self) -> bool {
        self.held.is_intact()
    }

    /// Opens a file; None if it is not an ELF file.
    pub fn open(path: &Path, number: u32) -> Option<Object> {
        Object::of(MappedFile::open(path).ok()?, number)
    }

    /// Creates an object from bytes, without a number; None if they are not an ELF file.
    pub fn of_bytes(name: &CStr, bytes: &[u8]) -> Option<Object> {
        Object::of(MappedFile::of_bytes(name, bytes).ok()?, 0)
    }

    /// Creates an object of `length` bytes with these parts at their offsets and zeros between.
    pub fn of_parts(name: &CStr, length: u64, parts: &[(u64, Vec<u8>)]) -> Option<Object> {
        Object::of(MappedFile::of_parts(name, length, parts).ok()?, 0)
    }

    /// Returns whether only root can have written it.
    pub fn is_roots(&self) -> bool {
        self.writer == Some(0)
    }

    fn of(held: MappedFile, number: u32) -> Option<Object> {
        let build_id = Elf::new(&held)?.build_id().map(Box::from);
        let writer = held.writer();
        Some(Object { held, build_id, writer, number })
    }

    /// Returns whether it can replace another file of the same length and build ID, which any user
    /// can create.
    fn stands_for(&self, other: &Object) -> bool {
        let same_writer = self.writer.is_some() && self.writer == other.writer;
        let compared = || other.bytes().len() <= COMPARED_MAX && self.bytes() == other.bytes();
        same_writer || self.is_roots() && compared()
    }
}

/// The objects of a run.
#[derive(Default)]
pub struct Objects {
    by_file: HashMap<File, Vec<KnownObject>, RandomState>,
    missing: HashMap<Identity, Missed, RandomState>,
    /// Files whose addresses had no names when they were drawn last.
    nameless: HashMap<Rc<Backing>, NamelessReason, RandomState>,
    vdso: Option<Option<Rc<Object>>>,
    held: usize,
    used: u64,
    next: u32,
    dropped: u64,
    /// Number of the current drawing.
    drawing: u64,
}

/// A file that was not found.
#[derive(Clone, Copy)]
struct Missed {
    /// Time of the next attempt (`CLOCK_MONOTONIC`).
    until_ns: u64,
    pause_ns: u64,
    reason: NamelessReason,
}

/// Why the functions of a file have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamelessReason {
    /// It was not found, or is not an ELF file.
    NotFound,
    /// Other users can write it, and it is too large to be copied.
    TooLarge,
}

/// Identity without the generation, which is not always known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum File {
    Inode { major: u32, minor: u32, inode: u64 },
    BuildId([u8; 20], u8),
}

struct KnownObject {
    generation: Option<u64>,
    object: Rc<Object>,
    /// Counter value of its last use.
    used: u64,
    /// Number of the last drawing in which it was unchanged.
    intact_in: u64,
}

impl KnownObject {
    /// Returns whether its generation is this one, as far as both are known.
    fn may_be_of(&self, generation: Option<u64>) -> bool {
        self.generation.is_none() || generation.is_none() || self.generation == generation
    }
}

impl Objects {
    /// Returns the object of a mapping; None if it is not an ELF file or was not found.
    pub fn get(&mut self, mapping: &Mapping, pid: u32, spaces: &Spaces) -> Option<Rc<Object>> {
        self.known(mapping, false).or_else(|| self.find(mapping, pid, spaces))
    }

    /// Like [`Objects::get`], for many addresses: checks once per drawing whether the file changed.
    pub fn get_to_draw(
        &mut self,
        mapping: &Mapping,
        pid: u32,
        spaces: &Spaces,
    ) -> Option<Rc<Object>> {
        let found = self.known(mapping, true).or_else(|| self.find(mapping, pid, spaces));
        if found.is_some() {
            self.nameless.remove(&mapping.file);
        }
        found
    }

    /// Handles an address that has no name, in a mapping without an object.
    pub fn note_nameless(&mut self, mapping: &Mapping) {
        if mapping.file.is_file() && self.nameless.len() < MISSING_MAX {
            let missed = self.missing.get(&mapping.file.identity);
            let reason = missed.map_or(NamelessReason::NotFound, |missed| missed.reason);
            self.nameless.insert(mapping.file.clone(), reason);
        }
    }

    /// Returns the number of files whose addresses were drawn without names for this reason, and
    /// one of the files.
    pub fn nameless(&self, reason: NamelessReason) -> (usize, Option<&Backing>) {
        let files = || self.nameless.iter().filter(|(_, of)| **of == reason).map(|(file, _)| file);
        (files().count(), files().min_by_key(|file| &file.path).map(|file| &**file))
    }

    /// Begins a drawing, in which many addresses are looked up.
    pub fn begin_drawing(&mut self) {
        self.drawing += 1;
    }

    /// Opens the file of a new mapping, unless it is open. Returns whether it is an ELF file.
    pub fn hold(&mut self, mapping: &Mapping, pid: u32, spaces: &Spaces) -> bool {
        self.get(mapping, pid, spaces).is_some()
    }

    /// Returns whether the file of a mapping is an open ELF file.
    pub fn holds(&self, mapping: &Mapping) -> bool {
        let Some((file, generation)) = File::of(&mapping.file.identity) else { return false };
        let known = self.by_file.get(&file).map_or(&[][..], |known| known);
        known.iter().any(|known| known.may_be_of(generation))
    }

    /// Returns the number of objects dropped so far. When it has grown, a cache of data derived
    /// from objects must check which still exist.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns an open object. With `drawing`, one check per drawing suffices.
    fn known(&mut self, mapping: &Mapping, drawing: bool) -> Option<Rc<Object>> {
        if &*mapping.file.path == b"[vdso]" {
            return self.vdso(mapping);
        }
        let (file, generation) = File::of(&mapping.file.identity)?;
        let known = self.by_file.get_mut(&file)?;
        let at = known.iter().position(|known| known.may_be_of(generation))?;
        let trusted = drawing && known[at].intact_in == self.drawing;
        if !trusted && !known[at].object.is_intact() {
            // The file was overwritten in place, so the mapping is now another object.
            known.remove(at);
            (self.held, self.dropped) = (self.held - 1, self.dropped + 1);
            return None;
        }
        self.used += 1;
        (known[at].used, known[at].intact_in) = (self.used, self.drawing);
        Some(known[at].object.clone())
    }

    /// Returns the vDSO. The kernel maps the same one into all 64-bit processes.
    fn vdso(&mut self, mapping: &Mapping) -> Option<Rc<Object>> {
        if mapping.start < 1 << 32 && cfg!(target_pointer_width = "64") {
            return None;
        }
        let next = &mut self.next;
        let read = || {
            let held = MappedFile::of_bytes(c"vdso", &vdso().ok()?).ok()?;
            *next += 1;
            Some(Rc::new(Object::of(held, *next)?))
        };
        self.vdso.get_or_insert_with(read).clone()
    }

    fn find(&mut self, mapping: &Mapping, pid: u32, spaces: &Spaces) -> Option<Rc<Object>> {
        let identity = &mapping.file.identity;
        let (file, generation) = File::of(identity)?;
        let missed = self.missing.get(identity).copied();
        if missed.is_some_and(|missed| monotonic_ns() < missed.until_ns) {
            return None;
        }
        let mut reason = NamelessReason::NotFound;
        let held = ways(mapping, pid, spaces).find_map(|way| match open_that(&way, identity) {
            Ok(held) => held,
            Err(TooLarge) => {
                reason = NamelessReason::TooLarge;
                None
            }
        });
        let generation =
            generation.or_else(|| held.as_ref().and_then(MappedFile::generation).map(u64::from));
        let Some(object) = held.and_then(|held| self.share(held)) else {
            self.miss(*identity, missed, reason);
            return None;
        };
        self.missing.remove(identity);
        if self.held >= OBJECTS_MAX {
            self.drop_least_used();
        }
        (self.used, self.held) = (self.used + 1, self.held + 1);
        let (used, intact_in) = (self.used, self.drawing);
        let known = KnownObject { generation, object: object.clone(), used, intact_in };
        self.by_file.entry(file).or_default().push(known);
        Some(object)
    }

    fn miss(&mut self, identity: Identity, before: Option<Missed>, reason: NamelessReason) {
        let pause = before.map_or(PAUSE_MIN_NS, |missed| missed.pause_ns.saturating_mul(2));
        let pause_ns = pause.min(PAUSE_MAX_NS);
        if self.missing.len() >= MISSING_MAX {
            self.missing.clear();
        }
        let until_ns = monotonic_ns() + pause_ns;
        self.missing.insert(identity, Missed { until_ns, pause_ns, reason });
    }

    /// Returns the object with the build ID of the file, or a new one.
    fn share(&mut self, held: MappedFile) -> Option<Rc<Object>> {
        let object = Object::of(held, self.next + 1)?;
        let all = self.by_file.values().flatten().map(|known| &known.object);
        let mut same = all.filter(|other| {
            object.build_id.is_some()
                && other.build_id == object.build_id
                && other.bytes().len() == object.bytes().len()
        });
        // Prefers the object of root; compares at most one.
        let first = same.next();
        let best = same.find(|other| other.is_roots()).or(first);
        if let Some(same) = best.filter(|other| other.stands_for(&object)) {
            return Some(same.clone());
        }
        self.next += 1;
        Some(Rc::new(object))
    }

    /// Drops one eighth of the objects at once, which makes the search rare.
    fn drop_least_used(&mut self) {
        let mut uses: Vec<u64> = self.by_file.values().flatten().map(|known| known.used).collect();
        let eighth = uses.len() / 8;
        let (_, limit, _) = uses.select_nth_unstable(eighth);
        let limit = *limit;
        self.by_file.retain(|_, known| {
            known.retain(|known| known.used > limit);
            !known.is_empty()
        });
        let left = self.by_file.values().map(Vec::len).sum();
        self.dropped += (self.held - left) as u64;
        self.held = left;
    }
}

impl File {
    fn of(identity: &Identity) -> Option<(File, Option<u64>)> {
        match *identity {
            Identity::None => None,
            Identity::Inode { major, minor, inode, generation } => {
                Some((File::Inode { major, minor, inode }, generation))
            }
            Identity::BuildId(id, size) => Some((File::BuildId(id, size), None)),
        }
    }
}
