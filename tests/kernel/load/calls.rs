//! System calls with arguments that differ.

use super::Load;

/// The first argument of [`getppid_with_arguments`].
pub(crate) const FIRST_ARGUMENT: u64 = 1 << 40;

/// Calls getppid with `n` numbers from [`FIRST_ARGUMENT`] on, which the kernel ignores and records.
pub(crate) fn getppid_with_arguments(n: u32) -> Load {
    Load::new(move || {
        for argument in FIRST_ARGUMENT..FIRST_ARGUMENT + u64::from(n) {
            // SAFETY: the call takes no argument, and changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid, argument) };
        }
    })
}
