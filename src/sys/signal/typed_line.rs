//! Decides whether a Ctrl-C at a prompt applies to the line being typed or to the running line.
//!
//! While a line is typed, Ctrl-C is a signal and not a key: a key that arrives between Enter and
//! the end of raw mode would become input of the next line, and the line that was entered would run
//! on. The terminal keeps pending input (`NOFLSH`), so that an Enter that was pressed before a
//! Ctrl-C is still read first.
//!
//! ```text
//!  begin          entered                 begin
//! ───────▶ TYPED ─────────▶ RUNS ────────────────▶ TYPED
//!            │ SIGINT         SIGINT: counted, stops the line
//!            ▼
//!        CANCELLED ─ entered ─▶ RUNS, and one interrupt is counted: Enter came first
//!            └────── abandoned ─▶ RUNS: nothing was entered; the editor drops the line
//! ```

use std::sync::atomic::{AtomicI32, AtomicU8, Ordering::SeqCst};

use libc::c_int;

use super::{check, count, keeping_errno, own_tid, send_to, set};

const RUNS: u8 = 0;
const TYPED: u8 = 1;
const CANCELLED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(RUNS);
/// The thread that edits lines; 0 before the first line.
static EDITOR: AtomicI32 = AtomicI32::new(0);

/// Begins a line, which the calling thread edits.
pub fn begin() {
    EDITOR.store(own_tid(), SeqCst);
    STATE.store(TYPED, SeqCst);
}

/// Ends a line that was entered and sent to the session; an interrupt since [`begin`] now stops it.
pub fn entered() {
    if STATE.compare_exchange(TYPED, RUNS, SeqCst, SeqCst).is_err() {
        // Counted first: once the line is no longer cancelled, the listener reads the count.
        count(libc::SIGINT);
        STATE.store(RUNS, SeqCst);
    }
}

/// Ends a line that was not entered.
pub fn abandoned() {
    STATE.store(RUNS, SeqCst);
}

/// Cancels the line being typed; returns whether there is one.
pub(super) fn cancel() -> bool {
    let cancelled = STATE.compare_exchange(TYPED, CANCELLED, SeqCst, SeqCst);
    matches!(cancelled, Ok(_) | Err(CANCELLED))
}

/// Returns whether the line is cancelled and the editor has not dropped it yet.
pub(super) fn is_cancelled() -> bool {
    STATE.load(SeqCst) == CANCELLED
}

/// Returns whether the calling thread edits lines. Async-signal-safe.
pub(super) fn is_editor() -> bool {
    EDITOR.load(SeqCst) == own_tid()
}

/// Makes the editor return from its wait for keys. Does nothing while keys are pending: the editor
/// reads those first.
pub(super) fn wake_editor() {
    let mut pending: c_int = 0;
    // SAFETY: FIONREAD writes an int. If stdin is no longer a terminal, 0 stays.
    unsafe { libc::ioctl(libc::STDIN_FILENO, libc::FIONREAD, &raw mut pending) };
    if pending == 0 {
        send_to(EDITOR.load(SeqCst), signal());
    }
}

/// Installs the handler of the signal that [`wake_editor`] sends.
///
/// # Errors
/// `sigaction(2)` fails.
pub(super) fn install() -> std::io::Result<()> {
    set(signal(), wake as *const () as usize, 0)
}

fn signal() -> c_int {
    libc::SIGRTMIN() + 5
}

/// Runs in the editor's thread and raises SIGINT there. While rustyline edits, the handler of
/// SIGINT is rustyline's, which writes to a pipe that it waits for. Raised in its own thread, the
/// signal cannot find that pipe closed. Otherwise the handler is perilune's, which does nothing in
/// this thread.
extern "C" fn wake(_: c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    keeping_errno(|| {
        // A late signal belongs to a line that has been dropped.
        if !is_cancelled() {
            return;
        }
        // SAFETY: all are async-signal-safe; the set is a live local, and zeros are a valid value
        // of it.
        let _ = check(unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
            libc::raise(libc::SIGINT);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())
        });
    });
}
