//! Workloads that measure themselves, or stay alive until their test has finished.

use std::{cell::RefCell, io};

use super::{Load, close, pin_to_cpu, pin_to_cpu_0, pipe, read_byte, write_byte};

/// Numbers that a workload stores for its test, in shared memory.
pub(crate) struct Measured(pub(super) *mut u64);

impl Measured {
    const WORDS: usize = 4;

    pub(super) fn new() -> Measured {
        // SAFETY: a new mapping, of one page.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::WORDS * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED, "failed to map: {}", io::Error::last_os_error());
        Measured(page.cast())
    }

    /// Returns one of the numbers.
    pub(crate) fn get(&self, index: usize) -> u64 {
        assert!(index < Self::WORDS);
        // SAFETY: within the page, which is mapped as long as this value exists.
        unsafe { self.0.add(index).read_volatile() }
    }
}

impl Measured {
    /// Ends a workload that runs until it is stopped.
    pub(crate) fn stop(&self) {
        // SAFETY: the first number of the page, which is mapped as long as this value exists.
        unsafe { self.0.write_volatile(1) };
    }
}

/// Calls getppid until it is stopped. Stores the number of calls as its second number.
pub(crate) fn getppid_until_stopped() -> (Load, Measured) {
    let measured = Measured::new();
    let at = measured.0;
    let load = Load::new(move || {
        let mut calls = 0;
        // SAFETY: the page is shared and large enough.
        while unsafe { at.read_volatile() } == 0 {
            // SAFETY: takes no argument, changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
            calls += 1;
        }
        // SAFETY: the second number of the page, which the child has mapped until it exits.
        unsafe { at.add(1).write_volatile(calls) };
    });
    (load, measured)
}

impl Drop for Measured {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once.
        unsafe { libc::munmap(self.0.cast(), Self::WORDS * 8) };
    }
}

