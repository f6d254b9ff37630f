//! Objects: the ELF files that processes execute, held open, each once for all processes that have it mapped.
//!
//! A file is looked for when it is first mapped, since its process may be gone a moment later, or the path lead
//! elsewhere. The ways to it are, in this order: the process's own mapping (`/proc/PID/map_files`, which also leads to
//! what was deleted; it takes a privilege), its path below the process's root (another mount namespace), the
//! program itself (`/proc/PID/exe`), the path below the roots of the processes that it descends from (those live on
//! when it has ended, mostly in the same mount namespace), the path as this process sees it, and last the mappings
//! of other processes.
//!
//! Whatever way was found, the file is taken only if it is the one that the kernel named: by device and inode, and by
//! generation where the file system tells it. overlayfs and btrfs tell `stat` another device than a mapping: then the
//! file is compared as the kernel shows it mapped into this very process. So no file names what another one executed.
//!
//! Two files with one build-id (the same library in two containers) are one object, unless somebody could so choose the
//! names in what others execute: whose file it is must be the same, or it is root's and has the same bytes. The least
//! used go when there are more than [`OBJECTS_MAX`]; what cannot be found is looked for again after a pause that doubles each time,
//! since the next process that maps it may lead to it, and a thousand of them a second should not cost a search each.
//!
//! btrfs counts inodes in each subvolume anew, and a mapping tells the device of the whole file system: two files of two subvolumes
//! can have one [`Identity`], as they have for everybody who reads `/proc/PID/maps`. Then the first that is found is taken for
//! both; their generations, where records tell them, mostly differ. With build-ids in the records there is no such doubt.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use std::hash::RandomState;

use super::maps::{Backing, Identity, Mapping, Spaces};
use crate::decode::elf::Elf;
use crate::sys::clock::monotonic_ns;
use crate::sys::held::{Held, Inode, vdso};

#[cfg(test)]
mod tests;

/// Objects that are held at most. Each takes a descriptor, and another one when names are asked of it.
pub const OBJECTS_MAX: usize = 1024;

/// Bytes of a file that is compared with another one at most: some milliseconds.
const COMPARED_MAX: usize = 16 << 20;

/// Files that are remembered as not to be found.
const MISSING_MAX: usize = 4096;

/// How long a file that was not found is not looked for: the first time, and at most.
const PAUSE_MIN_NS: u64 = 100_000_000;
const PAUSE_MAX_NS: u64 = 10_000_000_000;

/// Ancestors whose roots are tried.
const ANCESTORS: usize = 8;

/// Other processes whose mappings are tried.
const USERS: usize = 4;

/// A file that is executed, open and mapped.
#[derive(Debug)]
pub struct Object {
    held: Held,
    build_id: Option<Box<[u8]>>,
    /// Who alone can write it.
    writer: Option<u32>,
    number: u32,
}

impl Object {
    /// Its bytes. Who may write the file can change them at any time: they are to be taken as untrusted.
    pub fn bytes(&self) -> &[u8] {
        &self.held
    }

    /// What the linker calls this very build.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Given to no other object of a run, for caches of what was made of it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// A path that leads to it, whatever became of its own, as long as it is held.
    pub fn path(&self) -> PathBuf {
        self.held.path()
    }

    /// The file's inode number, as `stat` tells it.
    pub fn inode(&self) -> Option<u64> {
        Some(self.held.inode().ok()?.number)
    }

    /// Whether nobody has written to the file since it was opened: to be asked before a long look into [`Object::bytes`].
    pub fn is_intact(&self) -> bool {
        self.held.is_intact()
    }

    /// Holds a file, if it is an ELF file.
    pub fn open(path: &Path, number: u32) -> Option<Object> {
        Object::of(Held::open(path).ok()?, number)
    }

    /// Holds these bytes, if they are an ELF file. For caches it has no number.
    pub fn of_bytes(name: &CStr, bytes: &[u8]) -> Option<Object> {
        Object::of(Held::of_bytes(name, bytes).ok()?, 0)
    }

    /// Holds a file of `length` bytes with these parts at their places, and zeros between.
    pub fn of_parts(name: &CStr, length: u64, parts: &[(u64, Vec<u8>)]) -> Option<Object> {
        Object::of(Held::of_parts(name, length, parts).ok()?, 0)
    }

