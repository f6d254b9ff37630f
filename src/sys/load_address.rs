//! Where a program or library is loaded in the memory of a process.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::maps::{self, ProcMapping};

/// A file, and its executable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedFile {
    /// Device and inode number of the file, as stat(2) returns them.
    pub file: (u64, u64),
    /// Offset of the segment in the file, in bytes.
    pub offset: u64,
    /// Address of the segment before relocation.
    pub address: u64,
    /// Whether a process may map it after its exec; false for a file that can only be executed.
    pub is_library: bool,
}

impl LoadedFile {
    /// Returns what must be added to an address of the file for a process, given one of its
    /// threads; None if the process has not mapped the file, or the file's addresses are those of
    /// a kernel. A program at fixed addresses has 0.
    ///
    /// # Errors
    /// There is no such thread, or this user may not read its mappings.
    pub fn bias(&self, tid: u32) -> io::Result<Option<i64>> {
        /// Segments are mapped by whole pages of at least this size.
        const PAGE: u64 = 4096;
        let begin = self.offset & !(PAGE - 1);
        // A process may also map the file as data, anywhere, but not executable.
        let mapped = maps::executable(tid)?;
        let code = mapped
            .iter()
            .find(|row| row.inode != 0 && row.offset == begin && self.is_mapped_by(row, tid));
        let linked = i64::try_from(self.address & !(PAGE - 1)).ok();
        let start = code.and_then(|row| i64::try_from(row.start).ok());
        Ok(start.zip(linked).map(|(start, linked)| start - linked))
    }

    /// Returns whether a mapping is of the file. On some file systems the device in the list of
    /// mappings differs from that of stat(2), so the file is compared by its path first. The inode
    /// number excludes another file that has replaced it under this path; overlayfs may set the
    /// high half of the number that stat(2) returns.
    fn is_mapped_by(&self, row: &ProcMapping, tid: u32) -> bool {
        if row.inode as u32 != self.file.1 as u32 {
            return false;
        }
        let inside = OsStr::from_bytes(row.path.strip_prefix(b"/").unwrap_or(&row.path));
        let path = Path::new("/proc").join(tid.to_string()).join("root").join(inside);
        match std::fs::metadata(path) {
            Ok(found) if (found.dev(), found.ino()) == self.file => true,
            // Deleted or replaced.
            _ => (libc::makedev(row.major, row.minor), row.inode) == self.file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_process_has_not_mapped_has_no_bias() {
        let own = std::process::id();
        let program = std::fs::metadata("/proc/self/exe").unwrap();
        let here = a_file_that_a_process_has_not_mapped_has_no_bias as fn() as usize as u64;
        let mapped = maps::executable(own).unwrap();
        let code = mapped.iter().find(|row| (row.start..row.end()).contains(&here)).unwrap();
        let file = (program.dev(), program.ino());
        let loaded = LoadedFile { file, offset: code.offset, address: 0, is_library: false };
        let start = loaded.bias(own).unwrap().unwrap() as u64;
        assert!((start..start + (1 << 32)).contains(&here), "{start:#x} {here:#x}");
        let of_kernel = LoadedFile { address: u64::MAX - 0xfff, ..loaded };
        assert_eq!(of_kernel.bias(own).unwrap(), None);
        let other = LoadedFile { file: (program.dev(), u64::MAX), ..loaded };
        assert_eq!(other.bias(own).unwrap(), None);
        assert!(loaded.bias(u32::MAX).is_err());
    }
}