pub(super) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` has room for a timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn sleep(ms: u64) {
    let time = libc::timespec {
        tv_sec: (ms / 1000).cast_signed(),
        tv_nsec: (ms % 1000 * 1_000_000).cast_signed(),
    };
    // SAFETY: both pointers are a timespec or null.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time, std::ptr::null_mut()) };
}

/// Sleeps and spins in turn, `ms` milliseconds each. Stores the elapsed time, the time asleep by
/// its own clock, and the CPU time, in nanoseconds.
pub(crate) fn alternate(rounds: u32, ms: u64) -> (Load, Measured) {
    let measured = Measured::new();
    let at = measured.0;
    let load = Load::new(move || {
        // On one CPU: a 6.18 kernel was observed to stop recording the idle task of another CPU,
        // also for `perf stat`.
        super::pin_to_cpu_0();
        let (since, mut asleep) = (clock_ns(libc::CLOCK_MONOTONIC), 0);
        for _ in 0..rounds {
            let before = clock_ns(libc::CLOCK_MONOTONIC);
            sleep(ms);
            let after = clock_ns(libc::CLOCK_MONOTONIC);
            asleep += after - before;
            while clock_ns(libc::CLOCK_MONOTONIC) - after < ms * 1_000_000 {}
        }
        let all = clock_ns(libc::CLOCK_MONOTONIC) - since;
        let ran = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        // SAFETY: the page is shared and large enough.
        unsafe {
            at.write_volatile(all);
            at.add(1).write_volatile(asleep);
            at.add(2).write_volatile(ran);
        }
    });
    (load, measured)
}

/// Sleeps `ms` milliseconds in each round, after a storm of calls, alternating between two CPUs.
/// The storms grow up to a maximum and then start again at the minimum. Stores the longest sleep in
/// nanoseconds.
pub(crate) fn sleeps_in_storms(rounds: u32, ms: u64) -> (Load, Measured) {
    const LONGEST_STORM: u32 = 200;
    let measured = Measured::new();
    let at = measured.0;
    let load = Load::new(move || {
        let mut longest = 0;
        for round in 0..rounds {
            super::pin_to_cpu((round % 2) as usize);
            for _ in 0..round * 17 % LONGEST_STORM {
                // SAFETY: takes no argument, changes nothing.
                unsafe { libc::syscall(libc::SYS_getppid) };
            }
            let before = clock_ns(libc::CLOCK_MONOTONIC);
            sleep(ms);
            longest = longest.max(clock_ns(libc::CLOCK_MONOTONIC) - before);
        }
        // SAFETY: the page is shared and large enough.
        unsafe { at.write_volatile(longest) };
    });
    (load, measured)
}

/// Waits for `n` children, created as by vfork(2), each of which sleeps: the wait cannot be
/// interrupted.
pub(crate) fn vforks(n: u32, ms: u64) -> Load {
    Load::new(move || {
        for _ in 0..n {
            let flags = libc::CLONE_VFORK | libc::SIGCHLD;
            // SAFETY: like fork in a task with one thread: the child has its own memory, and ends
            // without returning.
            unsafe {
                match libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) {
                    0 => {
                        sleep(ms);
                        libc::_exit(0)
                    }
                    child => {
                        libc::waitpid(child as libc::pid_t, std::ptr::null_mut(), 0);
                    }
                }
            }
        }
    })
}

/// Writes once to each of `n` pages of new memory. Stores the address of the first and the size of
/// all in bytes.
pub(crate) fn faults(n: usize) -> (Load, Measured) {
    let measured = Measured::new();
    let at = measured.0;
    let load = Load::new(move || {
        // SAFETY: a new mapping, of small pages, written to within its bounds.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let (all, access) = (n * page, libc::PROT_READ | libc::PROT_WRITE);
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(std::ptr::null_mut(), all, access, kind, -1, 0).cast::<u8>();
            libc::madvise(memory.cast(), all, libc::MADV_NOHUGEPAGE);
            at.write_volatile(memory as u64);
            at.add(1).write_volatile(all as u64);
            (0..n).for_each(|i| memory.add(i * page).write_volatile(1));
        }
    });
    (load, measured)
}

/// A process on CPU 0 that opens and closes pipes, and holds the open ones until [`Pipes::end`].
pub(crate) struct Pipes {
    load: Load,
    done: libc::c_int,
    hold: libc::c_int,
}

/// The open pipes of such a process, oldest first.
pub(crate) struct Held {
    pipes: [(libc::c_int, libc::c_int); Held::MOST],
    len: usize,
}

impl Held {
    const MOST: usize = 256;

    pub(crate) fn open(&mut self, n: usize) {
        for _ in 0..n {
            self.pipes[self.len] = pipe();
            self.len += 1;
        }
    }

    /// Closes the first `n`.
    pub(crate) fn close(&mut self, n: usize) {
        for (out, into) in &self.pipes[..n] {
            close(*out);
            close(*into);
        }
        self.pipes.copy_within(n..self.len, 0);
        self.len -= n;
    }

    /// Opens and closes one pipe, `n` times.
    pub(crate) fn churn(&mut self, n: usize) {
        for _ in 0..n {
            let (out, into) = pipe();
            close(out);
            close(into);
        }
    }

    /// Does nothing for `ms` milliseconds, so that the watching process can catch up.
    pub(crate) fn pause(&self, ms: u64) {
        sleep(ms);
    }
}

impl Pipes {
    /// Opens `n` and closes the first `closed` of them.
    pub(crate) fn new(n: usize, closed: usize) -> Pipes {
        Pipes::doing(
            |_| {},
            |held| {
                held.open(n);
                held.close(closed);
            },
        )
    }

    /// Returns a process that has done `before` when this returns, and does `work` once it is run.
    pub(crate) fn doing(before: impl FnOnce(&mut Held), work: impl FnOnce(&mut Held)) -> Pipes {
        let ((done, done_in), (hold_out, hold)) = (pipe(), pipe());
        let held = RefCell::new(Held { pipes: [(0, 0); Held::MOST], len: 0 });
        let prepare = || {
            close(hold);
            pin_to_cpu_0();
            before(&mut held.borrow_mut());
            write_byte(done_in);
        };
        let load = Load::forked(prepare, || {
            work(&mut held.borrow_mut());
            write_byte(done_in);
            read_byte(hold_out);
        });
        close(done_in);
        close(hold_out);
        let pipes = Pipes { load, done, hold };
        pipes.wait();
        pipes
    }

    /// Returns a process that keeps `n` pipes open and then executes `/bin/sleep`.
    pub(crate) fn then_another_program(n: usize) -> Pipes {
        let ((done, done_in), (hold_out, hold)) = (pipe(), pipe());
        let load = Load::new(move || {
            close(hold);
            let mut ends = [0; 2];
            for _ in 0..n {
                // SAFETY: the array has room for two descriptors, which stay open in the next
                // program.
                unsafe { libc::pipe(ends.as_mut_ptr()) };
            }
            write_byte(done_in);
            read_byte(hold_out);
            let words = [c"sleep".as_ptr(), c"10".as_ptr(), std::ptr::null()];
            // SAFETY: the strings are NUL-terminated, and the list ends with null.
            unsafe { libc::execv(c"/bin/sleep".as_ptr(), words.as_ptr()) };
        });
        close(done_in);
        close(hold_out);
        Pipes { load, done, hold }
    }

    /// Makes it execute the other program, which is killed when this value is dropped.
    pub(crate) fn execute(&self) {
        assert!(write_byte(self.hold), "the workload has ended");
        let name = format!("/proc/{}/comm", self.pid());
        let since = std::time::Instant::now();
        while std::fs::read_to_string(&name).is_ok_and(|name| name != "sleep\n") {
            assert!(since.elapsed() < super::PATIENCE, "no other program after 120 s");
            sleep(5);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.load.pid()
    }

    /// Makes it do its work.
    pub(crate) fn run(&mut self) {
        self.load.start();
        self.wait();
    }

    fn wait(&self) {
        assert!(read_byte(self.done), "the workload ended before it was done");
    }

    /// Lets it end.
    pub(crate) fn end(self) {
        // Writes a byte: closing this end would not be noticed while the workload of another test,
        // forked meanwhile, has a copy of it.
        write_byte(self.hold);
        close(self.hold);
        close(self.done);
        self.load.wait();
    }
}

/// Keeps the first two CPUs from being idle while the value is held, for tests that count the
/// events of a task: a 6.18 kernel was observed to omit all events from the idle task of one CPU,
/// also for `perf stat`, without reporting it.
pub(crate) fn never_idle() -> [Load; 2] {
    [0, 1].map(|cpu| {
        let mut load = Load::new(move || {
            pin_to_cpu(cpu);
            // Another process may wait for the end of a pipe that this child has inherited.
            // SAFETY: the child no longer uses any of them.
            unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
            // SAFETY: zeros are the only parameters of this policy, which uses otherwise idle time.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &std::mem::zeroed()) };
            loop {
                std::hint::spin_loop();
            }
        });
        load.start();
        load
    })
}

/// A page that the test and its workloads share, so that its physical address is known.
#[derive(Clone, Copy)]
pub(crate) struct SharedPage(usize);

impl SharedPage {
    /// Maps a page and writes to it.
    pub(crate) fn new() -> SharedPage {
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: asks for new memory.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        // SAFETY: the page was just mapped, is writable, and is never unmapped.
        unsafe { page.cast::<u64>().write_volatile(1) };
        SharedPage(page as usize)
    }

    /// Returns the address of its eighth word.
    pub(crate) fn place(self) -> usize {
        self.0 + 64
    }

    /// Returns the physical address of that word; None if the kernel hides it.
    pub(crate) fn physical(self) -> Option<u64> {
        use std::os::unix::fs::FileExt as _;
        let mut entry = [0; 8];
        let map = std::fs::File::open("/proc/self/pagemap").ok()?;
        map.read_exact_at(&mut entry, self.0 as u64 / 4096 * 8).ok()?;
        // Bits 0 to 54 (Documentation/admin-guide/mm/pagemap.rst).
        let frame = u64::from_ne_bytes(entry) & ((1 << 55) - 1);
        (frame != 0).then_some(frame * 4096 + 64)
    }

    /// Writes to the word `n` times.
    pub(crate) fn stores(self, n: u32) -> Load {
        Load::new(move || {
            for i in 0..n {
                // SAFETY: the page is mapped in the child, too.
                unsafe { (self.place() as *mut u64).write_volatile(i.into()) };
            }
        })
    }
}
