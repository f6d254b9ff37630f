//! The errno of an [`io::Error`].

use std::io;

/// Returns the errno of a failed system call; `EIO` if the error has none.
pub(crate) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
