//! Mapped files that are cut short under our feet: the pages that are gone read as zeros.
//!
//! Whoever may write a file that this process has mapped can shorten it at any time, and reading a page behind the new
//! end is SIGBUS: any local user could end a run of root and lose its report. So such a page is replaced by one of zeros.
//! Readers of mapped files take their bytes as untrusted anyway; [`super::held::Held::is_intact`] tells of the change.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is done at SIGBUS without us.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Bytes of a page; read once, as a signal handler may not ask.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// From here on reading behind the end of a mapped file gives zeros. Once is enough; a failure leaves all as it was.
pub(super) fn read_as_zeros() {
    BEFORE.get_or_init(|| {
        PAGE.store(super::machine::page_size(), Ordering::Relaxed);
        // SAFETY: all zeros are a valid sigaction, of the default action.
        let [mut action, mut before] = unsafe { std::mem::zeroed::<[libc::sigaction; 2]>() };
        action.sa_sigaction = on_bus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler does what may be done in one: a system call and loads of what was stored before it stood.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) };
        before
    });
}

/// In the signal handler.
extern "C" fn on_bus(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes what it says of the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let page = PAGE.load(Ordering::Relaxed);
    if code == libc::BUS_ADRERR && page != 0 {
        let start = (address & !(page - 1)) as *mut c_void;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page cannot be read by anybody: it belongs to a mapping of a file that ends before it. No byte that
        // could be read changes.
        let zeros = unsafe { libc::mmap(start, page, libc::PROT_READ, flags, -1, 0) };
        if zeros != libc::MAP_FAILED {
            return;
        }
    }
    // Anything else, such as broken memory, takes its usual way when the instruction is tried again.
    let before = BEFORE.get().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the action is the one that stood before; none leaves the present one, which ends in the default below.
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
    use crate::sys::held::Held;

    #[test]
    fn a_file_that_is_cut_short_reads_as_zeros_behind_its_end() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        let page = super::super::machine::page_size();
        std::fs::write(&path, vec![7; 3 * page])?;
        let held = Held::open(&path)?;
        assert_eq!(held[2 * page], 7);
        std::fs::OpenOptions::new().write(true).open(&path)?.set_len(page as u64)?;
        assert!(!held.is_intact());
        assert_eq!((held[0], held[page], held[3 * page - 1]), (7, 0, 0));
        Ok(())
    }
}
