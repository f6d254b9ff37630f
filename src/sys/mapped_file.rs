//! Files that are kept open for reading, whatever happens to their paths.
//!
//! Maps a file that only root or this user can write. Copies any other file into memory, since its
//! owner could change the bytes of a mapping while a slice of them is in use.

use std::cell::Cell;
use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::ops::Deref;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Mmap, MmapOptions};

use super::{maps, sigbus};

#[cfg(test)]
mod tests;

/// Maximum size of a copy. A larger file that other users can write has no symbols and no unwind
/// tables.
const COPY_MAX: u64 = 256 << 20;

/// Maximum size of all copies together.
const COPIES_MAX: u64 = 512 << 20;

/// Current size of all copies together.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// An open regular file and its bytes.
#[derive(Debug)]
pub struct MappedFile {
    /// The file itself, also if its bytes are those of a copy.
    file: File,
    /// The file's bytes, or those of the copy.
    bytes: Mmap,
    copy: Option<FileCopy>,
    version: Cell<FileVersion>,
}

/// The values that change when a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    length: u64,
    /// Modification time in seconds and nanoseconds. The owner can set it.
    modified: (i64, i64),
    /// Time of the last change of the file or its inode. No user can set it.
    changed: (i64, i64),
}

impl FileVersion {
    fn of(metadata: &Metadata) -> FileVersion {
        FileVersion {
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A copy of a file in memory, included in `COPIED` until it is dropped.
#[derive(Debug)]
struct FileCopy {
    memory: File,
    length: u64,
}

impl FileCopy {
    fn read(file: &File, length: u64) -> io::Result<FileCopy> {
        let copied_before = COPIED.fetch_add(length, Ordering::Relaxed);
        if length > COPY_MAX || copied_before + length > COPIES_MAX {
            COPIED.fetch_sub(length, Ordering::Relaxed);
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "other users can write it, and it cannot be copied: copies are limited to 256 MiB \
                 each, 512 MiB together",
            ));
        }
        // Frees the room if an error follows.
        let mut copy = FileCopy { memory: memory_file(c"copy")?, length };
        if io::copy(&mut file.take(length), &mut copy.memory)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(copy)
    }
}

impl Drop for FileCopy {
    fn drop(&mut self) {
        COPIED.fetch_sub(self.length, Ordering::Relaxed);
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
    /// Those of [`open_regular`]; the file is empty; or `FileTooLarge`: other users can write it
    /// and there is no room for a copy.
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
        let file = memory_file(name)?;
        file.set_len(length)?;
        for (offset, bytes) in parts {
            file.write_all_at(bytes.as_ref(), *offset)?;
        }
        MappedFile::map(file)
    }

    fn map(file: File) -> io::Result<MappedFile> {
        let version = Cell::new(FileVersion::of(&regular(&file)?));
        // SAFETY: no process writes the file: it is one that this process created without a path,
        // or `open` has checked that only root or this user can write it.
        let bytes = unsafe { mapping(&file)? };
        Ok(MappedFile { file, bytes, copy: None, version })
    }

    fn copy(file: File) -> io::Result<MappedFile> {
        let version = FileVersion::of(&regular(&file)?);
        let copy = FileCopy::read(&file, version.length)?;
        // SAFETY: this process created the file without a path and has finished writing it.
        let bytes = unsafe { mapping(&copy.memory)? };
        Ok(MappedFile { file, bytes, copy: Some(copy), version: Cell::new(version) })
    }

    /// Returns whether the file has the size and modification time that it had when it was mapped
    /// or copied. If another user can write it and its inode has changed since, its bytes are
    /// compared with the copy: its owner can set the modification time, while a new name or link
    /// changes only the inode.
    pub fn is_intact(&self) -> bool {
        let Ok(metadata) = self.file.metadata() else { return false };
        let (now, before) = (FileVersion::of(&metadata), self.version.get());
        if (now.length, now.modified) != (before.length, before.modified) {
            return false;
        }
        if self.copy.is_some() && now.changed != before.changed {
            if !has_bytes(&self.file, &self.bytes) {
                return false;
            }
            self.version.set(now);
        }
        true
    }

    /// Returns a path that leads to the bytes as long as this value exists: to the file, or to its
    /// copy.
    pub fn path(&self) -> PathBuf {
        let file = self.copy.as_ref().map_or(&self.file, |copy| &copy.memory);
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
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

/// Returns the metadata of a regular file that is not empty.
fn regular(file: &File) -> io::Result<Metadata> {
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() > 0 { Ok(metadata) } else { Err(not_regular()) }
}

/// Maps all bytes of a file for reading. If it is truncated, it reads as zeros beyond its end.
///
/// # Safety
/// No process that this one does not trust may write the file.
unsafe fn mapping(file: &File) -> io::Result<Mmap> {
    sigbus::read_as_zeros();
    // SAFETY: the mapping is read-only and private; the caller ensures that no process writes the
    // file.
    unsafe { Mmap::map(file) }
}

/// The types of the running kernel (BTF), without its modules.
pub const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Maps [`KERNEL_TYPES`].
///
/// # Errors
/// The file cannot be opened, or the kernel does not map it: it does since 6.16.
pub fn map_kernel_types() -> io::Result<Mmap> {
    let file = File::open(KERNEL_TYPES)?;
    sigbus::read_as_zeros();
    // SAFETY: the mapping is read-only and private, and the kernel does not change the bytes.
    unsafe { MmapOptions::new().map_copy_read_only(&file) }
}

/// Creates an empty file in memory, to which no path leads.
fn memory_file(name: &CStr) -> io::Result<File> {
    // `vm.memfd_noexec=2` requires the second flag, which kernels before 6.3 do not know.
    match memfd(name, libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL) {
        Err(why) if why.raw_os_error() == Some(libc::EINVAL) => memfd(name, libc::MFD_CLOEXEC),
        made => made,
    }
}

fn memfd(name: &CStr, flags: libc::c_uint) -> io::Result<File> {
    // SAFETY: the name ends in a NUL and is only read.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Returns whether a file begins with these bytes.
fn has_bytes(file: &File, bytes: &[u8]) -> bool {
    let mut read = vec![0; 1 << 16];
    let mut offset = 0;
    bytes.chunks(read.len()).all(|chunk| {
        let part = &mut read[..chunk.len()];
        let same = file.read_exact_at(part, offset).is_ok() && part == chunk;
        offset += chunk.len() as u64;
        same
    })
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
        &self.bytes
    }
}

/// Returns the vDSO of this process: the code that the kernel maps into every process of the same
/// kind.
///
/// # Errors
/// There is no vDSO, or /proc is not mounted.
pub fn vdso() -> io::Result<Vec<u8>> {
    let rows = maps::own()?;
    let row = rows.iter().find(|row| row.path == b"[vdso]");
    let row = row.ok_or_else(|| io::Error::other("there is no [vdso] mapping"))?;
    let mut bytes = vec![0; row.length as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, row.start)?;
    Ok(bytes)
}
