//! Workloads that do one thing an exact number of times, each in a child of the test that waits for
//! its start.
//!
//! A child is forked without exec, so its process id is known before it does anything, and it does
//! nothing else but read its start from a pipe. Between fork and `_exit` it makes system calls
//! only: the test has other threads, which may hold locks at the fork.

mod calls;
mod measured;
mod mixed;
mod names;
mod sleeps;
mod spin;

pub(crate) use calls::{
    PROCESS_SHIFT, getppid_in_tree, getppid_renamed_elsewhere, getppid_with_arguments,
};
pub(crate) use measured::{
    Pipes, SharedPage, alternate, faults, getppid_until_stopped, never_idle, sleeps_in_storms,
    vforks,
};
pub(crate) use mixed::{CALLS, lookups, mixed_calls, numbers_of, paced_calls, paced_lookups};
pub(crate) use names::{links_names, opens, opens_names, opens_untouched_name};

pub(crate) use sleeps::{counted_sleeps, sleeps};
pub(crate) use spin::spins_around_two_calls;
use std::{
    io,
    time::{Duration, Instant},
};

/// Timeout after which a workload counts as stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A child that waits for [`Load::run`]. Killed on drop, or when the test's thread ends.
pub(crate) struct Load {
    pid: libc::pid_t,
    start: Option<libc::c_int>,
}

/// Calls getppid `n` times.
pub(crate) fn getppid(n: u32) -> Load {
    Load::new(move || call_getppid(n))
}

/// Calls getppid `n` times on that CPU.
pub(crate) fn getppid_on(cpu: u32, n: u32) -> Load {
    Load::new(move || {
        pin_to_cpu(cpu as usize);
        call_getppid(n);
    })
}

fn call_getppid(n: u32) {
    for _ in 0..n {
        // SAFETY: takes no argument, changes nothing.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

/// Calls getuid, `n` times getppid, then getgid.
pub(crate) fn between_two_calls(n: u32) -> Load {
    Load::new(move || {
        let call = |number| {
            // SAFETY: takes no argument, changes nothing.
            unsafe { libc::syscall(number) };
        };
        call(libc::SYS_getuid);
        (0..n).for_each(|_| call(libc::SYS_getppid));
        call(libc::SYS_getgid);
    })
}

/// Returns a sender of `n` times SIGUSR1, and the target, which ignores it and must be kept until
/// the sender is done.
pub(crate) fn signals(n: u32) -> (Load, Load) {
    let target = Load::ready(|| {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    });
    let to = target.pid;
    let sender = Load::new(move || {
        for _ in 0..n {
            // SAFETY: a signal to a child of the test, which is not reaped before this one.
            unsafe { libc::kill(to, libc::SIGUSR1) };
        }
    });
    (sender, target)
}

/// Forks `n` children one after the other, each of which exits immediately.
pub(crate) fn forks(n: u32) -> Load {
    Load::new(move || {
        for _ in 0..n {
            // SAFETY: this child has one thread; its own child ends without returning.
            unsafe {
                match libc::fork() {
                    0 => libc::_exit(0),
                    child => libc::waitpid(child, std::ptr::null_mut(), 0),
                };
            }
        }
    })
}

/// Forks `n` children one after the other on CPU 1, which exit on CPU 0.
pub(crate) fn forks_elsewhere(n: u32) -> Load {
    Load::new(move || {
        pin_to_cpu(1);
        for _ in 0..n {
            // SAFETY: this child has one thread; its own child exits without returning.
            unsafe {
                match libc::fork() {
                    0 => {
                        pin_to_cpu_0();
                        libc::usleep(2000);
                        libc::_exit(0)
                    }
                    child => libc::waitpid(child, std::ptr::null_mut(), 0),
                };
            }
        }
    })
}

/// Forks `n` children, each of which exits immediately and is reaped by the kernel itself, like a
/// thread.
pub(crate) fn forks_unreaped(n: u32) -> Load {
    Load::new(move || {
        // SAFETY: this child has one thread; its own children end without returning.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            for _ in 0..n {
                if libc::fork() == 0 {
                    libc::_exit(0);
                }
            }
            // Waits until no child is left.
            while libc::waitpid(-1, std::ptr::null_mut(), 0) > 0 {}
        }
    })
}

/// Changes the task's own name `n` times.
pub(crate) fn renames(n: u32) -> Load {
    Load::new(move || {
        for i in 0..n {
            let name = if i % 2 == 0 { c"perilune-even" } else { c"perilune-odd" };
            // SAFETY: the name ends in NUL.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        }
    })
}

/// Moves the task itself `n` times, from one CPU to another and back.
pub(crate) fn migrations(n: u32) -> Load {
    Load::new(move || {
        for i in 0..n {
            pin_to_cpu(i as usize % 2);
        }
    })
}

/// Creates `n` pipes on CPU 0 and closes them on CPU 1.
pub(crate) fn pipes_closed_elsewhere(n: u32) -> Load {
    Load::new(move || {
        for _ in 0..n {
            pin_to_cpu_0();
            let (out, into) = pipe();
            pin_to_cpu(1);
            close(out);
            close(into);
        }
    })
}

/// Calls nanosleep once.
pub(crate) fn sleep_ms(ms: u32) -> Load {
    Load::new(move || {
        let time = libc::timespec {
            tv_sec: i64::from(ms / 1000),
            tv_nsec: i64::from(ms % 1000) * 1_000_000,
        };
        // SAFETY: both pointers are a timespec or null.
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time, std::ptr::null_mut()) };
    })
}

