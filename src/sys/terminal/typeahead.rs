//! The terminal between the lines of a prompt: input typed meanwhile waits, without echo, for the
//! next line.
//!
//! In the terminal's usual mode, the input would be echoed into the output, and an incomplete line
//! would be dropped when the prompt takes over. Ctrl-C stays a signal.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use super::settings;

/// The settings to restore; null if there are none.
static BEFORE: AtomicPtr<libc::termios> = AtomicPtr::new(ptr::null_mut());

/// Keeps stdin in this mode until it is dropped.
#[derive(Debug)]
pub struct Typeahead(());

impl Typeahead {
    /// Switches the mode on; returns None if stdin is not a terminal.
    pub fn begin() -> Option<Typeahead> {
        let before = settings(libc::STDIN_FILENO).ok()?;
        let mut quiet = before;
        quiet.c_lflag &= !(libc::ICANON | libc::ECHO);
        quiet.c_cc[libc::VMIN] = 1;
        quiet.c_cc[libc::VTIME] = 0;
        BEFORE.store(Box::into_raw(Box::new(before)), SeqCst);
        // SAFETY: reads the settings, which are a copy of the terminal's own.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, &raw const quiet) };
        Some(Typeahead(()))
    }
}

impl Drop for Typeahead {
    fn drop(&mut self) {
        put_back();
    }
}

/// Prepares the terminal for an editor that keeps signals on (`ISIG`), or undoes that: Ctrl-C keeps
/// pending input, and the characters of SIGTSTP and SIGQUIT are keys, since the kernel would stop
/// or end the process in raw mode. Has no effect without a [`Typeahead`].
pub fn set_editing(editing: bool) {
    let before = BEFORE.load(SeqCst);
    let Ok(mut now) = settings(libc::STDIN_FILENO) else { return };
    // SAFETY: null, or a box that `begin` leaked, which is never freed or written to.
    let Some(before) = (unsafe { before.as_ref() }) else { return };
    for key in [libc::VSUSP, libc::VQUIT] {
        now.c_cc[key] = if editing { libc::_POSIX_VDISABLE } else { before.c_cc[key] };
    }
    now.c_lflag &= !libc::NOFLSH;
    now.c_lflag |= if editing { libc::NOFLSH } else { before.c_lflag & libc::NOFLSH };
    // SAFETY: reads the settings, which are a live local.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, &raw const now) };
}

/// Restores the settings, if they were changed. Async-signal-safe: does not free them.
pub(super) fn put_back() {
    let before = BEFORE.swap(ptr::null_mut(), SeqCst);
    if !before.is_null() {
        // SAFETY: `begin` created it and nothing frees it; tcsetattr is async-signal-safe.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, before) };
    }
}
