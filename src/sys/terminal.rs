//! The terminal as a full screen: single keys, the alternate screen, and restoring the terminal.
//!
//! Ctrl-C stays a signal, so that it reaches a run that is busy; Ctrl-Z and Ctrl-\ become keys,
//! because the kernel would stop or end the process while the screen is up. The state to restore is
//! stored in statics: a panic, the third interrupt, SIGQUIT and SIGABRT restore it, too (with
//! async-signal-safe calls only). A SIGTSTP from another process is pending until the run asks for
//! it ([`take_stop`]). Nothing is restored at SIGKILL, nor at a fault: SIGSEGV and SIGBUS are left
//! to the handler of the standard library, which reports a stack overflow.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering::SeqCst};

pub mod typeahead;

/// The settings to restore; null while the screen is not up.
static BEFORE: AtomicPtr<libc::termios> = AtomicPtr::new(ptr::null_mut());
/// The descriptor of these settings.
static KEYS: AtomicI32 = AtomicI32::new(-1);
/// Whether a SIGTSTP came while the screen was up.
static STOP: AtomicBool = AtomicBool::new(false);

/// Switches to the alternate screen, without a cursor; and back, with plain characters (xterm's
/// control sequences, ctlseqs).
const UP: &[u8] = b"\x1b[?1049h\x1b[?25l";
const DOWN: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// The process's terminal: stdout for drawing, the controlling terminal for keys.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
}

/// Size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// Returns the current width of stdout in characters; None if it is not a terminal or does not
/// report one.
pub fn columns() -> Option<usize> {
    size_of_stdout().map(|size| size.columns.into())
}

fn size_of_stdout() -> Option<Size> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: TIOCGWINSZ writes a winsize, which `size` has room for and zeros are a value of.
    let size = unsafe {
        (libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, size.as_mut_ptr()) == 0)
            .then(|| size.assume_init())
    }?;
    let known = size.ws_col > 0 && size.ws_row > 0;
    known.then_some(Size { columns: size.ws_col, rows: size.ws_row })
}

impl Terminal {
    /// Opens the terminal if stdout is one, it supports control sequences, and this process is in
    /// its foreground: a process started with `&` would be stopped for using it.
    pub fn open() -> Option<Terminal> {
        let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        if dumb || !super::streams::stdout_is_terminal() {
            return None;
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let keys = OpenOptions::new().read(true).custom_flags(flags).open("/dev/tty").ok()?;
        Some(Terminal { keys }).filter(Terminal::is_ours)
    }

    /// Returns whether this process is in the foreground, so that keys are for it.
    pub fn is_ours(&self) -> bool {
        // SAFETY: both only query; the descriptor is open.
        unsafe { libc::tcgetpgrp(self.keys.as_raw_fd()) == libc::getpgrp() }
    }

    /// Returns its current size; None if it does not report one.
    pub fn size(&self) -> Option<Size> {
        size_of_stdout()
    }

    /// Switches to the alternate screen; does nothing if it is up. Output written to stdout before
    /// stays on the other screen.
    ///
    /// # Errors
    /// The settings of the terminal cannot be read or changed.
    pub fn enter(&self) -> io::Result<()> {
        if !BEFORE.load(SeqCst).is_null() {
            return Ok(());
        }
        undo_at_panics();
        for signal in [libc::SIGQUIT, libc::SIGABRT] {
            change(signal, libc::SIG_DFL, ended as *const () as usize);
        }
        let before = settings(self.keys.as_raw_fd())?;
        let mut raw = before;
        raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::IEXTEN);
        raw.c_iflag &= !libc::IXON;
        raw.c_cc[libc::VMIN] = 1;
        raw.c_cc[libc::VTIME] = 0;
        raw.c_cc[libc::VSUSP] = libc::_POSIX_VDISABLE;
        raw.c_cc[libc::VQUIT] = libc::_POSIX_VDISABLE;
        KEYS.store(self.keys.as_raw_fd(), SeqCst);
        BEFORE.store(Box::into_raw(Box::new(before)), SeqCst);
        // A process that was put into the background meanwhile may still restore its terminal.
        // SAFETY: ignoring a signal needs no handler.
        unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
        // SAFETY: the descriptor is open, and the settings are a copy of its own.
        let set = unsafe { libc::tcsetattr(self.keys.as_raw_fd(), libc::TCSANOW, &raw const raw) };
        let entered = if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        if entered.is_ok() {
            change(libc::SIGTSTP, libc::SIG_DFL, request_stop as *const () as usize);
            write(libc::STDOUT_FILENO, UP);
        } else {
            self.leave();
        }
        entered
    }

    /// Switches back to the normal screen; does nothing if the alternate screen is not up.
    pub fn leave(&self) {
        if let Some(before) = take_down(libc::STDOUT_FILENO) {
            // SAFETY: `enter` made it with Box::into_raw, and the caller that takes it out is its
            // only owner.
            drop(unsafe { Box::from_raw(before.as_ptr()) });
            change(libc::SIGTSTP, request_stop as *const () as usize, libc::SIG_DFL);
        }
    }

