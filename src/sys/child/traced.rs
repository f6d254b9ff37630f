//! Holds a child with ptrace(2) at an exec, or when it maps a file, and lets it run on. All calls
//! must come from the thread that forked the child.
//!
//! The child is attached ([`attach`]) before its first exec. Until it is ready it stops at each
//! exec. Only while it waits for a library does it stop at its system calls, too, since ptrace
//! cannot select one; of these, only one that maps code is followed by a check. Signals are
//! delivered from the stop that reports them, so that they keep their sender and value. A child
//! that gets SIGSTOP stays stopped until SIGCONT.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The condition until which a command is held.
pub struct HeldUntil<'a> {
    /// Returns whether the command has mapped all that is awaited.
    pub is_ready: &'a mut dyn FnMut() -> bool,
    /// Returns whether to go on waiting; called at least every 5 ms.
    pub waits_on: &'a mut dyn FnMut() -> bool,
    /// Whether a file may be mapped after the exec, as libraries are.
    pub maps_later: bool,
}

/// How the wait for a command ended.
pub(super) enum HeldEnd {
    /// It is stopped, and ready.
    Ready,
    /// It ended before.
    Ended(ExitStatus),
    /// It got SIGTERM and runs without a tracer, or ended.
    GivenUp(Option<ExitStatus>),
}

/// Time in which a child that was given up must stop to be detached.
const DETACH_TIMEOUT: Duration = Duration::from_secs(1);
/// A child is polled without a pause for this long after its last stop: most system calls are
/// shorter.
const BUSY: Duration = Duration::from_micros(100);
/// Limits of the pause between two polls, which is a sixteenth of the time since the last stop.
const POLL_MIN: Duration = Duration::from_micros(100);
const POLL_MAX: Duration = Duration::from_millis(5);

/// Set in the signal of a stop at a system call, with `PTRACE_O_TRACESYSGOOD`.
const SYSTEM_CALL: i32 = 0x80;
/// The child is killed when this process ends.
const OPTIONS: libc::c_int =
    libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;

/// Attaches a running child, which is not stopped.
///
/// # Errors
/// ptrace(2) is not permitted.
pub(super) fn attach(pid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, pid, OPTIONS)
}

/// Lets an attached child run until it is ready. Returns also the programs that it executed
/// meanwhile without the privileges of their owner.
///
/// # Errors
/// ptrace(2) or waitpid(2) fails.
pub(super) fn hold(pid: i32, until: &mut HeldUntil<'_>) -> io::Result<(HeldEnd, Vec<PathBuf>)> {
    let mut unprivileged = Vec::new();
    let mut maps_code = false;
    let mut run = libc::PTRACE_CONT;
    loop {
        let stop = match wait(pid, until.waits_on)? {
            Some(Waited::Ended(status)) => return Ok((HeldEnd::Ended(status), unprivileged)),
            Some(Waited::Stopped(stop)) => stop,
            None => return Ok((HeldEnd::GivenUp(give_up(pid)?), unprivileged)),
        };
        let check = match stop {
            Stop::Signal(signal) => {
                resume(run, pid, signal)?;
                continue;
            }
            Stop::Group => {
                resume(libc::PTRACE_LISTEN, pid, 0)?;
                continue;
            }
            Stop::Exec => {
                unprivileged.extend(unprivileged_program(pid));
                run = match until.maps_later || is_dynamic_linker(pid) {
                    true => libc::PTRACE_SYSCALL,
                    false => libc::PTRACE_CONT,
                };
                true
            }
            Stop::SystemCall => {
                let began = begins_to_map_code(pid);
                let ended = maps_code && began.is_none();
                maps_code = began == Some(true);
                ended
            }
            Stop::Interrupted | Stop::Other => false,
        };
        if check && (until.is_ready)() {
            return Ok((HeldEnd::Ready, unprivileged));
        }
        resume(run, pid, 0)?;
    }
}

/// Lets a stopped child run without a tracer.
///
/// # Errors
/// It was killed.
pub(super) fn detach(pid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, pid, 0)
}

