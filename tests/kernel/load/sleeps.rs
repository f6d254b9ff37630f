//! A workload of sleeps that measures each.

use std::time::{Duration, Instant};

use super::measured::{Measured, clock_ns};
use super::{Load, PATIENCE};

/// Sleeps `N` times, of different lengths from a millisecond. Stores the median, the 90th
/// percentile and the sum of the sleeps' lengths in nanoseconds, measured around each call.
pub(crate) fn sleeps<const N: usize>() -> (Load, Measured) {
    let measured = Measured::new();
    let at = measured.0;
    let load = Load::new(move || {
        let mut lengths = [0u64; N];
        for (i, length) in lengths.iter_mut().enumerate() {
            let ns = 1_000_000 + 150_000 * i as libc::c_long;
            let asked = libc::timespec { tv_sec: 0, tv_nsec: ns };
            let begin = clock_ns(libc::CLOCK_MONOTONIC);
            // SAFETY: the time is a live local; nothing is written.
            unsafe {
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &asked, std::ptr::null_mut())
            };
            *length = clock_ns(libc::CLOCK_MONOTONIC) - begin;
        }
        lengths.sort_unstable();
        let results = [lengths[N / 2], lengths[N * 9 / 10], lengths.iter().sum()];
        for (i, result) in results.into_iter().enumerate() {
            // SAFETY: within the page, which the child has mapped until it exits.
            unsafe { at.add(i).write_volatile(result) };
        }
    });
    (load, measured)
}

/// Sleeps a millisecond in each round. Stores the number of its voluntary switches so far.
pub(crate) fn counted_sleeps(rounds: u32) -> (Load, Measured) {
    let measured = Measured::new();
    let at = measured.0;
    let load = Load::new(move || {
        super::pin_to_cpu_0();
        let asked = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for _ in 0..rounds {
            // SAFETY: the time is a live local; nothing is written.
            unsafe {
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &asked, std::ptr::null_mut())
            };
        }
        // SAFETY: zero is a valid value of the structure, which the kernel then fills.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the page is shared and large enough; `usage` is a structure of the call.
        unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            at.write_volatile(usage.ru_nvcsw.unsigned_abs());
        }
    });
    (load, measured)
}

impl Load {
    /// Waits until the child has slept for some time, until its start. Returns the number of its
    /// voluntary switches.
    pub(crate) fn switches_until_it_waits(&self) -> u64 {
        let asleep = || {
            let file = format!("/proc/{}/status", self.pid());
            let status = std::fs::read_to_string(file).expect("it is alive");
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            let is_asleep = field("State:").is_some_and(|state| state.trim().starts_with('S'));
            let count = field("voluntary_ctxt_switches:").map(str::trim);
            let count = count.and_then(|count| count.parse::<u64>().ok());
            is_asleep.then(|| count.expect("a number of switches"))
        };
        let since = Instant::now();
        loop {
            let before = asleep();
            std::thread::sleep(Duration::from_millis(50));
            if let Some(count) = before
                && asleep() == before
            {
                return count;
            }
            assert!(since.elapsed() < PATIENCE, "the workload does not wait");
        }
    }
}
