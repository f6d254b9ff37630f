//! How soon after a wakeup we run: the scheduler's slice, and how long it let us wait.

use std::mem::size_of;

/// The request, where `SCHED_OTHER` and its kin take one: the shortest that the kernel accepts.
const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` in its first version; libc has none of its own for every target.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks the kernel for short turns instead of long ones: the same share of a CPU, but soon after a ring has woken us.
/// Between two tasks that never sleep a usual turn may come too late for the ring. Kernels before 6.12 do
/// not know the request and take no notice; a real-time or idle policy, which somebody has chosen, stays as it is.
///
/// Children inherit it, so it is asked for once the workload is there.
pub fn ask_for_short_turns() {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes, which are the structure's.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    let fair = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    if got != 0 || !fair.iter().any(|policy| *policy as u32 == attr.policy) {
        return;
    }
    attr.size = size;
    attr.runtime = SLICE_NS;
    // A refusal changes nothing: this is about losing less, and losses are counted.
    // SAFETY: the kernel reads `size` bytes.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// For how long this thread was ready to run and had no CPU, since it began; None where the kernel does not count it. See
/// Documentation/scheduler/sched-stats.rst.
pub fn waited_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn the_policy_and_the_nice_value_stay_as_they_are() {
        let nice = || {
            let mut attr = SchedAttr::default();
            // SAFETY: as above.
            let got = unsafe {
                let size = size_of::<SchedAttr>() as u32;
                libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0)
            };
            assert_eq!(got, 0);
            (attr.policy, attr.nice)
        };
        let before = nice();
        ask_for_short_turns();
        assert_eq!(nice(), before);
    }

    #[test]
    fn two_that_spin_on_one_cpu_wait_for_each_other() {
        // SAFETY: the set is filled before it is read, and its size is passed.
        let pin = || unsafe {
            let mut cpus: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut cpus);
            let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &cpus));
            libc::CPU_ZERO(&mut cpus);
            libc::CPU_SET(first.unwrap_or(0), &mut cpus);
            assert_eq!(
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cpus),
                0
            );
        };
        let spin = move || {
            pin();
            let before = waited_ns()?;
            let end = Instant::now() + Duration::from_millis(300);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            Some(waited_ns().unwrap() - before)
        };
        let both = [std::thread::spawn(spin), std::thread::spawn(spin)];
        let waited: Option<u64> = both.into_iter().map(|one| one.join().unwrap()).sum();
        // Each has half of the time, whoever else there is.
        assert!(waited.is_none_or(|ns| ns > 150_000_000), "{waited:?}");
    }
}
