//! System calls with arguments that differ.

use std::ffi::CStr;

use super::{Load, call_getppid, pin_to_cpu};

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

/// Forks `children` one after the other, each of which forks a child of its own. All of them and
/// the task itself call getppid `n` times.
pub(crate) fn getppid_in_tree(children: u32, n: u32) -> Load {
    let calls = move || {
        for _ in 0..n {
            // SAFETY: takes no argument, changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
    };
    let in_child = |work: &dyn Fn()| {
        // SAFETY: this child has one thread; its own child ends without returning.
        unsafe {
            match libc::fork() {
                0 => {
                    work();
                    libc::_exit(0)
                }
                child => libc::waitpid(child, std::ptr::null_mut(), 0),
            };
        }
    };
    Load::new(move || {
        for _ in 0..children {
            in_child(&|| {
                in_child(&calls);
                calls();
            });
        }
        calls();
    })
}

/// Forks children one after the other, which take the name on one CPU and then call getppid `n`
/// times on another.
pub(crate) fn getppid_renamed_elsewhere(children: u32, name: &'static CStr, n: u32) -> Load {
    Load::new(move || {
        for i in 0..children as usize {
            // SAFETY: this child has one thread; its own child ends without returning. The name
            // ends in NUL.
            unsafe {
                match libc::fork() {
                    0 => {
                        pin_to_cpu(i % 2);
                        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
                        pin_to_cpu(1 - i % 2);
                        call_getppid(n);
                        libc::_exit(0)
                    }
                    child => libc::waitpid(child, std::ptr::null_mut(), 0),
                };
            }
        }
    })
}