    /// Whether nobody but root can have written it.
    pub fn is_roots(&self) -> bool {
        self.writer == Some(0)
    }

    fn of(held: Held, number: u32) -> Option<Object> {
        let build_id = Elf::new(&held)?.build_id().map(Box::from);
        let writer = held.writer();
        Some(Object { held, build_id, writer, number })
    }

    /// Whether it can stand for another file of the same length and build-id, which anybody can make.
    fn stands_for(&self, other: &Object) -> bool {
        let same_writer = self.writer.is_some() && self.writer == other.writer;
        let compared = || other.bytes().len() <= COMPARED_MAX && self.bytes() == other.bytes();
        same_writer || self.is_roots() && compared()
    }
}

/// The objects of a run.
#[derive(Default)]
pub struct Objects {
    by_file: HashMap<File, Vec<Known>, RandomState>,
    missing: HashMap<Identity, Missed, RandomState>,
    /// Files that lacked in a drawing.
    nameless: HashSet<Rc<Backing>, RandomState>,
    vdso: Option<Option<Rc<Object>>>,
    held: usize,
    used: u64,
    next: u32,
    dropped: u64,
    /// Counts drawings.
    drawing: u64,
}

/// A file that was not found.
#[derive(Clone, Copy)]
struct Missed {
    /// Until when it is not looked for (`CLOCK_MONOTONIC`).
    until_ns: u64,
    pause_ns: u64,
}

/// A file without its generation, which is not always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum File {
    Inode { major: u32, minor: u32, inode: u64 },
    BuildId([u8; 20], u8),
}

struct Known {
    generation: Option<u64>,
    object: Rc<Object>,
    /// Counts up with each use.
    used: u64,
    /// The drawing in which it was last seen to be what it was.
    intact_in: u64,
}

impl Objects {
    /// The object behind a mapping of that process, if it is one and can be found.
    pub fn get(&mut self, mapping: &Mapping, pid: u32, spaces: &Spaces) -> Option<Rc<Object>> {
        self.known(mapping, false).or_else(|| self.find(mapping, pid, spaces))
    }

    /// The same for one of many addresses: whether the file was overwritten is asked once a drawing.
    pub fn get_to_draw(
        &mut self,
        mapping: &Mapping,
        pid: u32,
        spaces: &Spaces,
    ) -> Option<Rc<Object>> {
        let found = self.known(mapping, true).or_else(|| self.find(mapping, pid, spaces));
        if found.is_some() {
            self.nameless.remove(&mapping.file);
        } else if mapping.file.is_file() && self.nameless.len() < MISSING_MAX {
            self.nameless.insert(mapping.file.clone());
        }
        found
    }

    /// Files that addresses of a drawing lie in, and that were not found or are no objects: how many, and one of them.
    pub fn nameless(&self) -> (usize, Option<&Backing>) {
        (
            self.nameless.len(),
            self.nameless.iter().min_by_key(|file| &file.path).map(|file| &**file),
        )
    }

    /// Many addresses will be asked about, now.
    pub fn begin_drawing(&mut self) {
        self.drawing += 1;
    }

    /// Opens what has just been mapped, unless it is open.
    pub fn hold(&mut self, mapping: &Mapping, pid: u32, spaces: &Spaces) {
        self.get(mapping, pid, spaces);
    }

    /// How many objects were dropped so far: who keeps something for each asks whether it is still there when this
    /// has grown.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// `drawing`: that it was intact once in this drawing is enough.
    fn known(&mut self, mapping: &Mapping, drawing: bool) -> Option<Rc<Object>> {
        if &*mapping.file.path == b"[vdso]" {
            return self.vdso(mapping);
        }
        let (file, generation) = File::of(&mapping.file.identity)?;
        let known = self.by_file.get_mut(&file)?;
        let same = |known: &Known| {
            known.generation.is_none() || generation.is_none() || known.generation == generation
        };
        let at = known.iter().position(same)?;
        let trusted = drawing && known[at].intact_in == self.drawing;
        if !trusted && !known[at].object.is_intact() {
            // It was overwritten in place: what is mapped now is something else.
            known.remove(at);
            (self.held, self.dropped) = (self.held - 1, self.dropped + 1);
            return None;
        }
        self.used += 1;
        (known[at].used, known[at].intact_in) = (self.used, self.drawing);
        Some(known[at].object.clone())
    }

