//! Standard output, as it was when the program began.
//!
//! Rust's runtime opens /dev/null where a standard descriptor is closed, so that no file takes its place. What is written there
//! is lost, and nobody hears of it: a write has to fail, as it does for whoever is left with the closed descriptor.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    // SAFETY: it takes no pointer and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Relaxed);
}

/// The C library calls what stands in this section before `main`, and so before Rust's runtime opens anything.
// SAFETY: the section holds pointers to functions of the C ABI, and the arguments that they get may be ignored. `look`
// uses nothing that Rust's runtime would have to prepare.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

/// Standard output; to write there is an error if it was closed when the program began.
pub struct Stdout(io::Stdout);

/// It.
pub fn stdout() -> Stdout {
    Stdout(io::stdout())
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
