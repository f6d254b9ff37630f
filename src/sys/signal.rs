//! Signals: counts interrupts, flags other requests, and ticks a timer by CPU time.
//!
//! SIGINT, SIGTERM and SIGHUP are handled alike, as an *interrupt*: the first requests the end of
//! the run, the second is for code that has to be stopped by force ([`on_interrupt`]), the third
//! ends the process at once. They are delivered to the thread that called [`install`]: a handler on
//! another thread sends the signal on. They are installed without SA_RESTART, so a wait in `poll`
//! or a read from the terminal ends with EINTR at once. At a prompt, a separate thread receives
//! them ([`listener`]), including those for a line that is still being typed ([`typed_line`]), and
//! the third ends the process only if the first arrived at least 2 s before.
//!
//! SIGUSR1 and SIGUSR2 request a report ([`take_report_request`]). The handler of SIGXFSZ does
//! nothing, so that a write beyond the file size limit fails with EFBIG.
//!
//! Handlers only use atomics and async-signal-safe calls (signal-safety(7)), and restore errno. A
//! child must undo what exec does not: exec resets caught signals to their defaults, but an ignored
//! SIGPIPE and the signal mask are inherited (see `sys::child`).

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use libc::{c_int, sigaction, siginfo_t};

use super::clock::monotonic_ns;
use super::terminal;

pub mod listener;
pub mod typed_line;

static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
/// Time of the first interrupt, by the monotonic clock.
static FIRST_AT: AtomicU64 = AtomicU64::new(0);
/// Minimum age of the first interrupt, in nanoseconds, for the third to end the process.
static PATIENCE: AtomicU64 = AtomicU64::new(0);
static RESIZED: AtomicBool = AtomicBool::new(false);
static REPORT: AtomicBool = AtomicBool::new(false);
/// Whether one of the interrupts was not SIGINT.
static END_REQUESTED: AtomicBool = AtomicBool::new(false);
/// The thread that receives interrupts; 0 before [`install`].
static HOME: AtomicI32 = AtomicI32::new(0);
/// Hooks, `fn(u32)` and `fn()`; null if there is none.
static ON_INTERRUPT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static ON_TICK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

const INTERRUPTING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
const KILLED: &[u8] = b"perilune: stopped by the third signal; there is no report\n";

/// At a prompt, several Ctrl-C may arrive before the session gets a CPU and handles the first.
const PATIENCE_AT_PROMPT_NS: u64 = 2_000_000_000;

fn tick_signal() -> c_int {
    libc::SIGRTMIN() + 3
}

/// Returns the signal that [`listener`] sends to the thread that receives interrupts.
fn knock_signal() -> c_int {
    libc::SIGRTMIN() + 4
}

/// Installs the handlers of SIGUSR1, SIGUSR2 and SIGXFSZ. Call it at the start of the process.
///
/// SIGUSR1 and SIGUSR2 stay ignored if they were ignored before.
///
/// # Errors
/// `sigaction(2)` fails.
pub fn install_requests() -> io::Result<()> {
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        if disposition(signal)? != libc::SIG_IGN {
            set(signal, request_report as *const () as usize, 0)?;
        }
    }
    // A handler is reset by exec; a started command would inherit SIG_IGN.
    set(libc::SIGXFSZ, nothing as *const () as usize, libc::SA_RESTART)
}

/// Catches the interrupts and SIGWINCH and ignores SIGPIPE; the calling thread now receives
/// interrupts.
///
/// SIGHUP stays ignored if it was ignored before (nohup). Call it again to move the interrupts to
/// another thread.
///
/// # Errors
/// `sigaction(2)` fails.
pub fn install() -> io::Result<()> {
    HOME.store(own_tid(), SeqCst);
    for signal in INTERRUPTING {
        if signal != libc::SIGHUP || disposition(signal)? != libc::SIG_IGN {
            set(signal, interrupted as *const () as usize, 0)?;
        }
    }
    set(knock_signal(), knocked as *const () as usize, 0)?;
    typed_line::install()?;
    set(libc::SIGWINCH, resize as *const () as usize, libc::SA_RESTART)?;
    set(libc::SIGPIPE, libc::SIG_IGN, 0)
}

/// Discards SIGINT until [`install_at_prompt`], while a prompt starts.
///
/// # Errors
/// `sigaction(2)` fails.
pub fn disregard_interrupts() -> io::Result<()> {
    set(libc::SIGINT, nothing as *const () as usize, libc::SA_RESTART)
}

/// Like [`install`], for a prompt on a terminal, where an interrupt ends a line and not the
/// session.
///
/// # Errors
/// `sigaction(2)` fails.
pub fn install_at_prompt() -> io::Result<()> {
    PATIENCE.store(PATIENCE_AT_PROMPT_NS, SeqCst);
    install()
}

