//! A workload: a command that is forked first, traced, and only then executed.
//!
//! [`Workload::prepare`] forks; the child waits on a pipe. Events are opened on its pid and
//! enabled, then [`Workload::start`] lets it call exec, so that no event of the command is missed.
//! The fork is explicit, because `std::process::Command` has no hook between fork and exec. It
//! happens before any thread exists, because the child's code then needs no lock that another
//! thread might hold.
//!
//! An event that needs the memory of the command's process is opened after the exec instead:
//! [`Workload::load`] stops the command before the first instruction of its program, as a debugger
//! does, or once it has mapped a library; [`Workload::start`] then lets it run.
//!
//! The child gets an empty signal mask and default dispositions, except for the signals that were
//! ignored when this process began (`nohup`): Rust's own ignoring of `SIGPIPE` is undone.

mod traced;

use std::env;
use std::ffi::{CString, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use traced::HeldEnd;
pub use traced::HeldUntil;

/// Maximum number of signals that may interrupt one wait.
const INTERRUPTIONS: u32 = 10_000;

/// How far a command came that was to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// It is stopped, and ready.
    Ready,
    /// It ended before it was ready.
    Ended,
    /// It was not ready in time and got SIGTERM.
    GivenUp,
}

/// A forked command, waiting or running.
#[derive(Debug)]
pub struct Workload {
    pid: i32,
    command: String,
    /// The pipe that the child waits on; None after the start.
    go: Option<PipeWriter>,
    /// The pipe on which the child reports a failed exec; a successful exec closes it.
    outcome: PipeReader,
    status: Option<ExitStatus>,
    /// Whether it has executed its program and is stopped by ptrace(2).
    stopped: bool,
    unprivileged: Vec<PathBuf>,
}

