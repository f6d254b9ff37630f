//! A thread that receives the interrupts of a prompt, so that the session handles each of them
//! soon, even on busy CPUs.
//!
//! While other tasks keep all CPUs busy, the session's thread may wait for seconds until it runs,
//! and a signal to it waits, too. The listener runs at real-time priority. It counts interrupts,
//! raises the priority of the session's thread, and signals it until the interrupt is handled. An
//! interrupt of a line that is still being typed goes to the thread that edits it ([`typed_line`]).

use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;

use super::{HOME, count, interrupting_set, interrupts, knock_signal, send_to, typed_line};
use crate::sys::own_tid::tid_in_records;
use crate::sys::sched::{self, RtBoost};
use crate::sys::threads;

/// Interval and maximum number of the signals that pass an interrupt on to the session. One is not
/// enough: it may arrive while LuaJIT changes its dispatch tables, and the hook is then lost.
const AGAIN_NS: libc::c_long = 20_000_000;
const TIMES: usize = 50;

/// Starts the listener and returns its thread id as tracepoints record it. Blocks interrupts in the
/// calling thread, which they were delivered to; programs that it starts afterwards inherit that
/// mask.
///
/// # Errors
/// The thread cannot be started; interrupts are then delivered as before.
pub fn start() -> anyhow::Result<i32> {
    let set = interrupting_set();
    // SAFETY: the set is a live local; a null pointer requests no old mask.
    let mask = |how| unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
    mask(libc::SIG_BLOCK);
    let (sender, tid) = mpsc::channel();
    let listen = move || {
        // It uses almost no CPU time, so it needs no limit.
        let _boost = RtBoost::request(100);
        // The receiver exists until the id arrives.
        let _ = sender.send(tid_in_records());
        let mut times = 0;
        loop {
            // A cancelled line belongs to the editor until the editor drops it, however late it
            // gets a CPU.
            let cancelled = typed_line::is_cancelled();
            let again = cancelled || interrupts() > 0 && times < TIMES;
            if again {
                pass_on();
                times = if cancelled { 0 } else { times + 1 };
            }
            if let Some(signal) = wait(again.then_some(AGAIN_NS)) {
                take(signal);
                times = 0;
            }
        }
    };
    threads::start("perilune:signal", listen).inspect_err(|_| {
        mask(libc::SIG_UNBLOCK);
    })?;
    Ok(tid.recv()?)
}

/// Cancels the line being typed, or counts an interrupt of the running line.
fn take(signal: libc::c_int) {
    if signal != libc::SIGINT || !typed_line::cancel() {
        count(signal);
    }
}

/// Signals the editor's thread, or the session's.
fn pass_on() {
    if typed_line::is_cancelled() {
        typed_line::wake_editor();
    }
    if interrupts() > 0 {
        let home = HOME.load(SeqCst);
        sched::boost_thread(home);
        send_to(home, knock_signal());
    }
}

/// Waits for an interrupt; returns None after `most` nanoseconds without one.
fn wait(most: Option<libc::c_long>) -> Option<libc::c_int> {
    let set = interrupting_set();
    let time = most.map(|ns| libc::timespec { tv_sec: 0, tv_nsec: ns });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the set and the time are live locals; a null pointer requests no information, or
    // waits without a limit.
    let signal = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), time) };
    (signal > 0).then_some(signal)
}