/// Ignores interrupts until [`install`] is called again: the run is over, and the remaining work
/// ends by itself.
///
/// # Errors
/// `sigaction(2)` fails.
pub fn ignore_interrupts() -> io::Result<()> {
    INTERRUPTING.into_iter().try_for_each(|signal| set(signal, libc::SIG_IGN, 0))
}

/// Returns the number of interrupts, since the last [`forget_interrupts`] if there was one.
pub fn interrupts() -> u32 {
    INTERRUPTS.load(SeqCst)
}

/// Returns whether SIGTERM or SIGHUP arrived, which end the process and not only its current
/// command.
pub fn end_requested() -> bool {
    END_REQUESTED.load(SeqCst)
}

/// Blocks interrupts and the timer's ticks in the calling thread, which is not the one that
/// receives them.
pub fn keep_off_this_thread() {
    let mut set = interrupting_set();
    // SAFETY: the set is a live local, and the number is a valid signal's; a null pointer requests
    // no old mask.
    unsafe {
        libc::sigaddset(&raw mut set, tick_signal());
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Resets the count to 0: at a prompt, an interrupt ends a command, not the session.
pub fn forget_interrupts() {
    INTERRUPTS.store(0, SeqCst);
}

/// Calls `hook` with the count at each interrupt, **inside the signal handler**. `None` removes the
/// hook.
///
/// # Safety
/// `hook` must be async-signal-safe (signal-safety(7)) on the thread of [`install`]: it uses only
/// atomics and async-signal-safe calls, takes no lock and allocates nothing.
pub unsafe fn on_interrupt(hook: Option<fn(u32)>) {
    ON_INTERRUPT.store(hook.map_or(std::ptr::null_mut(), |f| f as *mut ()), SeqCst);
}

/// Returns whether the terminal's size changed since the last call.
pub fn take_resized() -> bool {
    RESIZED.swap(false, SeqCst)
}

/// Returns whether SIGUSR1 or SIGUSR2 requested a report since the last call.
pub fn take_report_request() -> bool {
    REPORT.swap(false, SeqCst)
}

/// Blocks this module's signals while the handler of `signal`, which other code installed, runs.
/// This module's handlers block SIGPROF.
///
/// # Errors
/// `sigaction(2)` fails.
pub fn keep_apart(signal: c_int) -> io::Result<()> {
    // SAFETY: sigaction is plain data, for which zeros are a value.
    let mut action: sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: sigaction only queries, into a live local.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) })?;
    mask_ours(&mut action);
    // SAFETY: the handler is the one that was there.
    check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })
}

/// A timer that ticks each time the calling thread has used this much CPU time, and so never while
/// it waits.
///
/// The signal (a real-time one) goes to the thread that started the timer (timer_create(2),
/// `SIGEV_THREAD_ID`). The process has one tick function: a second timer replaces the first one's.
#[derive(Debug)]
pub struct CpuTimer {
    id: libc::timer_t,
    /// A timer belongs to the thread whose CPU time it measures.
    _not_send: PhantomData<*mut ()>,
}

impl CpuTimer {
    /// Starts the timer. `tick` runs **inside the signal handler**.
    ///
    /// # Errors
    /// `sigaction(2)`, `timer_create(2)` or `timer_settime(2)` fails.
    ///
    /// # Safety
    /// `tick` must be async-signal-safe on this thread, like the hook of [`on_interrupt`].
    pub unsafe fn start(every: Duration, tick: fn()) -> io::Result<Self> {
        ON_TICK.store(tick as *mut (), SeqCst);
        let signal = tick_signal();
        set(signal, ticked as *const () as usize, libc::SA_RESTART)?;
        let mut id: libc::timer_t = std::ptr::null_mut();
        // SAFETY: sigevent is plain data, for which zeros are a value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: gettid has no arguments and cannot fail.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        // SAFETY: both pointers are to live locals.
        check(unsafe { libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut id) })?;
        let timer = CpuTimer { id, _not_send: PhantomData };
        let step = libc::timespec {
            tv_sec: every.as_secs() as libc::time_t,
            tv_nsec: every.subsec_nanos() as libc::c_long,
        };
        let period = libc::itimerspec { it_interval: step, it_value: step };
        // SAFETY: `id` was created above and the new value is a live local.
        check(unsafe { libc::timer_settime(timer.id, 0, &period, std::ptr::null_mut()) })?;
        Ok(timer)
    }
}

impl Drop for CpuTimer {
    fn drop(&mut self) {
        // SAFETY: `id` was created by timer_create and is deleted once. A tick that is already
        // pending finds the handler installed and the tick function, which is static.
        unsafe { libc::timer_delete(self.id) };
    }
}

