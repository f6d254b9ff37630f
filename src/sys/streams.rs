//! The standard streams of this process. No other module opens them, so that nothing unescaped
//! reaches a terminal.
//!
//! Rust's runtime opens /dev/null in place of a closed standard descriptor, and writes to it
//! succeed. Here a write to an stdout that was closed at the start fails with EBADF.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::base::text::message::{EscapingWriter, message};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: it takes no pointer and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Relaxed);
}

/// Runs `look` before `main`: the C library calls the functions in this section before Rust's
/// runtime opens anything.
// SAFETY: the section contains pointers to functions of the C ABI, which may ignore their
// arguments. `look` uses nothing that Rust's runtime would have to prepare.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Standard output, unescaped; a write fails if it was closed when the program began.
pub struct Stdout(io::Stdout);

/// Returns standard output, unescaped, for output formats: they write colours or move the cursor,
/// and escape each text themselves.
pub fn stdout() -> Stdout {
    Stdout(io::stdout())
}

/// Returns standard error, unescaped, for output formats.
pub fn stderr() -> io::Stderr {
    io::stderr()
}

/// Returns whether standard output is a terminal.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Replaces the current line of the terminal on stderr; an empty text erases it.
pub fn replace_line(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(b"\r\x1b[K");
    let mut lines = EscapingWriter::new(stderr);
    let _ = write!(lines, "{text}").and_then(|()| lines.flush());
}

/// Writes `perilune: TEXT` to stderr. A closed stderr is not an error: no process reads it.
pub fn print_message(text: &str) {
    let _ = io::stderr().lock().write_all(&message(text));
}

/// Writes a text of a script to stderr, with a line end.
pub fn print(text: &str) {
    let mut lines = EscapingWriter::new(io::stderr().lock());
    let _ = writeln!(lines, "{text}").and_then(|()| lines.flush());
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match CLOSED.load(Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EBADF)),
            false => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