/// Sends SIGTERM to a running child and detaches it. Returns its status if it ended.
fn give_up(pid: i32) -> io::Result<Option<ExitStatus>> {
    // SAFETY: takes no pointer; the child is not reaped.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    // Only a stopped child can be detached.
    resume(libc::PTRACE_INTERRUPT, pid, 0)?;
    let end = Instant::now() + DETACH_TIMEOUT;
    while let Some(waited) = wait(pid, &mut || Instant::now() < end)? {
        let (run, signal) = match waited {
            Waited::Ended(status) => return Ok(Some(status)),
            Waited::Stopped(Stop::Signal(signal)) => (libc::PTRACE_CONT, signal),
            Waited::Stopped(Stop::Group | Stop::Interrupted) => (libc::PTRACE_DETACH, 0),
            Waited::Stopped(_) => (libc::PTRACE_CONT, 0),
        };
        resume(run, pid, signal)?;
        if run == libc::PTRACE_DETACH {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Lets a stopped child run until its next stop. It may have been killed: waitpid(2) reports that.
fn resume(run: libc::c_uint, pid: i32, signal: i32) -> io::Result<()> {
    match ptrace(run, pid, signal) {
        Err(why) if why.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        done => done,
    }
}

/// A report of waitpid(2).
enum Waited {
    Ended(ExitStatus),
    Stopped(Stop),
}

/// Why a traced child has stopped.
enum Stop {
    /// It is about to get this signal.
    Signal(i32),
    /// It has executed a program.
    Exec,
    /// It begins or ends a system call.
    SystemCall,
    /// A signal such as SIGSTOP has stopped its process.
    Group,
    /// Its tracer interrupted it, or it runs on after SIGCONT.
    Interrupted,
    Other,
}

impl Waited {
    fn of(status: i32) -> Waited {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            return Waited::Ended(ExitStatus::from_raw(status));
        }
        Waited::Stopped(match (status >> 16, libc::WSTOPSIG(status)) {
            (libc::PTRACE_EVENT_EXEC, _) => Stop::Exec,
            (libc::PTRACE_EVENT_STOP, libc::SIGTRAP) => Stop::Interrupted,
            (libc::PTRACE_EVENT_STOP, _) => Stop::Group,
            (0, signal) if signal & SYSTEM_CALL != 0 => Stop::SystemCall,
            (0, signal) => Stop::Signal(signal),
            _ => Stop::Other,
        })
    }
}

/// Waits until the child stops or ends; None once `waits_on` returns false.
fn wait(pid: i32, waits_on: &mut dyn FnMut() -> bool) -> io::Result<Option<Waited>> {
    let begin = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one int to `status`.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if begin.elapsed() < BUSY => std::thread::yield_now(),
            0 if !waits_on() => return Ok(None),
            0 => std::thread::sleep((begin.elapsed() / 16).clamp(POLL_MIN, POLL_MAX)),
            -1 => {
                let why = io::Error::last_os_error();
                if why.kind() != io::ErrorKind::Interrupted {
                    return Err(why);
                }
            }
            _ => return Ok(Some(Waited::of(status))),
        }
    }
}

/// Returns whether a child at a system call begins one that maps code; None if it ends one.
fn begins_to_map_code(pid: i32) -> Option<bool> {
    const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
    const ENTRY: u8 = 1;
    // `struct ptrace_syscall_info` (include/uapi/linux/ptrace.h): the kind, the architecture, two
    // addresses, and at an entry the number and six arguments.
    let mut info = [0_u64; 16];
    // SAFETY: the kernel writes at most the given size to the array.
    let size =
        unsafe { libc::ptrace(GET_SYSCALL_INFO, pid, size_of_val(&info), info.as_mut_ptr()) };
    if size == -1 {
        // Linux before 5.3, which cannot remove a breakpoint at an exec either.
        return Some(false);
    }
    let [kind, ..] = info[0].to_ne_bytes();
    let (number, protection) = (info[3] as libc::c_long, info[6] as libc::c_int);
    let maps = [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect].contains(&number);
    (kind == ENTRY).then_some(maps && protection & libc::PROT_EXEC != 0)
}

/// Returns whether a child has executed the dynamic linker itself, which then maps the program that
/// its argument names.
fn is_dynamic_linker(pid: i32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    program.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld"))
}

/// Returns the program that a child has just executed if it is set-user-ID or set-group-ID and the
/// child did not get that ID.
fn unprivileged_program(pid: i32) -> Option<PathBuf> {
    let program = format!("/proc/{pid}/exe");
    let file = std::fs::metadata(&program).ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let has = |bits: u32| file.mode() & bits == bits;
    let got = |label, id: u32| effective_id(&status, label) == Some(id);
    // A group that may not execute it marks a mandatory lock instead.
    let lost = has(libc::S_ISUID) && !got("Uid:", file.uid())
        || has(libc::S_ISGID | libc::S_IXGRP) && !got("Gid:", file.gid());
    lost.then(|| std::fs::read_link(&program).unwrap_or_else(|_| program.into()))
}

/// Returns the second number of a line of `/proc/PID/status`.
fn effective_id(status: &str, label: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn ptrace(request: libc::c_uint, pid: i32, data: i32) -> io::Result<()> {
    // SAFETY: these requests take a number as their data and use no address.
    match unsafe { libc::ptrace(request, pid, 0_usize, data as usize) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
