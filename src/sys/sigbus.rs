//! Mapped files that are truncated: the pages that are gone read as zeros.
//!
//! A user who may write a file that this process has mapped can truncate it at any time, and
//! reading a page beyond the new end raises SIGBUS: any local user could end a run of root and lose
//! its report. Therefore such a page is replaced by one of zeros. Readers of mapped files treat
//! their bytes as untrusted anyway; [`super::mapped_file::MappedFile::is_intact`] reports the
//! change.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The previous action of SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Page size in bytes; read once, as a signal handler may not query it.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Makes reads beyond the end of a mapped file return zeros from now on. Installed once; a failure
/// changes nothing.
pub(super) fn read_as_zeros() {
    BEFORE.get_or_init(|| {
        PAGE.store(super::machine::page_size(), Ordering::Relaxed);
        // SAFETY: zeros are a valid sigaction, of the default action.
        let [mut action, mut before] = unsafe { std::mem::zeroed::<[libc::sigaction; 2]>() };
        action.sa_sigaction = on_bus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler does what a signal handler may do: a system call, and loads of values
        // that were stored before it was installed.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
        before
    });
}

/// Handles SIGBUS.
extern "C" fn on_bus(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes the information about the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let page = PAGE.load(Ordering::Relaxed);
    if code == libc::BUS_ADRERR && page != 0 {
        let start = (address & !(page - 1)) as *mut c_void;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page is not readable: it belongs to a mapping of a file that ends before it.
        // No byte that could be read changes.
        let zeros = unsafe { libc::mmap(start, page, libc::PROT_READ, flags, -1, 0) };
        if zeros != libc::MAP_FAILED {
            return;
        }
    }
    // Anything else, such as broken memory, gets its usual action when the instruction is retried.
    let before = BEFORE.get().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the action is the previous one, or the default if that is unknown.
    unsafe {
        if before.is_null() {
            libc::signal(signal, libc::SIG_DFL);
        } else {
            libc::sigaction(signal, before, ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sys::mapped_file::MappedFile;

    #[test]
    fn a_truncated_file_reads_as_zeros_past_its_end() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        let page = super::super::machine::page_size();
        std::fs::write(&path, vec![7; 3 * page])?;
        let held = MappedFile::open(&path)?;
        assert_eq!(held[2 * page], 7);
        std::fs::OpenOptions::new().write(true).open(&path)?.set_len(page as u64)?;
        assert!(!held.is_intact());
        assert_eq!((held[0], held[page], held[3 * page - 1]), (7, 0, 0));
        Ok(())
    }
}
