//! Files that are kept open for reading, whatever happens to their paths.
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

use super::{maps, sigbus};

/// Maximum size of a copy. A larger file that other users can write has no symbols and no unwind
/// tables.
const COPY_MAX: u64 = 256 << 20;

/// An open regular file and its bytes.
#[derive(Debug)]
pub struct MappedFile {
    file: File,
    bytes: FileBytes,
    modified: Option<SystemTime>,
}

/// Maximum size of all copies together.
const COPIES_MAX: u64 = 512 << 20;

/// Current size of all copies together.
static COPIED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
enum FileBytes {
    Mapped(Mmap),
    Copied(FileCopy),
}

/// A copy of a file's bytes, included in `COPIED` until it is dropped.
#[derive(Debug)]
struct FileCopy(Vec<u8>);

impl FileCopy {
    fn read(file: &File, length: u64) -> io::Result<FileCopy> {
        let copied_before = COPIED.fetch_add(length, Ordering::Relaxed);
        if length > COPY_MAX || copied_before + length > COPIES_MAX {
            COPIED.fetch_sub(length, Ordering::Relaxed);
            return Err(io::Error::other(
                "other users can write it, and it cannot be copied: copies are limited to 256 MiB \
                 each, 512 MiB together",
            ));
        }
        let mut copied = FileCopy(vec![0; length as usize]);
        std::os::unix::fs::FileExt::read_exact_at(file, &mut copied.0, 0)?;
        Ok(copied)
    }
}

impl Drop for FileCopy {
    fn drop(&mut self) {
        COPIED.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// Device and inode of a file, as the kernel reports them for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Major number of the device.
    pub major: u32,
    /// Minor number of the device.
    pub minor: u32,
    /// Inode number.
    pub number: u64,
}

impl MappedFile {
    /// Opens a file with [`open_regular`], and maps or copies all of it.
    ///
    /// # Errors
    /// Those of [`open_regular`]; the file is empty; or other users can write it and there is no
    /// room for a copy.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let file = open_regular(path, Links::Followed)?;
        match writer(&file) {
            // SAFETY: getuid cannot fail.
            Some(user) if user == 0 || user == unsafe { libc::getuid() } => MappedFile::map(file),
            _ => MappedFile::copy(file),
        }
    }

    /// Creates a file in memory with these bytes, to which no path leads.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub fn of_bytes(name: &CStr, bytes: &[u8]) -> io::Result<MappedFile> {
        MappedFile::of_parts(name, bytes.len() as u64, &[(0, bytes)])
    }

    /// Like [`MappedFile::of_bytes`], with `length` bytes: these parts at their offsets, and zeros
    /// between them, which take no memory.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub fn of_parts(
        name: &CStr,
        length: u64,
        parts: &[(u64, impl AsRef<[u8]>)],
    ) -> io::Result<MappedFile> {
        // SAFETY: the name ends in a NUL and is only read.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(length)?;
        for (offset, bytes) in parts {
            std::os::unix::fs::FileExt::write_all_at(&file, bytes.as_ref(), *offset)?;
        }
        MappedFile::map(file)
    }

    fn map(file: File) -> io::Result<MappedFile> {
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(not_regular());
        }
        sigbus::read_as_zeros();
        // SAFETY: the mapping is read-only and private, and no process writes the file: it is one
        // that this process created without a path, or `open` has checked that only root or this
        // user can write it. If they truncate it, it reads as zeros beyond its end.
        let map = unsafe { Mmap::map(&file)? };
        Ok(MappedFile { modified: metadata.modified().ok(), file, bytes: FileBytes::Mapped(map) })
    }

    fn copy(file: File) -> io::Result<MappedFile> {
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(not_regular());
        }
        let bytes = FileBytes::Copied(FileCopy::read(&file, metadata.len())?);
        Ok(MappedFile { modified: metadata.modified().ok(), file, bytes })
    }

    /// Returns whether the file has the size and modification time that it had when it was mapped
    /// or copied.
    pub fn is_intact(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| {
            metadata.len() == self.len() as u64 && metadata.modified().ok() == self.modified
        })
    }

    /// Returns a path that leads to this file as long as this value exists.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Returns the inode that `stat` reports. On overlayfs and btrfs, its device differs from that
    /// of [`MappedFile::inode_of_mapping`].
    ///
    /// # Errors
    /// The file system failed.
    pub fn inode(&self) -> io::Result<Inode> {
        let metadata = self.file.metadata()?;
        let device = metadata.dev();
        Ok(Inode { major: libc::major(device), minor: libc::minor(device), number: metadata.ino() })
    }

    /// Returns the inode that the kernel reports for a mapping of this file, in this process as in
    /// any other.
    ///
    /// # Errors
    /// The file cannot be mapped, or /proc is not mounted.
    pub fn inode_of_mapping(&self) -> io::Result<Inode> {
        // SAFETY: the mapping is never read; only its address is compared.
        let map = unsafe { MmapOptions::new().len(1).map(&self.file)? };
        let address = map.as_ptr() as u64;
        let row = maps::own()?.into_iter().find(|row| row.start <= address && address < row.end());
        let row =
            row.ok_or_else(|| io::Error::other("failed to find a mapping of this process"))?;
        Ok(Inode { major: row.major, minor: row.minor, number: row.inode })
    }

    /// Returns the only user besides root who can write the file. None if other users can, or if
    /// the file system is mounted nosuid: any user may have created such a one, so its answer is
    /// not trusted.
    pub fn writer(&self) -> Option<u32> {
        writer(&self.file)
    }

    /// Returns the generation of the inode; None if the file system does not report it
    /// (`FS_IOC_GETVERSION`).
    pub fn generation(&self) -> Option<u32> {
        let mut generation: libc::c_long = 0;
        // SAFETY: the kernel writes an int, which fits into a long; see `ioctl_iflags(2)`.
        let failed = unsafe {
            libc::ioctl(self.file.as_raw_fd(), libc::FS_IOC_GETVERSION, &raw mut generation)
        };
        (failed == 0).then_some(generation as u32)
    }
}

