//! A thread that takes a prompt's interrupts, so that the session heeds each of them soon, however busy the CPUs are.
//!
//! The thread of the session may wait for a CPU for seconds while tasks of another session never sleep, and a signal waits
//! with it. This one goes in front, counts, brings the session's thread to the front as well, and signals it until the
//! interrupt is dealt with.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;

use super::{HOME, count, interrupting_set, interrupts, knock_signal};
use crate::sys::namespace::tid_in_records;
use crate::sys::slice::{self, Front};

/// The session is signalled this often, and so many times: the first signal may come while LuaJIT changes the tables
/// that its hook stands in.
const AGAIN_NS: libc::c_long = 20_000_000;
const TIMES: usize = 50;

/// Starts the thread on behalf of the calling one, to which interrupts belong and which takes none itself from here on; gives
/// its number, as tracepoints name it. Programs that are started from here on do not take interrupts either.
///
/// # Errors
/// There is no thread to be had; interrupts come as before then.
pub fn start() -> io::Result<i32> {
    let set = interrupting_set();
    // SAFETY: the set is a live local; a null asks for nothing back.
    let mask = |how| unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
    mask(libc::SIG_BLOCK);
    let (told, tid) = mpsc::channel();
    let listen = move || {
        // It uses next to nothing, so it never has to step back.
        let _front = Front::ask(100);
        // Whoever waits for it is there until it comes.
        let _ = told.send(tid_in_records());
        loop {
            if let Some(signal) = wait(None) {
                count(signal);
                knock_until_heard();
            }
        }
    };
    let started = std::thread::Builder::new().name("perilune:signal".to_owned()).spawn(listen);
    if started.is_err() {
        mask(libc::SIG_UNBLOCK);
    }
    started?;
    tid.recv().map_err(io::Error::other)
}

fn knock_until_heard() {
    for _ in 0..TIMES {
        let home = HOME.load(SeqCst);
        slice::bring_forward(home);
        // SAFETY: a system call without memory; a thread that is gone is ESRCH.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), home, knock_signal()) };
        if let Some(signal) = wait(Some(AGAIN_NS)) {
            count(signal);
        }
        if interrupts() == 0 {
            return;
        }
    }
}

/// The next interrupt; None if none came in so many nanoseconds.
fn wait(most: Option<libc::c_long>) -> Option<libc::c_int> {
    let set = interrupting_set();
    let time = most.map(|ns| libc::timespec { tv_sec: 0, tv_nsec: ns });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the set and the time are live locals; a null asks for nothing back, or waits for ever.
    let signal = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), time) };
    (signal > 0).then_some(signal)
}