fn set(signal: c_int, handler: usize, flags: c_int) -> io::Result<()> {
    // SAFETY: sigaction is plain data, for which zeros are a value.
    let mut action: sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags | if handler == libc::SIG_IGN { 0 } else { libc::SA_SIGINFO };
    mask_ours(&mut action);
    // SAFETY: `action` is complete, and the handlers of this file are async-signal-safe.
    check(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) })
}

/// Makes handlers block each other: one must not see what another has armed halfway.
fn mask_ours(action: &mut sigaction) {
    let others = [tick_signal(), knock_signal(), libc::SIGPROF];
    for other in INTERRUPTING.into_iter().chain(others) {
        // SAFETY: the set is the caller's, and the numbers are valid signals.
        unsafe { libc::sigaddset(&mut action.sa_mask, other) };
    }
}

/// Returns the set of interrupts.
fn interrupting_set() -> libc::sigset_t {
    // SAFETY: sigset_t is plain data, for which zeros are a value, the empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in INTERRUPTING {
        // SAFETY: the set is a live local, and the number is a valid signal's.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

fn disposition(signal: c_int) -> io::Result<usize> {
    // SAFETY: sigaction is plain data, for which zeros are a value.
    let mut action: sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only queries; the result goes into a live local.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) })?;
    Ok(action.sa_sigaction)
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn interrupted(signal: c_int, _: *mut siginfo_t, _: *mut libc::c_void) {
    keeping_errno(|| {
        if !typed_line::is_editor() && !sent_home(signal) {
            count(signal);
            call_hook();
        }
    });
}

/// Runs in the thread of [`install`], for an interrupt that [`listener`] has counted.
extern "C" fn knocked(_: c_int, _: *mut siginfo_t, _: *mut libc::c_void) {
    keeping_errno(call_hook);
}

/// Counts an interrupt; the third ends the process. Async-signal-safe.
fn count(signal: c_int) {
    if signal != libc::SIGINT {
        END_REQUESTED.store(true, SeqCst);
    }
    let now = monotonic_ns();
    let count = INTERRUPTS.fetch_add(1, SeqCst) + 1;
    if count == 1 {
        FIRST_AT.store(now, SeqCst);
    }
    if count >= 3 && now.saturating_sub(FIRST_AT.load(SeqCst)) >= PATIENCE.load(SeqCst) {
        terminal::restore();
        // SAFETY: write and _exit are async-signal-safe; the buffer is static.
        unsafe {
            libc::write(libc::STDERR_FILENO, KILLED.as_ptr().cast(), KILLED.len());
            libc::_exit(128 + signal);
        }
    }
}

fn call_hook() {
    let (hook, count) = (ON_INTERRUPT.load(SeqCst), INTERRUPTS.load(SeqCst));
    if !hook.is_null() && count > 0 {
        // SAFETY: only `on_interrupt` stores here, and only a `fn(u32)` whose safety its caller
        // guarantees.
        let hook: fn(u32) = unsafe { std::mem::transmute(hook) };
        hook(count);
    }
}

extern "C" fn resize(_: c_int, _: *mut siginfo_t, _: *mut libc::c_void) {
    RESIZED.store(true, SeqCst);
}

extern "C" fn request_report(_: c_int, _: *mut siginfo_t, _: *mut libc::c_void) {
    REPORT.store(true, SeqCst);
}

extern "C" fn nothing(_: c_int, _: *mut siginfo_t, _: *mut libc::c_void) {}

extern "C" fn ticked(_: c_int, _: *mut siginfo_t, _: *mut libc::c_void) {
    keeping_errno(|| {
        let tick = ON_TICK.load(SeqCst);
        if !tick.is_null() {
            // SAFETY: only `CpuTimer::start` stores here, and only a `fn()` whose safety its caller
            // guarantees.
            let tick: fn() = unsafe { std::mem::transmute(tick) };
            tick();
        }
    });
}

/// Sends a signal that arrived on another thread to the one that receives interrupts; returns false
/// if this is that thread, or that thread is gone.
fn sent_home(signal: c_int) -> bool {
    let home = HOME.load(SeqCst);
    home != own_tid() && send_to(home, signal)
}

/// Returns the id of the calling thread. Async-signal-safe.
fn own_tid() -> i32 {
    // SAFETY: gettid has no arguments, cannot fail and is async-signal-safe.
    unsafe { libc::gettid() }
}

/// Sends a signal to a thread of this process; returns false if it is gone. Async-signal-safe.
fn send_to(tid: i32, signal: c_int) -> bool {
    // SAFETY: getpid and tgkill take no memory and are async-signal-safe.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) == 0 }
}

fn keeping_errno(work: impl FnOnce()) {
    // SAFETY: the pointer is to this thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: only this thread accesses its errno, which exists as long as the thread.
    let before = unsafe { *errno };
    work();
    // SAFETY: only this thread accesses its errno, which is still at this address.
    unsafe { *errno = before };
}