/// How to treat a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Follow it.
    Followed,
    /// Refuse it, like any file that is not regular.
    Refused,
}

/// Opens a regular file for reading. Checks the type before it opens the file: a user who may write
/// the path could have put a pipe there, which blocks the open, or a link to a device, which may
/// act when root opens it.
///
/// # Errors
/// The file does not exist, may not be read, or is not a regular file.
pub fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    let flags = match links {
        Links::Followed => libc::O_PATH,
        Links::Refused => libc::O_PATH | libc::O_NOFOLLOW,
    };
    let found = File::options().read(true).custom_flags(flags).open(path)?;
    if !found.metadata()?.is_file() {
        return Err(not_regular());
    }
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

fn not_regular() -> io::Error {
    io::Error::other("not a regular file, or an empty one")
}

/// See [`MappedFile::writer`].
fn writer(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    // SAFETY: zeros are a valid statvfs.
    let mut mount: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes its answer to a structure of the right size.
    let failed = unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut mount) };
    let trusted = failed == 0 && mount.f_flag & libc::ST_NOSUID == 0;
    (trusted && metadata.mode() & 0o022 == 0).then(|| metadata.uid())
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            FileBytes::Mapped(map) => map,
            FileBytes::Copied(copied) => &copied.0,
        }
    }
}

/// Returns the vDSO of this process: the code that the kernel maps into every process of the same
/// kind.
///
/// # Errors
/// There is no vDSO, or /proc is not mounted.
pub fn vdso() -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let rows = maps::own()?;
    let row = rows.iter().find(|row| row.path == b"[vdso]");
    let row = row.ok_or_else(|| io::Error::other("there is no [vdso] mapping"))?;
    let mut bytes = vec![0; row.length as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, row.start)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_has_the_inode_of_its_mapping_and_survives_the_removal_of_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let held = MappedFile::open(&path).unwrap();
        let (by_stat, by_mapping) = (held.inode().unwrap(), held.inode_of_mapping().unwrap());
        assert_eq!(by_stat.number, by_mapping.number);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&held[..], b"bytes");
        assert!(held.is_intact());
        assert_eq!(std::fs::read(held.path()).unwrap(), b"bytes");
    }

    #[test]
    fn a_file_written_since_is_not_intact() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let held = MappedFile::open(&path).unwrap();
        std::fs::write(&path, b"byte").unwrap();
        assert!(!held.is_intact());
    }

    #[test]
    fn a_file_that_other_users_can_write_is_copied() {
        use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let held = MappedFile::open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().write_all_at(b"other", 0).unwrap();
        assert_eq!(&held[..], b"bytes");
        assert_eq!(held.inode_of_mapping().unwrap().number, held.inode().unwrap().number);
        let large = directory.path().join("large");
        File::create(&large).unwrap().set_len(COPY_MAX + 1).unwrap();
        std::fs::set_permissions(&large, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(MappedFile::open(&large).unwrap_err().to_string().contains("cannot be copied"));
    }

    #[test]
    fn only_regular_nonempty_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        let (pipe, link) = (directory.path().join("pipe"), directory.path().join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for path in [&*empty, directory.path(), &pipe, &link, Path::new("/nowhere")] {
            assert!(MappedFile::open(path).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn the_vdso_is_an_elf_file_that_can_be_mapped() {
        let bytes = vdso().unwrap();
        assert!(bytes.starts_with(b"\x7fELF"));
        let held = MappedFile::of_bytes(c"vdso", &bytes).unwrap();
        assert_eq!(&held[..], bytes);
    }
}
