//! System calls with arguments that differ.

use super::Load;

/// Position of the process in the arguments of [`getppid_with_arguments`].
pub(crate) const PROCESS_SHIFT: u32 = 24;

/// Calls getppid with `n` numbers that no other process passes: its own, shifted by
/// [`PROCESS_SHIFT`], and those behind it. The kernel ignores and records them.
pub(crate) fn getppid_with_arguments(n: u32) -> Load {
    Load::new(move || {
        let first = u64::from(std::process::id()) << PROCESS_SHIFT;
        for argument in first..first + u64::from(n) {
            // SAFETY: the call takes no argument, and changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid, argument) };
        }
    })
}
