//! The paths that may lead to the file of a mapping, and the check that it is the one that the
//! kernel named.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::decode::elf::Elf;
use crate::sys::mapped_file::{Inode, MappedFile};
use crate::sys::tasks::living_thread;
use crate::task::maps::{Identity, Mapping, Spaces};

/// Maximum number of ancestors whose roots are tried.
const ANCESTORS: usize = 8;

/// Maximum number of other processes whose mappings are tried.
const USERS: usize = 4;

/// Returns paths that may lead to the file of a mapping, the most reliable first. Those of a
/// process whose first thread has ended go through another thread.
pub(super) fn ways<'a>(
    mapping: &'a Mapping,
    pid: u32,
    spaces: &'a Spaces,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    let path = Path::new(OsStr::from_bytes(&mapping.file.path));
    let below_root = |tid: u32| Some(under(&format!("/proc/{tid}/root"), path));
    let tid = living_thread(pid);
    let own =
        [Some(map_file(tid, mapping)), below_root(tid), Some(format!("/proc/{tid}/exe").into())];
    let ancestors = spaces.ancestors(pid).take(ANCESTORS);
    let ancestors = ancestors.map(move |pid| below_root(living_thread(pid)));
    let users = spaces.users(&mapping.file).filter(move |(user, _)| *user != pid).take(USERS);
    let users = users.map(|(user, mapping)| Some(map_file(living_thread(user), mapping)));
    // A relative name is not a path.
    let here = path.is_absolute().then(|| path.to_owned());
    own.into_iter().chain(ancestors).chain([here]).chain(users).flatten()
}

fn map_file(tid: u32, mapping: &Mapping) -> PathBuf {
    format!("/proc/{tid}/map_files/{:x}-{:x}", mapping.start, mapping.end()).into()
}

fn under(root: &str, path: &Path) -> PathBuf {
    let mut whole = std::ffi::OsString::from(root);
    whole.push(path);
    whole.into()
}

/// The file that the kernel named is too large to be copied.
pub(super) struct TooLarge;

/// Opens a file if it is the one that the kernel named.
pub(super) fn open_that(path: &Path, identity: &Identity) -> Result<Option<MappedFile>, TooLarge> {
    match MappedFile::open(path) {
        Ok(held) => Ok(is_that(&held, identity).unwrap_or(false).then_some(held)),
        Err(why) if why.kind() == io::ErrorKind::FileTooLarge && may_be_that(path, identity) => {
            Err(TooLarge)
        }
        Err(_) => Ok(None),
    }
}

fn is_that(held: &MappedFile, identity: &Identity) -> Option<bool> {
    Some(match *identity {
        Identity::None => false,
        Identity::Inode { major, minor, inode, generation } => {
            let named = Inode { major, minor, number: inode };
            let found = held.inode().ok()?;
            let other_device = (found.major, found.minor) != (major, minor);
            if found == named {
                let reported = held.generation().map(u64::from);
                reported.is_none() || generation.is_none() || reported == generation
            } else {
                other_device && held.inode_of_mapping().ok()? == named
            }
        }
        Identity::BuildId(id, size) => {
            let own = Elf::new(held).and_then(|elf| elf.build_id());
            own == id.get(..usize::from(size))
        }
    })
}

/// Returns whether a file that was not opened may be the one that the kernel named.
fn may_be_that(path: &Path, identity: &Identity) -> bool {
    match *identity {
        Identity::None => false,
        Identity::Inode { inode, .. } => path.metadata().is_ok_and(|found| found.ino() == inode),
        Identity::BuildId(..) => true,
    }
}
