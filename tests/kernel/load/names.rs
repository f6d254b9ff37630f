//! Workloads that pass names to system calls.

use std::ffi::CString;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use super::Load;

/// Tries to open each file, with `O_RDONLY` and `O_PATH` in turn.
pub(crate) fn opens_names(names: &[CString]) -> Load {
    Load::new(|| {
        for (at, name) in names.iter().enumerate() {
            let flags = if at % 2 == 0 { libc::O_RDONLY } else { libc::O_PATH };
            // SAFETY: a NUL-terminated string.
            unsafe { libc::openat(libc::AT_FDCWD, name.as_ptr(), flags) };
        }
    })
}

/// Tries to link each file to a name below /proc, which is refused.
pub(crate) fn links_names(names: &[CString]) -> Load {
    // Constants of the program may be on a page that is not in memory yet.
    let to = c"/proc/none/name".to_owned();
    Load::new(|| {
        for name in names {
            // SAFETY: NUL-terminated strings.
            unsafe { libc::syscall(libc::SYS_link, name.as_ptr(), to.as_ptr()) };
        }
    })
}

/// Opens a name twice that is on a page of a file which is not in the task's page table before.
pub(crate) fn opens_untouched_name() -> Load {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(b"/tmp/perilune-untouched\0").expect("the file can be written");
    Load::new(move || {
        // SAFETY: a new mapping of an open file.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        for _ in 0..2 {
            // SAFETY: the page begins with a NUL-terminated string.
            unsafe { libc::openat(libc::AT_FDCWD, page.cast(), libc::O_RDONLY) };
        }
    })
}

/// Tries to open each file the given number of times; the files need not exist. The names are in
/// memory that the task has written.
pub(crate) fn opens(files: [(&'static std::ffi::CStr, u64); 2]) -> Load {
    Load::new(move || {
        for (name, times) in files {
            let mut copy = [0u8; 64];
            copy[..name.count_bytes()].copy_from_slice(name.to_bytes());
            let copy = std::hint::black_box(copy);
            for _ in 0..times {
                // SAFETY: a NUL-terminated string; opened files are closed when the child exits.
                unsafe { libc::openat(libc::AT_FDCWD, copy.as_ptr().cast(), libc::O_RDONLY) };
            }
        }
    })
}