    /// The kernel maps the same one into all processes of one kind; this process is a 64-bit one.
    fn vdso(&mut self, mapping: &Mapping) -> Option<Rc<Object>> {
        if mapping.start < 1 << 32 && cfg!(target_pointer_width = "64") {
            return None;
        }
        let next = &mut self.next;
        let read = || {
            let held = Held::of_bytes(c"vdso", &vdso().ok()?).ok()?;
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
        let held = ways(mapping, pid, spaces).find_map(|way| open_that(&way, identity));
        let generation =
            generation.or_else(|| held.as_ref().and_then(Held::generation).map(u64::from));
        let Some(object) = held.and_then(|held| self.share(held)) else {
            self.miss(*identity, missed);
            return None;
        };
        self.missing.remove(identity);
        if self.held >= OBJECTS_MAX {
            self.drop_least_used();
        }
        (self.used, self.held) = (self.used + 1, self.held + 1);
        let (used, intact_in) = (self.used, self.drawing);
        let known = Known { generation, object: object.clone(), used, intact_in };
        self.by_file.entry(file).or_default().push(known);
        Some(object)
    }

    fn miss(&mut self, identity: Identity, before: Option<Missed>) {
        let pause = before.map_or(PAUSE_MIN_NS, |missed| missed.pause_ns.saturating_mul(2));
        let pause_ns = pause.min(PAUSE_MAX_NS);
        if self.missing.len() >= MISSING_MAX {
            self.missing.clear();
        }
        self.missing.insert(identity, Missed { until_ns: monotonic_ns() + pause_ns, pause_ns });
    }

    /// The object with the file's build-id, or a new one.
    fn share(&mut self, held: Held) -> Option<Rc<Object>> {
        let object = Object::of(held, self.next + 1)?;
        let all = self.by_file.values().flatten().map(|known| &known.object);
        let mut same = all.filter(|other| {
            object.build_id.is_some()
                && other.build_id == object.build_id
                && other.bytes().len() == object.bytes().len()
        });
        // That of root, if there is one; and no more than one is compared.
        let first = same.next();
        let best = same.find(|other| other.is_roots()).or(first);
        if let Some(same) = best.filter(|other| other.stands_for(&object)) {
            return Some(same.clone());
        }
        self.next += 1;
        Some(Rc::new(object))
    }

    /// Drops an eighth, so that it is not looked for each time.
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

/// Paths that may lead to the file behind a mapping, the surest first.
fn ways<'a>(
    mapping: &'a Mapping,
    pid: u32,
    spaces: &'a Spaces,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    let path = Path::new(OsStr::from_bytes(&mapping.file.path));
    let below_root = |pid: u32| Some(under(&format!("/proc/{pid}/root"), path));
    let own =
        [Some(map_file(pid, mapping)), below_root(pid), Some(format!("/proc/{pid}/exe").into())];
    let ancestors = spaces.ancestors(pid).take(ANCESTORS).map(below_root);
    let users = spaces.users(&mapping.file).filter(move |(user, _)| *user != pid).take(USERS);
    let users = users.map(|(user, mapping)| Some(map_file(user, mapping)));
    // A path is absolute, or it is no path.
    let here = path.is_absolute().then(|| path.to_owned());
    own.into_iter().chain(ancestors).chain([here]).chain(users).flatten()
}

fn map_file(pid: u32, mapping: &Mapping) -> PathBuf {
    format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end()).into()
}

fn under(root: &str, path: &Path) -> PathBuf {
    let mut whole = std::ffi::OsString::from(root);
    whole.push(path);
    whole.into()
}

/// Opens a file if it is the one that the kernel named.
fn open_that(path: &Path, identity: &Identity) -> Option<Held> {
    let held = Held::open(path).ok()?;
    let same = match *identity {
        Identity::None => false,
        Identity::Inode { major, minor, inode, generation } => {
            let named = Inode { major, minor, number: inode };
            let found = held.inode().ok()?;
            let other_device = (found.major, found.minor) != (major, minor);
            if found == named {
                let told = held.generation().map(u64::from);
                told.is_none() || generation.is_none() || told == generation
            } else {
                other_device && held.inode_of_mapping().ok()? == named
            }
        }
        Identity::BuildId(id, size) => {
            let own = Elf::new(&held).and_then(|elf| elf.build_id());
            own == id.get(..usize::from(size))
        }
    };
    same.then_some(held)
}
