//! Scheduling of this process: a short slice, real-time priority, and the time spent waiting for a
//! CPU.

use std::cell::Cell;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::clock::{monotonic_ns, thread_cpu_ns};

/// The requested slice for `SCHED_OTHER` and `SCHED_BATCH`: the shortest that the kernel accepts.
const SLICE_NS: u64 = 100_000;

/// The first version of `struct sched_attr`; libc does not define it for every target.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
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

/// Requests short slices: the same share of a CPU, but soon after a ring has woken the thread.
/// Between two tasks that never sleep, a usual slice may come too late for the ring. Kernels before
/// 6.12 ignore the request; a real-time or idle policy, which was set on purpose, is kept.
///
/// Children inherit the slice, so it is requested after the workload has been forked.
pub fn request_short_slices() {
    if let Some(attr) = fair_attr_of(0) {
        // A refusal is harmless: the request only reduces losses, and losses are counted.
        set(&SchedAttr { runtime: SLICE_NS, ..attr });
    }
}

/// Nice value of threads that serve or send what a run has measured.
const NICE: libc::c_int = 10;

/// Lowers the priority of the calling thread: it must not take a CPU from the thread that drains
/// the rings, whatever others ask of it.
pub fn yield_to_the_run() {
    // SAFETY: takes numbers only; 0 is the calling thread (setpriority(2), NOTES).
    let current = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // A refusal is harmless: losses are counted.
    // SAFETY: takes numbers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, current.max(NICE)) };
}

/// Real-time priority for a thread that uses little CPU time: the lowest one, `SCHED_RR` 1, for at
/// most a percentage of each window. A thread that uses more runs with its usual policy until it
/// uses little again, so a CPU is never taken from other tasks for longer than that, plus the time
/// between two calls of [`RtBoost::update`].
///
/// It helps against tasks of another autogroup (sched_autogroup in sched(7)), unlike short slices.
/// Threads and processes that the thread starts do not inherit it.
#[derive(Debug)]
pub struct RtBoost {
    /// The scheduling before.
    usual: SchedAttr,
    boosted: bool,
    part: WindowUse,
}

impl RtBoost {
    /// Gives the calling thread the priority; returns None if it may not have it (`CAP_SYS_NICE`,
    /// `RLIMIT_RTPRIO`), or has another policy than `SCHED_OTHER` or a nice value. `percent` is
    /// the part of a CPU that it may use at that priority.
    pub fn request(percent: u64) -> Option<RtBoost> {
        let usual = default_attr_of(0)?;
        let part = WindowUse { percent, since: monotonic_ns(), used_before: thread_cpu_ns() };
        // An unprivileged thread may set the flag, but not clear it.
        let usual = SchedAttr { flags: usual.flags | BOOSTED.flags, ..usual };
        let boosted = set(&BOOSTED);
        REQUESTED.set(boosted);
        boosted.then_some(RtBoost { usual, boosted, part })
    }

    /// Lowers the priority if too much CPU time was used, and raises it again later. Call it in
    /// each iteration of the thread's loop.
    pub fn update(&mut self) {
        UPDATED.set(true);
        let (little, is_new) = self.part.update(monotonic_ns(), thread_cpu_ns());
        // Set again in each window, as `suspend_boost` may have been called in between.
        if (is_new || little != self.boosted) && set(if little { &BOOSTED } else { &self.usual }) {
            self.boosted = little;
        }
    }
}

impl Drop for RtBoost {
    /// Restores the usual policy of the thread that requested the boost.
    fn drop(&mut self) {
        REQUESTED.set(false);
        set(&self.usual);
    }
}

/// Whether `boost_thread` raised the priority of a thread and it was not lowered since.
static BOOSTED_BY_SIGNAL: AtomicBool = AtomicBool::new(false);

/// Gives a thread of the default scheduling policy real-time priority, until it steps back
/// ([`end_thread_boost`]) or uses some CPU time ([`suspend_boost`]). One such thread at a time.
pub(super) fn boost_thread(tid: i32) {
    if default_attr_of(tid).is_some() && set_of(tid, &BOOSTED) {
        BOOSTED_BY_SIGNAL.store(true, SeqCst);
    }
}

/// Restores this thread's usual policy if `boost_thread` changed it.
pub fn end_thread_boost() {
    if BOOSTED_BY_SIGNAL.swap(false, SeqCst) {
        set(&USUAL);
    }
}

thread_local! {
    /// Whether this thread requested the priority, and whether it called [`RtBoost::update`] since
    /// the last [`suspend_boost`].
    static REQUESTED: Cell<bool> = const { Cell::new(false) };
    static UPDATED: Cell<bool> = const { Cell::new(false) };
}

/// Lowers this thread's priority if it was raised and [`RtBoost::update`] was not called since the
/// last call. For a timer of the thread's CPU time, inside a signal handler: a handler or a line of
/// a script may run for long.
pub fn suspend_boost() {
    end_thread_boost();
    if REQUESTED.get() && !UPDATED.replace(false) {
        set(&USUAL);
    }
}

/// The usual scheduling policy.
const USUAL: SchedAttr =
    SchedAttr { policy: libc::SCHED_OTHER as u32, priority: 0, runtime: SLICE_NS, ..BOOSTED };