    /// Stops the process and the rest of its group (a process that waits for it, a pipeline), as
    /// Ctrl-Z does, with the screen down; returns when it continues, with the screen down. Does not
    /// stop if no process could continue it.
    pub fn suspend(&self) {
        self.leave();
        // This process stops by a signal of its own: one to the group may be taken by another
        // thread, and this one would continue to draw for a moment. While SIGTSTP is ignored, the
        // group's signal is discarded at once.
        if change(libc::SIGTSTP, libc::SIG_DFL, libc::SIG_IGN) {
            // SAFETY: sends a signal to the process's own group.
            unsafe { libc::kill(0, libc::SIGTSTP) };
            change(libc::SIGTSTP, libc::SIG_IGN, libc::SIG_DFL);
            // SAFETY: raising a signal has no preconditions; SIGTSTP has its default action here.
            unsafe { libc::raise(libc::SIGTSTP) };
        }
    }

    /// Appends the input, unless this process is in the background, where the kernel would stop it
    /// for reading. Does not wait; a terminal that is gone yields nothing.
    pub fn read(&self, typed: &mut Vec<u8>) {
        let mut room = [0; 256];
        if !self.is_ours() {
            return;
        }
        while let Ok(n @ 1..) = (&self.keys).read(&mut room) {
            typed.extend_from_slice(&room[..n]);
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.keys.as_fd()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Returns whether another process asked this one to stop while the screen was up, since the last
/// call; [`Terminal::suspend`] must follow.
pub fn take_stop() -> bool {
    STOP.swap(false, SeqCst)
}

/// Restores the terminal if the screen is up, or the line of a prompt is. Async-signal-safe: does
/// not free the settings.
pub(super) fn restore() {
    take_down(libc::STDOUT_FILENO);
    typeahead::put_back();
}

/// Switches back to the normal screen, for the one caller that finds the alternate one up: doing it
/// twice would overwrite what is printed in between. Returns the restored settings.
/// Async-signal-safe.
fn take_down(out: RawFd) -> Option<NonNull<libc::termios>> {
    let before = NonNull::new(BEFORE.swap(ptr::null_mut(), SeqCst))?;
    let keys = KEYS.load(SeqCst);
    write(out, DOWN);
    // SAFETY: a value of `BEFORE` is freed only by the caller that took it out; all calls are
    // async-signal-safe.
    unsafe {
        libc::tcsetattr(keys, libc::TCSANOW, before.as_ptr());
        // Keys typed for the screen are not for the shell, but in the background they must not be
        // dropped. TCSAFLUSH would also wait for the output, in a handler and maybe for ever.
        if libc::tcgetpgrp(keys) == libc::getpgrp() {
            libc::tcflush(keys, libc::TCIFLUSH);
        }
    }
    Some(before)
}

/// Restores the terminal, and ends the process by the same signal.
extern "C" fn ended(signal: libc::c_int) {
    restore();
    // SAFETY: both are async-signal-safe. The signal arrives, with its default action, when this
    // returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// The arrival of the signal ends a wait, so that the run asks soon.
extern "C" fn request_stop(_: libc::c_int) {
    STOP.store(true, SeqCst);
}

/// Changes the action of a signal if it was `from`; returns whether it was changed.
fn change(signal: libc::c_int, from: libc::sighandler_t, to: libc::sighandler_t) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: queries, and then sets, through live locals; zeros are a value of sigaction, and the
    // handlers of this file are async-signal-safe. A stack overflow ends in SIGABRT on the stack
    // for signals.
    unsafe {
        if libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) != 0 {
            return false;
        }
        if action.assume_init_ref().sa_sigaction != from {
            return false;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = to;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0
    }
}

/// Restores the terminal before a panic's message, which is for the normal screen.
fn undo_at_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !super::catch_panic::is_expected() {
                restore();
            }
            before(panic);
        }));
    });
}

fn settings(terminal: RawFd) -> io::Result<libc::termios> {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: tcgetattr writes a termios, which `settings` has room for and zeros are a value of.
    unsafe {
        match libc::tcgetattr(terminal, settings.as_mut_ptr()) {
            0 => Ok(settings.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Bypasses every buffer: control sequences are in order with what was flushed before.
fn write(out: RawFd, bytes: &[u8]) {
    // SAFETY: write is async-signal-safe and only reads the slice. A terminal that is gone cannot
    // be restored.
    unsafe { libc::write(out, bytes.as_ptr().cast(), bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_restored_once() {
        let (mut reader, writer) = io::pipe().unwrap();
        // SAFETY: zeros are a value of termios; no descriptor is -1, so that nothing gets these
        // settings.
        let before: libc::termios = unsafe { std::mem::zeroed() };
        BEFORE.store(Box::into_raw(Box::new(before)), SeqCst);
        let taken = take_down(writer.as_raw_fd()).expect("the screen was shown");
        // SAFETY: made above.
        drop(unsafe { Box::from_raw(taken.as_ptr()) });
        assert!(take_down(writer.as_raw_fd()).is_none());
        drop(writer);
        let mut written = Vec::new();
        reader.read_to_end(&mut written).unwrap();
        assert_eq!(written, DOWN);
    }
}