/// Returns two tasks on CPU 0 that send each other a byte `n` times: each round switches from one
/// to the other and back.
pub(crate) fn ping_pong(n: u32) -> (Load, Load) {
    let ((there_out, there_in), (back_out, back_in)) = (pipe(), pipe());
    let first = Load::new(move || {
        pin_to_cpu_0();
        for _ in 0..n {
            write_byte(there_in);
            read_byte(back_out);
        }
    });
    let second = Load::new(move || {
        pin_to_cpu_0();
        for _ in 0..n {
            read_byte(there_out);
            write_byte(back_in);
        }
    });
    for end in [there_out, there_in, back_out, back_in] {
        close(end);
    }
    (first, second)
}

/// Returns a task on CPU 1 that and one on CPU 0 that wakes it `n` times.
pub(crate) fn wakeups_elsewhere(n: u32) -> (Load, Load) {
    let (out, into) = pipe();
    let sleeper = Load::new(move || {
        pin_to_cpu(1);
        let _ = (0..n).all(|_| read_byte(out));
    });
    let waker = Load::new(move || {
        pin_to_cpu_0();
        // SAFETY: it has no preconditions.
        let _ = (0..n).all(|_| write_byte(into) && unsafe { libc::usleep(100) } == 0);
    });
    close(out);
    close(into);
    (sleeper, waker)
}

/// Returns tasks that pass a token around `rounds` times, each on its own CPU if there are enough;
/// the holder of the token calls getppid once.
pub(crate) fn token_ring<const N: usize>(rounds: u32) -> [Load; N] {
    let pipes: [_; N] = std::array::from_fn(|_| pipe());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let loads = std::array::from_fn(|place| {
        let (from, to) = (pipes[place].0, pipes[(place + 1) % N].1);
        Load::new(move || {
            pin_to_cpu(place % cpus);
            for round in 0..rounds {
                if place > 0 || round > 0 {
                    read_byte(from);
                }
                // SAFETY: takes no argument, changes nothing.
                unsafe { libc::syscall(libc::SYS_getppid) };
                write_byte(to);
            }
        })
    });
    for (out, into) in pipes {
        close(out);
        close(into);
    }
    loads
}

impl Load {
    /// Forks a child that does `work` once it is started.
    pub(crate) fn new(work: impl FnOnce()) -> Load {
        Load::forked(|| {}, work)
    }

    /// Forks a child that has done `preparation` when this returns, and then only waits.
    fn ready(preparation: impl FnOnce()) -> Load {
        let (done_out, done_in) = pipe();
        let prepare = || {
            preparation();
            write_byte(done_in);
        };
        let load = Load::forked(prepare, || {});
        let prepared = read_byte(done_out);
        close(done_out);
        close(done_in);
        assert!(prepared, "the workload ended before it was ready");
        load
    }

    fn forked(preparation: impl FnOnce(), work: impl FnOnce()) -> Load {
        let (out, start) = pipe();
        // SAFETY: the child makes system calls only, and ends without returning.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "failed to fork: {}", io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: takes a signal number; the child must not outlive its test.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            close(start);
            preparation();
            let started = read_byte(out);
            if started {
                work();
            }
            // SAFETY: ends the child without the test's exit handlers.
            unsafe { libc::_exit(i32::from(!started)) };
        }
        close(out);
        Load { pid, start: Some(start) }
    }

    /// Returns the child's process and thread id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Starts the child's work.
    pub(crate) fn start(&mut self) {
        let start = self.start.take().expect("a workload starts once");
        let written = write_byte(start);
        close(start);
        assert!(written, "the workload ended before its start");
    }

    /// Waits until the child has done its work.
    pub(crate) fn wait(mut self) {
        let since = Instant::now();
        let mut status = 0;
        // SAFETY: a child of this process, reaped here only.
        while unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == 0 {
            assert!(since.elapsed() < PATIENCE, "the workload is stuck");
            std::thread::sleep(Duration::from_millis(2));
        }
        self.pid = 0;
        assert_eq!(status, 0, "the workload failed");
    }

    /// Starts the work and waits for its end.
    pub(crate) fn run(mut self) {
        self.start();
        self.wait();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(start) = self.start.take() {
            close(start);
        }
        if self.pid > 0 {
            // SAFETY: a child of this process, not yet reaped.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// Sends SIGINT to a process that the test has started and not reaped.
pub(crate) fn interrupt(pid: u32) {
    // SAFETY: a signal changes nothing in this process.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGINT) };
}

/// Returns whether this process has the effective user id 0.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes no argument, never fails.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the read end and the write end.
fn pipe() -> (libc::c_int, libc::c_int) {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0, "failed to make a pipe: {}", io::Error::last_os_error());
    (ends[0], ends[1])
}

fn close(end: libc::c_int) {
    // SAFETY: a descriptor of this module, closed once.
    unsafe { libc::close(end) };
}

/// Returns false at the pipe's end.
fn read_byte(end: libc::c_int) -> bool {
    let mut byte = 0u8;
    // SAFETY: the buffer has room for one byte.
    unsafe { libc::read(end, (&raw mut byte).cast(), 1) == 1 }
}

fn write_byte(end: libc::c_int) -> bool {
    let byte = 1u8;
    // SAFETY: the buffer has one byte.
    unsafe { libc::write(end, (&raw const byte).cast(), 1) == 1 }
}

pub(super) fn pin_to_cpu_0() {
    pin_to_cpu(0);
}

pub(crate) fn pin_to_cpu(cpu: usize) {
    // SAFETY: an all-zero set is an empty set; the call reads no more than its size.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut cpus);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cpus);
    }
}
