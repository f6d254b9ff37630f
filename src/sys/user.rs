//! Who this process acts as, and whose a file is.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// The effective user id: 0 is root.
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether a file or folder is that user's, and neither group nor others may write it.
pub fn is_only_of(file: &Metadata, uid: u32) -> bool {
    file.uid() == uid && file.mode() & 0o022 == 0
}
