//! Files that are kept open to be read, whatever becomes of their paths.
//!
//! Maps a file that only root or this user can write. Copies any other file, since its owner could
//! change the bytes of a mapping while a slice of them is in use.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use memmap2::{Mmap, MmapOptions};

use super::{maps, torn};

/// Size of a copy at most. A larger file that others can write has no names and no unwind tables.
const COPY_MAX: u64 = 256 << 20;

/// A regular file, open, and its bytes.
#[derive(Debug)]
pub struct Held {
    file: File,
    bytes: Bytes,
    modified: Option<SystemTime>,
}

/// Bytes that all copies together take at most.
const COPIES_MAX: u64 = 512 << 20;

/// Bytes that copies take now.
static COPIED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Copied(Copied),
}

/// The bytes of a file; counted as long as they are held.
#[derive(Debug)]
struct Copied(Vec<u8>);

impl Copied {
    fn read(file: &File, length: u64) -> io::Result<Copied> {
        let taken = COPIED.fetch_add(length, Ordering::Relaxed);
        if length > COPY_MAX || taken + length > COPIES_MAX {
            COPIED.fetch_sub(length, Ordering::Relaxed);
            return Err(io::Error::other(
                "others can write it, and there is no room for a copy: one takes 256 MiB at most, all take 512 MiB",
            ));
        }
        let mut copied = Copied(vec![0; length as usize]);
        std::os::unix::fs::FileExt::read_exact_at(file, &mut copied.0, 0)?;
        Ok(copied)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        COPIED.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// Which file it is, as the kernel tells it of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Inode number.
    pub number: u64,
}

impl Held {
    /// Opens a file by [`open_regular`] and maps or copies all of it.
    ///
    /// # Errors
    /// Likewise; or it is empty; or others can write it and there is no room for a copy.
    pub fn open(path: &Path) -> io::Result<Held> {
        let file = open_regular(path, Links::Followed)?;
        match writer(&file) {
            // SAFETY: getuid cannot fail.
            Some(user) if user == 0 || user == unsafe { libc::getuid() } => Held::map(file),
            _ => Held::copy(file),
        }
    }

    /// These bytes, as a file of which no path leads anywhere.
    ///
    /// # Errors
    /// The kernel has no room for it.
    pub fn of_bytes(name: &CStr, bytes: &[u8]) -> io::Result<Held> {
        Held::of_parts(name, bytes.len() as u64, &[(0, bytes)])
    }

    /// Likewise a file of `length` bytes with these parts at their places, and zeros between, which take no room.
    ///
    /// # Errors
    /// Likewise.
    pub fn of_parts(
        name: &CStr,
        length: u64,
        parts: &[(u64, impl AsRef<[u8]>)],
    ) -> io::Result<Held> {
        // SAFETY: the name ends in a NUL and is only read.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(length)?;
        for (place, bytes) in parts {
            std::os::unix::fs::FileExt::write_all_at(&file, bytes.as_ref(), *place)?;
        }
        Held::map(file)
    }

    fn map(file: File) -> io::Result<Held> {
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(not_regular());
        }
        torn::read_as_zeros();
        // SAFETY: the mapping is read-only and private, and nobody writes the file: it is one of
        // our own without a path, or `open` has seen that only root or this user could. Cut short
        // by them, it reads as zeros behind its end.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Held { modified: metadata.modified().ok(), file, bytes: Bytes::Mapped(map) })
    }

