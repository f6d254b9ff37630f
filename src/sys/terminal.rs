//! The terminal as a full screen: keys one by one, the alternate screen, and the way back.
//!
//! Ctrl-C stays a signal, so that it reaches a run that is busy; Ctrl-Z and Ctrl-\ become keys, because the
//! kernel would stop or end the process with the screen still up. What has to be undone stands in statics: a panic, the
//! third interrupt, SIGQUIT and SIGABRT undo it, too (with async-signal-safe calls only). A SIGTSTP from
//! elsewhere waits for the run to ask ([`take_stop`]). Nothing is undone at SIGKILL, nor at a fault: SIGSEGV and SIGBUS
//! are left to the handler of the standard library, which tells of a stack that overflowed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering::SeqCst};

pub mod typeahead;

/// The settings to go back to; null while the screen is not up.
static BEFORE: AtomicPtr<libc::termios> = AtomicPtr::new(ptr::null_mut());
/// The descriptor that they belong to.
static KEYS: AtomicI32 = AtomicI32::new(-1);
/// Whether a SIGTSTP came while the screen was up.
static STOP: AtomicBool = AtomicBool::new(false);

/// To the alternate screen, without a cursor; and back, with plain characters (xterm's control sequences, ctlseqs).
const UP: &[u8] = b"\x1b[?1049h\x1b[?25l";
const DOWN: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// The process's terminal: stdout to draw on, the controlling terminal for keys.
#[derive(Debug)]
pub struct Terminal {
    keys: File,
}

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// How many characters a line of stdout has now; None where it is no terminal or does not know.
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
    /// The terminal, if stdout is one, it knows control sequences, and this process is in its foreground: whoever
    /// was started with `&` would be stopped for touching it.
    pub fn open() -> Option<Terminal> {
        let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        if dumb || !super::streams::stdout_is_terminal() {
            return None;
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let keys = OpenOptions::new().read(true).custom_flags(flags).open("/dev/tty").ok()?;
        Some(Terminal { keys }).filter(Terminal::is_ours)
    }

    /// Whether this process is in the foreground, so that keys are for it.
    pub fn is_ours(&self) -> bool {
        // SAFETY: both only ask; the descriptor is open.
        unsafe { libc::tcgetpgrp(self.keys.as_raw_fd()) == libc::getpgrp() }
    }

    /// How large it is now; None when it does not know.
    pub fn size(&self) -> Option<Size> {
        size_of_stdout()
    }

    /// Raises the screen; nothing happens when it is up. What is written to stdout before stays on the other one.
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
        // A process that was put into the background meanwhile may still put its terminal right.
        // SAFETY: ignoring a signal needs no handler.
        unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
        // SAFETY: the descriptor is open, and the settings are a copy of its own.
        let set = unsafe { libc::tcsetattr(self.keys.as_raw_fd(), libc::TCSANOW, &raw const raw) };
        let entered = if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        if entered.is_ok() {
            change(libc::SIGTSTP, libc::SIG_DFL, stop_asked as *const () as usize);
            write(libc::STDOUT_FILENO, UP);
        } else {
            self.leave();
        }
        entered
    }

    /// Takes the screen down; nothing happens when it is not up.
    pub fn leave(&self) {
        if let Some(before) = take_down(libc::STDOUT_FILENO) {
            // SAFETY: `enter` made it with Box::into_raw, and whoever takes it out is alone with it.
            drop(unsafe { Box::from_raw(before.as_ptr()) });
            change(libc::SIGTSTP, stop_asked as *const () as usize, libc::SIG_DFL);
        }
    }

    /// Stops the process and the rest of its group (whoever waits for it, a pipeline) as Ctrl-Z does, with the screen
    /// down; returns when it goes on, with the screen down. Where nobody could continue it, nothing stops.
    pub fn suspend(&self) {
        self.leave();
        // This process stops by a signal of its own: one to the group may be taken by another thread, and this one
        // would go on drawing for a moment. Ignored, the group's is discarded at once.
        if change(libc::SIGTSTP, libc::SIG_DFL, libc::SIG_IGN) {
            // SAFETY: sends a signal to the own group.
            unsafe { libc::kill(0, libc::SIGTSTP) };
            change(libc::SIGTSTP, libc::SIG_IGN, libc::SIG_DFL);
            // SAFETY: raising a signal has no preconditions; SIGTSTP has its default action here.
            unsafe { libc::raise(libc::SIGTSTP) };
        }
    }

    /// Appends what was typed, for us: in the background the kernel would stop us for reading it. Does not wait; a
    /// terminal that has gone has nothing to say.
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

