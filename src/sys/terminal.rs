//! The terminal as a full screen: keys one by one, the alternate screen, and the way back from every exit.
//!
//! Ctrl-C stays a signal, so that it reaches a run that is busy; Ctrl-Z and Ctrl-\ become keys, because the
//! kernel would stop or end the process with the screen still up. What has to be undone stands in statics: the signal
//! that ends the process on the spot and a panic undo it, too (with async-signal-safe calls only).

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::SeqCst};

/// The settings to go back to; null while the screen is not up.
static BEFORE: AtomicPtr<libc::termios> = AtomicPtr::new(ptr::null_mut());
/// The descriptor that they belong to.
static KEYS: AtomicI32 = AtomicI32::new(-1);

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

impl Terminal {
    /// The terminal, if stdout is one, it knows control sequences, and this process is in its foreground: whoever
    /// was started with `&` would be stopped for touching it.
    pub fn open() -> Option<Terminal> {
        let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        if dumb || !io::stdout().is_terminal() {
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
        let mut size = MaybeUninit::<libc::winsize>::zeroed();
        // SAFETY: TIOCGWINSZ writes a winsize, which `size` has room for and zeros are a value of.
        let size = unsafe {
            (libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, size.as_mut_ptr()) == 0)
                .then(|| size.assume_init())
        }?;
        let known = size.ws_col > 0 && size.ws_row > 0;
        known.then_some(Size { columns: size.ws_col, rows: size.ws_row })
    }

    /// Raises the screen; nothing happens when it is up. What is written to stdout before stays on the other one.
    pub fn enter(&self) -> io::Result<()> {
        if !BEFORE.load(SeqCst).is_null() {
            return Ok(());
        }
        undo_at_panics();
        let before = settings(&self.keys)?;
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
            write_stdout(UP);
        } else {
            self.leave();
        }
        entered
    }

    /// Takes the screen down; nothing happens when it is not up.
    pub fn leave(&self) {
        restore();
        let before = BEFORE.swap(ptr::null_mut(), SeqCst);
        if let Some(before) = NonNull::new(before) {
            // SAFETY: `enter` made it with Box::into_raw, and the swap took it out: nobody else frees it. A signal
            // handler that still reads it would have to run on another thread, where it ends the process.
            drop(unsafe { Box::from_raw(before.as_ptr()) });
        }
    }

    /// Stops the process as Ctrl-Z does, with the screen down; returns when it goes on, with the screen down.
    pub fn suspend(&self) {
        self.leave();
        // SAFETY: raising a signal has no preconditions; SIGTSTP has its default action here.
        unsafe { libc::raise(libc::SIGTSTP) };
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

/// Puts the terminal right if the screen is up. Async-signal-safe; doing it twice does no harm.
pub(super) fn restore() {
    let before = BEFORE.load(SeqCst);
    if before.is_null() {
        return;
    }
    write_stdout(DOWN);
    // SAFETY: what `BEFORE` points to is freed only after it was taken out there; tcsetattr is async-signal-safe.
    unsafe { libc::tcsetattr(KEYS.load(SeqCst), libc::TCSANOW, before) };
}

/// A panic's message is for the other screen.
fn undo_at_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

fn settings(keys: &File) -> io::Result<libc::termios> {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: tcgetattr writes a termios, which `settings` has room for and zeros are a value of.
    unsafe {
        match libc::tcgetattr(keys.as_raw_fd(), settings.as_mut_ptr()) {
            0 => Ok(settings.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Past every buffer: control sequences are in order with what was flushed before.
fn write_stdout(bytes: &[u8]) {
    // SAFETY: write is async-signal-safe and reads the slice only. A terminal that has gone cannot be put right.
    unsafe { libc::write(libc::STDOUT_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}
