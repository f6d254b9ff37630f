//! The file of a program whose code is to be probed.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

/// A file that is kept open, so that the kernel is led to the very one that was looked into: in another, the place could lie in
/// the middle of an instruction, and a breakpoint there kills whoever runs it.
#[derive(Debug)]
pub struct Code {
    file: File,
    /// A path that leads to it.
    path: CString,
    /// Device, inode, and what changes when it is written to.
    state: [i64; 5],
}

impl Code {
    /// Keeps a regular file open.
    ///
    /// # Errors
    /// It cannot be looked at any more.
    pub fn of(file: File) -> io::Result<Code> {
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        Ok(Code { state: state(&file)?, file, path })
    }

    /// A path that leads to it as long as it is held.
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// Whether nobody has written to it since.
    pub fn is_intact(&self) -> bool {
        state(&self.file).is_ok_and(|now| now == self.state)
    }

    /// Has the kernel read a place of it from the disk: ext4 was seen to complain (a warning in the kernel's log, 6.18) when it
    /// had to do so on behalf of the first probe there.
    pub fn warm(&self, offset: u64) {
        // Where it cannot be read, the kernel says so when the probe is opened.
        let _ = self.file.read_at(&mut [0], offset);
    }
}

fn state(file: &File) -> io::Result<[i64; 5]> {
    let seen = file.metadata()?;
    Ok([
        seen.dev().cast_signed(),
        seen.ino().cast_signed(),
        seen.size().cast_signed(),
        seen.mtime(),
        seen.mtime_nsec(),
    ])
}

impl PartialEq for Code {
    fn eq(&self, other: &Code) -> bool {
        self.state == other.state
    }
}