impl Workload {
    /// Forks a child that executes `argv` (looked up in `PATH`) when started. Call it before any
    /// thread exists.
    ///
    /// # Errors
    /// There is no command, it contains a NUL, or no pipe or process can be created.
    pub fn prepare(argv: &[OsString]) -> io::Result<Workload> {
        let Some(command) = argv.first().map(|name| name.to_string_lossy().into_owned()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command is given"));
        };
        let arguments = argv.iter().map(|argument| CString::new(argument.clone().into_vec()));
        let arguments: Vec<CString> = arguments.collect::<Result<_, _>>()?;
        let mut pointers: Vec<*const libc::c_char> = arguments.iter().map(|w| w.as_ptr()).collect();
        pointers.push(std::ptr::null());

        // Both ends are close-on-exec.
        let (wait, go) = io::pipe()?;
        let (outcome, failed) = io::pipe()?;
        // SAFETY: the child makes only async-signal-safe calls, on memory allocated before, and
        // never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the child; the pointers end with a null, the descriptors are open.
            0 => unsafe {
                run_child(&pointers, go.as_raw_fd(), wait.as_raw_fd(), failed.as_raw_fd())
            },
            pid => {
                let (go, unprivileged) = (Some(go), Vec::new());
                let (status, stopped) = (None, false);
                Ok(Workload { pid, command, go, outcome, status, stopped, unprivileged })
            }
        }
    }

    /// Returns the child's process id, which the command keeps.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the command's name, as given.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Lets the child execute its command, and waits until it has. A second call does nothing.
    ///
    /// # Errors
    /// The command cannot be executed; the error names it and keeps exec's kind (`NotFound`,
    /// `PermissionDenied`).
    pub fn start(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.stopped) {
            return traced::detach(self.pid);
        }
        if self.send_start() { self.executed() } else { Ok(()) }
    }

    /// Lets the child execute its command and stops it again after an exec, or at the end of a
    /// later system call that maps code, once it is ready. Call [`Workload::start`] then.
    ///
    /// # Errors
    /// As [`Workload::start`]; or ptrace(2) fails.
    pub fn load(&mut self, until: &mut HeldUntil<'_>) -> io::Result<Loaded> {
        if self.go.is_none() {
            return Ok(Loaded::Ready);
        }
        if let Err(why) = traced::attach(self.pid) {
            // It may have been killed.
            return match self.try_wait()? {
                Some(_) => Ok(Loaded::Ended),
                None => Err(self.untraceable(&why)),
            };
        }
        self.send_start();
        let (end, unprivileged) = traced::hold(self.pid, until)?;
        self.unprivileged = unprivileged;
        Ok(match end {
            HeldEnd::Ready => {
                self.stopped = true;
                Loaded::Ready
            }
            HeldEnd::Ended(status) => {
                self.status = Some(status);
                self.executed()?;
                Loaded::Ended
            }
            HeldEnd::GivenUp(status) => {
                self.status = status;
                Loaded::GivenUp
            }
        })
    }

    /// Returns the programs that [`Workload::load`] executed without the privileges of their owner
    /// (set-user-ID), because it traced them.
    pub fn unprivileged(&self) -> &[PathBuf] {
        &self.unprivileged
    }

    /// Lets the child execute its command; returns false if it was sent before.
    fn send_start(&mut self) -> bool {
        let Some(mut go) = self.go.take() else { return false };
        // The pipe is broken if the child was killed. Its status shows that; exec's outcome is then
        // the end of file.
        let _ = go.write_all(&[1]);
        true
    }

    /// Waits for the outcome of the exec.
    fn executed(&mut self) -> io::Result<()> {
        let mut errno = [0; 4];
        match self.outcome.read_exact(&mut errno) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        let error = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
        self.wait()?;
        let mut text = format!("failed to run `{}`: {error}", self.command);
        if error.kind() == io::ErrorKind::NotFound && has_file(&self.command) {
            text.push_str("; the file exists, but its interpreter or loader is missing");
        }
        Err(io::Error::new(error.kind(), text))
    }

    fn untraceable(&self, why: &io::Error) -> io::Error {
        let text = format!(
            "failed to trace `{}` until it has mapped its files: {why}; seccomp, Yama or a tracer \
             of perilune forbids ptrace: start it and use -p",
            self.command
        );
        io::Error::new(why.kind(), text)
    }

    /// Returns how the command ended, or `None` while it runs.
    ///
    /// # Errors
    /// `waitpid(2)` fails.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.reap(libc::WNOHANG)
    }

    /// Waits until the command ends.
    ///
    /// # Errors
    /// `waitpid(2)` fails, or too many signals interrupt it.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        for _ in 0..INTERRUPTIONS {
            if let Some(status) = self.reap(0)? {
                return Ok(status);
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Requests its end (`SIGTERM`).
    ///
    /// # Errors
    /// `kill(2)` fails.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(libc::SIGTERM)
    }

    /// Ends it (`SIGKILL`).
    ///
    /// # Errors
    /// `kill(2)` fails.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(libc::SIGKILL)
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        if self.status.is_some() {
            // It was reaped: its number may belong to another process by now.
            return Ok(());
        }
        // SAFETY: kill takes no pointer; the pid is our child's until it is reaped.
        match unsafe { libc::kill(self.pid, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn reap(&mut self, options: i32) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let mut status = 0;
        // SAFETY: the kernel writes one int to `status`.
        match unsafe { libc::waitpid(self.pid, &raw mut status, options) } {
            0 => {}
            pid if pid == self.pid => self.status = Some(ExitStatus::from_raw(status)),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
        Ok(self.status)
    }
}

/// Ends and reaps a child that was never started or is stopped; leaves a running command alone, and
/// reaps an ended one.
impl Drop for Workload {
    fn drop(&mut self) {
        if self.go.take().is_some() || self.stopped {
            // A failure cannot be reported here, and both calls fail only if the child is gone.
            let _ = self.kill();
            let _ = self.wait();
        } else {
            let _ = self.try_wait();
        }
    }
}

/// Returns whether a command's file exists: at its path, or in a folder of `PATH`.
fn has_file(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).exists();
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(command).is_file())
}

/// Runs in the child: waits, then becomes the command. Makes only async-signal-safe calls.
///
/// # Safety
/// Call it in a fresh child with open descriptors and an argument vector that ends with a null
/// pointer.
unsafe fn run_child(argv: &[*const libc::c_char], go: i32, wait: i32, failed: i32) -> ! {
    // SAFETY: the caller guarantees the descriptors and the vector; the rest is this frame's own
    // memory.
    unsafe {
        // Otherwise this process itself would keep the pipe open that reports its parent's end.
        libc::close(go);
        restore_signals();
        let mut byte = 0u8;
        let mut started = false;
        for _ in 0..INTERRUPTIONS {
            let got = libc::read(wait, (&raw mut byte).cast(), 1);
            if got != -1 || *libc::__errno_location() != libc::EINTR {
                started = got == 1;
                break;
            }
        }
        if started && let Some(program) = argv.first() {
            libc::execvp(*program, argv.as_ptr());
            let errno = (*libc::__errno_location()).to_ne_bytes();
            libc::write(failed, errno.as_ptr().cast(), errno.len());
        }
        libc::_exit(127)
    }
}

/// Resets caught signals and `SIGPIPE` to their defaults, and unblocks all signals.
///
/// # Safety
/// Call it in a fresh child.
unsafe fn restore_signals() {
    // SAFETY: the structures are this frame's own; zero is a valid sigaction: SIG_DFL with an empty
    // mask.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in 1..=libc::SIGRTMAX() {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut now);
            if now.sa_sigaction != libc::SIG_IGN || signal == libc::SIGPIPE {
                libc::sigaction(signal, &raw const default, std::ptr::null_mut());
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