    fn copy(file: File) -> io::Result<Held> {
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(not_regular());
        }
        let bytes = Bytes::Copied(Copied::read(&file, metadata.len())?);
        Ok(Held { modified: metadata.modified().ok(), file, bytes })
    }

    /// Whether the file has neither shrunk nor been written since it was mapped or copied.
    pub fn is_intact(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| {
            metadata.len() == self.len() as u64 && metadata.modified().ok() == self.modified
        })
    }

    /// A path that leads to this very file as long as this is held.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// What `stat` tells. On overlayfs and btrfs the device is another one than that of [`Held::inode_of_mapping`].
    ///
    /// # Errors
    /// The file system failed.
    pub fn inode(&self) -> io::Result<Inode> {
        let metadata = self.file.metadata()?;
        let device = metadata.dev();
        Ok(Inode { major: libc::major(device), minor: libc::minor(device), number: metadata.ino() })
    }

    /// What the kernel tells of the mapping of this file into this process: the same that it tells of any other's.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn inode_of_mapping(&self) -> io::Result<Inode> {
        // SAFETY: the mapping is never read; only its address is compared.
        let map = unsafe { MmapOptions::new().len(1).map(&self.file)? };
        let address = map.as_ptr() as u64;
        let row = maps::own()?.into_iter().find(|row| row.start <= address && address < row.end());
        let row =
            row.ok_or_else(|| io::Error::other("failed to find a mapping of this process"))?;
        Ok(Inode { major: row.major, minor: row.minor, number: row.inode })
    }

    /// The user who alone can write the file, besides root; None where others can, or where the file system's word for it
    /// is not to be believed: on one that is mounted without setuid, which anybody may have made.
    pub fn writer(&self) -> Option<u32> {
        writer(&self.file)
    }

    /// The generation of the inode; None where the file system does not tell it (`FS_IOC_GETVERSION`).
    pub fn generation(&self) -> Option<u32> {
        let mut generation: libc::c_long = 0;
        // SAFETY: the kernel writes an int, for which a long has room; see `ioctl_iflags(2)`.
        let failed = unsafe {
            libc::ioctl(self.file.as_raw_fd(), libc::FS_IOC_GETVERSION, &raw mut generation)
        };
        (failed == 0).then_some(generation as u32)
    }
}

/// Whether a path may end at a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It may.
    Followed,
    /// The link is no regular file.
    Refused,
}

/// Opens a file to be read. What is no regular file is looked at only: whoever may write the path could have put
/// a pipe there, at which this would wait, or led it to a device, which does something when root opens it.
///
/// # Errors
/// It is not there, may not be read, or is no regular file.
pub fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let flags = match links {
        Links::Followed => libc::O_PATH,
        Links::Refused => libc::O_PATH | libc::O_NOFOLLOW,
    };
    let place = File::options().read(true).custom_flags(flags).open(path)?;
    if !place.metadata()?.is_file() {
        return Err(not_regular());
    }
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

fn not_regular() -> io::Error {
    io::Error::other("no regular file, or an empty one")
}

/// See [`Held::writer`].
fn writer(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    // SAFETY: all zeros are a statvfs.
    let mut mount: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel's answer is written to a place of its size.
    let failed = unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut mount) };
    let believed = failed == 0 && mount.f_flag & libc::ST_NOSUID == 0;
    (believed && metadata.mode() & 0o022 == 0).then(|| metadata.uid())
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Copied(copied) => &copied.0,
        }
    }
}

/// The vDSO of this process: the code that the kernel maps into every one of the same kind.
///
/// # Errors
/// There is none, or no /proc.
pub fn vdso() -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let rows = maps::own()?;
    let row = rows.iter().find(|row| row.path == b"[vdso]");
    let row = row.ok_or_else(|| io::Error::other("this kernel maps no [vdso]"))?;
    let mut bytes = vec![0; row.length as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, row.start)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_the_inode_of_its_mapping_and_stays_when_its_path_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let held = Held::open(&path).unwrap();
        let (by_stat, by_mapping) = (held.inode().unwrap(), held.inode_of_mapping().unwrap());
        assert_eq!(by_stat.number, by_mapping.number);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&held[..], b"bytes");
        assert!(held.is_intact());
        assert_eq!(std::fs::read(held.path()).unwrap(), b"bytes");
    }

    #[test]
    fn what_was_written_since_is_not_intact() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let held = Held::open(&path).unwrap();
        std::fs::write(&path, b"byte").unwrap();
        assert!(!held.is_intact());
    }

    #[test]
    fn the_bytes_of_a_file_that_others_can_write_stay_what_they_were_when_it_was_opened() {
        use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let held = Held::open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().write_all_at(b"other", 0).unwrap();
        assert_eq!(&held[..], b"bytes");
        assert_eq!(held.inode_of_mapping().unwrap().number, held.inode().unwrap().number);
        let large = directory.path().join("large");
        File::create(&large).unwrap().set_len(COPY_MAX + 1).unwrap();
        std::fs::set_permissions(&large, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(Held::open(&large).unwrap_err().to_string().contains("no room for a copy"));
    }

    #[test]
    fn only_regular_files_with_bytes_are_held() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        let (pipe, link) = (directory.path().join("pipe"), directory.path().join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for path in [&*empty, directory.path(), &pipe, &link, Path::new("/nowhere")] {
            assert!(Held::open(path).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn the_vdso_is_an_elf_file_that_can_be_held() {
        let bytes = vdso().unwrap();
        assert!(bytes.starts_with(b"\x7fELF"));
        let held = Held::of_bytes(c"vdso", &bytes).unwrap();
        assert_eq!(&held[..], bytes);
    }
}