/// The lowest static priority of sched(7). Children do not inherit it (`SCHED_FLAG_RESET_ON_FORK`).
const BOOSTED: SchedAttr = SchedAttr {
    size: size_of::<SchedAttr>() as u32,
    policy: libc::SCHED_RR as u32,
    flags: 1,
    nice: 0,
    priority: 1,
    runtime: 0,
    deadline: 0,
    period: 0,
};

/// CPU time used in a window.
#[derive(Debug)]
struct WindowUse {
    percent: u64,
    /// Start of the window: nanoseconds of the clock, and of the thread's own CPU time.
    since: u64,
    used_before: u64,
}

impl WindowUse {
    /// Length of a window.
    const WINDOW_NS: u64 = 100_000_000;

    /// Returns whether at most `percent` of the elapsed time, or of a whole window, was used, and
    /// whether the window has ended.
    fn update(&mut self, now: u64, used: u64) -> (bool, bool) {
        let (passed, spent) = (now - self.since, used - self.used_before);
        let is_over = passed >= WindowUse::WINDOW_NS;
        if is_over {
            (self.since, self.used_before) = (now, used);
        }
        (spent <= passed.max(WindowUse::WINDOW_NS) / 100 * self.percent, is_over)
    }
}

/// Returns the scheduling of a thread; None if another one was chosen for it (chrt, nice).
fn default_attr_of(tid: i32) -> Option<SchedAttr> {
    fair_attr_of(tid).filter(|attr| attr.nice == 0 && attr.policy == libc::SCHED_OTHER as u32)
}

/// Returns the scheduling of a thread; None if it has a real-time or an idle policy.
fn fair_attr_of(tid: i32) -> Option<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes, which are the structure's.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) };
    let fair = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    let is_fair = got == 0 && fair.iter().any(|policy| *policy as u32 == attr.policy);
    is_fair.then_some(SchedAttr { size, ..attr })
}

/// Returns false if the kernel refuses it.
fn set(attr: &SchedAttr) -> bool {
    set_of(0, attr)
}

fn set_of(tid: i32, attr: &SchedAttr) -> bool {
    // SAFETY: the kernel reads `size` bytes, which are the structure's.
    unsafe { libc::syscall(libc::SYS_sched_setattr, tid, std::ptr::from_ref(attr), 0) == 0 }
}

/// Returns how long this thread has been ready to run without a CPU since it started; None if the
/// kernel does not count it. See Documentation/scheduler/sched-stats.rst.
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
        let nice = || fair_attr_of(0).map(|attr| (attr.policy, attr.nice));
        let before = nice();
        request_short_slices();
        assert_eq!(nice(), before);
    }

    #[test]
    fn the_boost_ends_when_its_share_is_used_and_returns_when_use_is_low() {
        const MS: u64 = 1_000_000;
        let mut part = WindowUse { percent: 10, since: 0, used_before: 0 };
        let looks = [
            // (now, used): within the limit, and beyond it.
            ((50, 10), (true, false)),
            ((51, 11), (false, false)),
            // Too much over the whole window; the next one starts at zero.
            ((100, 11), (false, true)),
            ((101, 12), (true, false)),
            // Much at once, and then nothing for long.
            ((150, 50), (false, false)),
            ((900, 50), (true, true)),
        ];
        for ((now, used), wanted) in looks {
            assert_eq!(part.update(now * MS, used * MS), wanted, "{used} ms at {now}");
        }
    }

    #[test]
    fn the_boost_is_not_inherited_and_ends_without_updates() {
        let policy = || {
            // SAFETY: sched_getscheduler has no preconditions.
            unsafe { libc::sched_getscheduler(0) }
        };
        let before = policy();
        let free = default_attr_of(0).is_some();
        let may = free && std::thread::spawn(|| set(&BOOSTED)).join().unwrap();
        let boosted = std::thread::spawn(move || {
            let mut boost = RtBoost::request(10);
            assert_eq!(boost.is_some(), may);
            assert_eq!(std::thread::spawn(policy).join().unwrap(), before);
            let here = || policy() & !libc::SCHED_RESET_ON_FORK;
            let at_first = here();
            boost.iter_mut().for_each(RtBoost::update);
            suspend_boost();
            let after_update = here();
            suspend_boost();
            let suspended = here();
            boost.iter_mut().for_each(RtBoost::update);
            drop(boost);
            (at_first, after_update, suspended, policy())
        });
        // The flag stays: without it, an unprivileged thread could not restore its policy.
        let (wanted, at_last) = match may {
            true => (libc::SCHED_RR, before | libc::SCHED_RESET_ON_FORK),
            false => (before, before),
        };
        assert_eq!(boosted.join().unwrap(), (wanted, wanted, before, at_last));
    }

    #[test]
    fn a_thread_with_a_chosen_policy_is_not_boosted() {
        let policies = std::thread::spawn(|| {
            let batch = SchedAttr { policy: libc::SCHED_BATCH as u32, runtime: 0, ..USUAL };
            assert!(set(&SchedAttr { flags: 0, ..batch }), "any thread may choose SCHED_BATCH");
            let boost = RtBoost::request(10);
            suspend_boost();
            // SAFETY: sched_getscheduler has no preconditions.
            (boost.is_none(), unsafe { libc::sched_getscheduler(0) })
        });
        assert_eq!(policies.join().unwrap(), (true, libc::SCHED_BATCH));
    }

    #[test]
    fn two_spinning_threads_on_one_cpu_wait_for_each_other() {
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
        // Each has half of the time, whatever else runs.
        assert!(waited.is_none_or(|ns| ns > 150_000_000), "{waited:?}");
    }
}
