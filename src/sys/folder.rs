//! An open folder, and operations on names in it.
//!
//! All operations use the folder's descriptor (`openat(2)` and similar calls) instead of a path, so
//! that a rename by another process cannot redirect them.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// Permissions of new files, before the umask.
const MODE: libc::mode_t = 0o666;

/// Permissions of new folders, before the umask.
const FOLDER_MODE: libc::mode_t = 0o777;

/// An open folder.
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Opens the root of the file system.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn root() -> io::Result<Folder> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        Ok(Folder(File::options().read(true).custom_flags(flags).open("/")?))
    }

    /// Wraps a folder that [`Folder::look`] opened.
    pub fn of(file: File) -> Folder {
        Folder(file)
    }

    /// Returns the owner and mode.
    ///
    /// # Errors
    /// The file system failed.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Opens a name with `O_PATH`, which neither blocks on a FIFO nor opens a device. With `follow`
    /// false, opens a symbolic link itself.
    ///
    /// # Errors
    /// There is no such name, or the folder may not be searched.
    pub fn look(&self, name: &OsStr, follow: bool) -> io::Result<File> {
        let links = if follow { 0 } else { libc::O_NOFOLLOW };
        self.open(name, libc::O_PATH | links)
    }

    /// Opens a name with these flags, and with `O_CLOEXEC`.
    ///
    /// # Errors
    /// Those of openat(2), or the name contains a NUL.
    pub fn open(&self, name: &OsStr, flags: libc::c_int) -> io::Result<File> {
        let name = c_string(name)?;
        // SAFETY: the name ends in a NUL and is only read.
        let fd = unsafe {
            libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC, MODE)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nothing else.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    /// Opens a file without a name, to be written and named later.
    ///
    /// # Errors
    /// The file system does not support such files, or the folder may not be written.
    pub fn unnamed(&self) -> io::Result<File> {
        self.open(OsStr::new("."), libc::O_TMPFILE | libc::O_RDWR)
    }

    /// Gives an unnamed file a name that does not exist yet.
    ///
    /// # Errors
    /// The name exists, or /proc is not mounted.
    pub fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let own = c_string(OsStr::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
        let name = c_string(name)?;
        // SAFETY: both names end in a NUL and are only read.
        done(unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                own.as_ptr(),
                self.0.as_raw_fd(),
                name.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        })
    }

    /// Renames `from` to `to`, which is replaced.
    ///
    /// # Errors
    /// Those of renameat(2), or a name contains a NUL.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (c_string(from)?, c_string(to)?);
        let folder = self.0.as_raw_fd();
        // SAFETY: both names end in a NUL and are only read.
        done(unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) })
    }

    /// Removes a name that is not a folder.
    ///
    /// # Errors
    /// Those of unlinkat(2), or the name contains a NUL.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = c_string(name)?;
        // SAFETY: the name ends in a NUL and is only read.
        done(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), 0) })
    }

    /// Creates a folder.
    ///
    /// # Errors
    /// Those of mkdirat(2), or the name contains a NUL.
    pub fn make(&self, name: &OsStr) -> io::Result<()> {
        let name = c_string(name)?;
        // SAFETY: the name ends in a NUL and is only read.
        done(unsafe { libc::mkdirat(self.0.as_raw_fd(), name.as_ptr(), FOLDER_MODE) })
    }

    /// Checks that this process may create files in the folder.
    ///
    /// # Errors
    /// `EACCES` without the permission, `EROFS` on a read-only file system, and others of
    /// faccessat(2).
    pub fn check_writable(&self) -> io::Result<()> {
        let flags = libc::AT_EACCESS;
        // SAFETY: the name ends in a NUL and is only read.
        done(unsafe {
            libc::faccessat(self.0.as_raw_fd(), c".".as_ptr(), libc::W_OK | libc::X_OK, flags)
        })
    }

    /// Returns the names in the folder.
    ///
    /// # Errors
    /// The folder may not be read, or /proc is not mounted.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?;
        Ok(entries.flatten().map(|entry| entry.file_name()).collect())
    }

    /// Returns whether the folder is in /proc, whose links (`/proc/self/fd/1`) may refer to files
    /// without a path.
    pub fn is_of_proc(&self) -> bool {
        // SAFETY: zeros are a valid statfs.
        let mut mount: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes its answer to a structure of the right size.
        let failed = unsafe { libc::fstatfs(self.0.as_raw_fd(), &raw mut mount) };
        failed == 0 && mount.f_type == libc::PROC_SUPER_MAGIC
    }
}

/// Returns the target of a symbolic link that [`Folder::look`] opened.
///
/// # Errors
/// It is not a link.
pub fn read_link(link: &File) -> io::Result<PathBuf> {
    const EMPTY: &CStr = c"";
    let mut target = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer has the length that is given, and the name ends in a NUL.
    let length = unsafe {
        libc::readlinkat(link.as_raw_fd(), EMPTY.as_ptr(), target.as_mut_ptr().cast(), target.len())
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    target.truncate(length);
    Ok(OsString::from_vec(target).into())
}

/// Reopens a file that [`Folder::look`] found, with these flags.
///
/// # Errors
/// Those of openat(2), or /proc is not mounted.
pub fn reopen(found: &File, flags: libc::c_int) -> io::Result<File> {
    Folder::root()?.open(OsStr::new(&format!("/proc/self/fd/{}", found.as_raw_fd())), flags)
}

/// Clears `O_NONBLOCK`, so that writes block when there is no room.
///
/// # Errors
/// Those of fcntl(2).
pub fn set_blocking(file: &File) -> io::Result<()> {
    // SAFETY: F_GETFL takes no further argument.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: F_SETFL takes a number.
    done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })
}

/// Locks a file until it is closed (`flock(2)`). Returns false if another process holds the lock.
pub fn try_lock(file: &File) -> bool {
    // SAFETY: flock takes no pointer.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_writable_has_the_error_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &std::path::Path| Folder::of(File::open(path).unwrap());
        assert!(open(folder.path()).check_writable().is_ok());
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let why = open(&file).check_writable().unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::ENOTDIR));
    }
}