/// Whether somebody else asked the process to stop while the screen was up, since the last call: [`Terminal::suspend`]
/// is to follow.
pub fn take_stop() -> bool {
    STOP.swap(false, SeqCst)
}

/// Puts the terminal right if the screen is up, or the line of a prompt is. Async-signal-safe: the settings are not freed.
pub(super) fn restore() {
    take_down(libc::STDOUT_FILENO);
    typeahead::put_back();
}

/// Takes the screen down, for the one caller that finds it up: twice, what is printed in between would be
/// overwritten. Gives the settings that were put back. Async-signal-safe.
fn take_down(out: RawFd) -> Option<NonNull<libc::termios>> {
    let before = NonNull::new(BEFORE.swap(ptr::null_mut(), SeqCst))?;
    let keys = KEYS.load(SeqCst);
    write(out, DOWN);
    // SAFETY: what was in `BEFORE` is freed only by whoever took it out; all calls are async-signal-safe.
    unsafe {
        libc::tcsetattr(keys, libc::TCSANOW, before.as_ptr());
        // Keys that were meant for the screen are not for the shell, but in the background they are not ours to drop.
        // TCSAFLUSH would also wait for the output, in a handler and maybe for ever.
        if libc::tcgetpgrp(keys) == libc::getpgrp() {
            libc::tcflush(keys, libc::TCIFLUSH);
        }
    }
    Some(before)
}

/// The process ends as it would have, with the terminal put right.
extern "C" fn ended(signal: libc::c_int) {
    restore();
    // SAFETY: both are async-signal-safe. The signal comes, and has its default action, when this returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Its arrival ends a wait, so that the run asks soon.
extern "C" fn stop_asked(_: libc::c_int) {
    STOP.store(true, SeqCst);
}

/// Changes what a signal does, if it did `from` before; whether it did.
fn change(signal: libc::c_int, from: libc::sighandler_t, to: libc::sighandler_t) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks, and then sets, by live locals; zeros are a value of sigaction, and the handlers of this file are
    // async-signal-safe. A stack overflow ends in SIGABRT on the stack for signals.
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

/// A panic's message is for the other screen.
fn undo_at_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !super::quiet::is_expected() {
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

/// Past every buffer: control sequences are in order with what was flushed before.
fn write(out: RawFd, bytes: &[u8]) {
    // SAFETY: write is async-signal-safe and reads the slice only. A terminal that has gone cannot be put right.
    unsafe { libc::write(out, bytes.as_ptr().cast(), bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_is_taken_down_once() {
        let (mut reader, writer) = io::pipe().unwrap();
        // SAFETY: zeros are a value of termios; no descriptor is -1, so that nothing gets these settings.
        let before: libc::termios = unsafe { std::mem::zeroed() };
        BEFORE.store(Box::into_raw(Box::new(before)), SeqCst);
        let taken = take_down(writer.as_raw_fd()).expect("it was up");
        // SAFETY: made above.
        drop(unsafe { Box::from_raw(taken.as_ptr()) });
        assert!(take_down(writer.as_raw_fd()).is_none());
        drop(writer);
        let mut written = Vec::new();
        reader.read_to_end(&mut written).unwrap();
        assert_eq!(written, DOWN);
    }
}
