//! The user of this process, and the owner of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// Returns the effective user id: 0 is root.
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns whether a file or folder belongs to that user, and neither its group nor others may
/// write it.
pub fn is_only_of(file: &Metadata, uid: u32) -> bool {
    file.uid() == uid && file.mode() & 0o022 == 0
}
