//! The file of a program whose code is probed.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use memmap2::{Mmap, MmapOptions};

/// A file that is kept open, so that the kernel opens the same file that was examined: in another
/// one, the offset could lie in the middle of an instruction, and a breakpoint there kills every
/// process that runs it.
#[derive(Debug)]
pub struct Code {
    file: File,
    /// A path that leads to the file.
    path: CString,
    /// Device, inode, size and modification time.
    state: [i64; 5],
    /// A private mapping of the file. Linux checks the instruction of a probe when it puts the
    /// probe into a mapping: without one, it accepts an instruction that it cannot execute
    /// elsewhere, and the probe is never hit.
    _mapping: Option<Mmap>,
}

impl Code {
    /// Keeps a regular file open.
    ///
    /// # Errors
    /// Its metadata cannot be read.
    pub fn of(file: File) -> io::Result<Code> {
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        // SAFETY: nothing reads or writes the mapping.
        let _mapping = unsafe { MmapOptions::new().map_copy_read_only(&file) }.ok();
        Ok(Code { state: state(&file)?, file, path, _mapping })
    }

    /// Returns a path that leads to the file as long as this value exists.
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// Returns whether the file has not been written to since it was opened here.
    pub fn is_intact(&self) -> bool {
        state(&self.file).is_ok_and(|now| now == self.state)
    }

    /// Makes the kernel read the page at `offset` from the disk: ext4 logged a warning (seen on
    /// 6.18) when the first probe there had to do so.
    pub fn warm(&self, offset: u64) {
        // If it cannot be read, the kernel reports that when the probe is opened.
        let _ = self.file.read_at(&mut [0], offset);
    }
}

fn state(file: &File) -> io::Result<[i64; 5]> {
    let metadata = file.metadata()?;
    Ok([
        metadata.dev().cast_signed(),
        metadata.ino().cast_signed(),
        metadata.size().cast_signed(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    ])
}

impl PartialEq for Code {
    fn eq(&self, other: &Code) -> bool {
        self.state == other.state
    }
}
