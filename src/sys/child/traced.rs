//! Stops a child after its exec with ptrace(2), and lets it run on. All calls must come from the
//! thread that forked the child.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Timeout until a command is ready: its dynamic linker takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between two polls of a child that has run for [`BUSY`] since its last stop. Before, it
/// is polled all the time: most system calls are shorter.
const POLL_INTERVAL: Duration = Duration::from_micros(200);
const BUSY: Duration = Duration::from_micros(100);

/// Set in the signal of a stop at a system call, with `PTRACE_O_TRACESYSGOOD`.
const SYSTEM_CALL: i32 = 0x80;

/// Waits for the stop of the exec, and then lets the child run from system call to system call
/// until `is_ready`. Returns its status if it ends before; it is stopped otherwise.
///
/// # Errors
/// The child was not ready in time, or ptrace(2) fails. The child is killed when this process ends.
pub(super) fn run_until(
    pid: i32,
    is_ready: &mut dyn FnMut() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + TIMEOUT;
    if let Some(status) = wait(pid, end)?.ended() {
        return Ok(Some(status));
    }
    // Without `TRACEEXEC`, a later exec would send a SIGTRAP, which ends the command once it is
    // detached.
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;
    ptrace(libc::PTRACE_SETOPTIONS, pid, options)?;
    let mut signal = 0;
    while !is_ready() {
        ptrace(libc::PTRACE_SYSCALL, pid, signal)?;
        let stop = wait(pid, end)?;
        if let Some(status) = stop.ended() {
            return Ok(Some(status));
        }
        signal = stop.signal();
    }
    match signal {
        0 => {}
        // `detach` discards the signal of this stop, so it is sent again.
        // SAFETY: takes no pointer; the child is not reaped.
        signal => drop(unsafe { libc::kill(pid, signal) }),
    }
    Ok(None)
}

/// Lets a stopped child run.
///
/// # Errors
/// It was killed.
pub(super) fn detach(pid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, pid, 0)
}

/// Status that waitpid(2) reports.
struct Waited(i32);

impl Waited {
    fn ended(&self) -> Option<ExitStatus> {
        let ended = libc::WIFEXITED(self.0) || libc::WIFSIGNALED(self.0);
        ended.then(|| ExitStatus::from_raw(self.0))
    }

    /// Returns the signal that the child is about to get; 0 at a system call or an exec.
    fn signal(&self) -> i32 {
        let is_event = self.0 >> 16 != 0;
        match libc::WSTOPSIG(self.0) {
            signal if is_event || signal & SYSTEM_CALL != 0 => 0,
            signal => signal,
        }
    }
}

fn wait(pid: i32, end: Instant) -> io::Result<Waited> {
    let begin = Instant::now();
    while Instant::now() < end {
        let mut status = 0;
        // SAFETY: the kernel writes one int to `status`.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if begin.elapsed() < BUSY => std::thread::yield_now(),
            0 => std::thread::sleep(POLL_INTERVAL),
            -1 => {
                let why = io::Error::last_os_error();
                if why.kind() != io::ErrorKind::Interrupted {
                    return Err(why);
                }
            }
            _ => return Ok(Waited(status)),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn ptrace(request: libc::c_uint, pid: i32, data: i32) -> io::Result<()> {
    // SAFETY: these requests take a number as their data and use no address.
    match unsafe { libc::ptrace(request, pid, 0_usize, data as usize) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
