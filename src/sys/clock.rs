//! The clocks: the kernel's monotonic clock, and its relation to wall-clock time.

use std::sync::OnceLock;
use std::time::Duration;
#[cfg(target_arch = "x86_64")]
use std::time::Instant;

use jiff::tz::TimeZone;

/// Returns `CLOCK_MONOTONIC` in nanoseconds; events with `use_clockid` stamp their records with the
/// same clock.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC) as u64
}

/// Returns the time since boot, time in suspend included.
pub fn since_boot() -> Duration {
    Duration::from_nanos(read(libc::CLOCK_BOOTTIME) as u64)
}

/// Returns the CPU time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID) as u64
}

/// Returns the same moment on both clocks: nanoseconds since 1970, and `CLOCK_MONOTONIC`.
///
/// Two clocks cannot be read at once. Reads the wall clock between two reads of the monotonic
/// clock, 16 times; the tightest pair is accurate to half its width, usually well under a
/// microsecond.
pub fn wall_and_monotonic() -> (i64, u64) {
    let tries = (0..16).map(|_| {
        let before = read(libc::CLOCK_MONOTONIC);
        let wall = read(libc::CLOCK_REALTIME);
        let after = read(libc::CLOCK_MONOTONIC);
        (after - before, wall, before + (after - before) / 2)
    });
    let (_, wall, monotonic) = tries.min_by_key(|(width, ..)| *width).unwrap_or_default();
    (wall, monotonic as u64)
}

/// Returns the wall clock: nanoseconds since 1970.
pub fn wall_ns() -> i64 {
    read(libc::CLOCK_REALTIME)
}

/// Sleeps until the wall clock shows a time, in nanoseconds since 1970, also if the clock is set
/// meanwhile. Returns false if a signal handler ran before.
pub fn sleep_until_wall(wall_ns: i64) -> bool {
    let until = libc::timespec {
        tv_sec: wall_ns.div_euclid(1_000_000_000),
        tv_nsec: wall_ns.rem_euclid(1_000_000_000),
    };
    let (clock, absolute) = (libc::CLOCK_REALTIME, libc::TIMER_ABSTIME);
    // SAFETY: the time is valid and only read; with an absolute time nothing is written.
    unsafe { libc::clock_nanosleep(clock, absolute, &raw const until, std::ptr::null_mut()) == 0 }
}

/// Returns the kernel's ticks per second: its coarse clock advances once per tick.
pub fn ticks_per_second() -> u32 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure; the clock always exists.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
    u32::try_from(1_000_000_000 / tick.tv_nsec.max(1)).unwrap_or(0)
}

/// Returns the ticks per second of the times in /proc/stat and /proc/PID/stat (`USER_HZ`), which do
/// not depend on the kernel's own tick.
pub fn user_ticks_per_second() -> u32 {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u32::try_from(ticks).unwrap_or(100).max(1)
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure; the clocks used here always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Returns the frequency of the time stamp counter in kHz: as the kernel reports it, else measured
/// once, in some milliseconds. None if there is no such counter.
pub fn tsc_khz() -> Option<u64> {
    static KHZ: OnceLock<Option<u64>> = OnceLock::new();
    *KHZ.get_or_init(|| {
        let reported = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/tsc_freq_khz").ok();
        reported.and_then(|text| text.trim().parse().ok()).or_else(measured_tsc_khz)
    })
}

#[cfg(target_arch = "x86_64")]
fn measured_tsc_khz() -> Option<u64> {
    const MEASURED: Duration = Duration::from_millis(10);
    // SAFETY: every x86_64 has the instruction, which only reads a counter.
    let cycles = || unsafe { core::arch::x86_64::_rdtsc() };
    let (since, first) = (Instant::now(), cycles());
    std::thread::sleep(MEASURED);
    let (passed, last) = (since.elapsed(), cycles());
    let khz = u128::from(last.wrapping_sub(first)) * 1_000_000 / passed.as_nanos().max(1);
    u64::try_from(khz).ok().filter(|khz| *khz > 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn measured_tsc_khz() -> Option<u64> {
    None
}

/// Returns the time zone of this process: `TZ`, else /etc/localtime.
pub fn local_zone() -> TimeZone {
    // Reads /etc/localtime directly: jiff would first walk through all zones of the machine, which
    // takes a millisecond.
    if std::env::var_os("TZ").is_none()
        && let Ok(file) = std::fs::read("/etc/localtime")
        && let Ok(zone) = TimeZone::tzif("Local", &file)
    {
        return zone;
    }
    TimeZone::system()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_ticks_between_100_and_1000_times_a_second() {
        assert!((100..=1000).contains(&ticks_per_second()), "{}", ticks_per_second());
    }

    #[test]
    fn the_pair_lies_between_readings_of_each_clock() {
        let since_1970 = || {
            let now = std::time::SystemTime::now();
            now.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64
        };
        let (wall_before, before) = (since_1970(), monotonic_ns());
        let (wall, monotonic) = wall_and_monotonic();
        let (wall_after, after) = (since_1970(), monotonic_ns());
        assert!((wall_before..=wall_after).contains(&wall));
        assert!((before..=after).contains(&monotonic));
    }
}
