//! How soon after a wakeup we run: the scheduler's slice, a place in front of others, and how long they let us wait.

use std::cell::Cell;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::clock::{monotonic_ns, thread_cpu_ns};

/// The request, where `SCHED_OTHER` and its kin take one: the shortest that the kernel accepts.
const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` in its first version; libc has none of its own for every target.
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

/// Asks the kernel for short turns instead of long ones: the same share of a CPU, but soon after a ring has woken us.
/// Between two tasks that never sleep a usual turn may come too late for the ring. Kernels before 6.12 do
/// not know the request and take no notice; a real-time or idle policy, which somebody has chosen, stays as it is.
///
/// Children inherit it, so it is asked for once the workload is there.
pub fn ask_for_short_turns() {
    if let Some(attr) = chosen_by_nobody() {
        // A refusal changes nothing: this is about losing less, and losses are counted.
        set(&SchedAttr { runtime: SLICE_NS, ..attr });
    }
}

/// A place in front of all that have no real-time priority, for a thread that uses little: the lowest one, `SCHED_RR` 1, in
/// each window for no more than its part of it. What uses more takes turns with everybody until it uses little again,
/// so a CPU is never taken from others for longer than that, and what happens between two calls of [`Front::turn`].
///
/// Short turns do not help against tasks of another autogroup (sched_autogroup in sched(7)), this does. Threads and processes
/// that it begins are not in front.
#[derive(Debug)]
pub struct Front {
    /// As it was before.
    usual: SchedAttr,
    in_front: bool,
    part: Part,
}

impl Front {
    /// Goes there, if this thread may (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`) and nobody has chosen a policy or a nice value for it.
    /// `percent` is what it may use of a CPU there.
    pub fn ask(percent: u64) -> Option<Front> {
        let usual = chosen_by_nobody().filter(|attr| attr.nice == 0)?;
        let part = Part { percent, since: monotonic_ns(), used_before: thread_cpu_ns() };
        // Who may not do it again may not take that back either.
        let usual = SchedAttr { flags: usual.flags | FRONT.flags, ..usual };
        let in_front = set(&FRONT);
        ASKED.set(in_front);
        in_front.then_some(Front { usual, in_front, part })
    }

    /// Steps back if too much was used, and forth again later: for each turn of the thread's loop.
    pub fn turn(&mut self) {
        TURNED.set(true);
        let (little, is_new) = self.part.is_kept(monotonic_ns(), thread_cpu_ns());
        // Each window anew, as `step_back` may have come between.
        if (is_new || little != self.in_front) && set(if little { &FRONT } else { &self.usual }) {
            self.in_front = little;
        }
    }
}

impl Drop for Front {
    /// On the thread that asked: whatever it does then, it does as everybody.
    fn drop(&mut self) {
        ASKED.set(false);
        set(&self.usual);
    }
}

/// Whether `bring_forward` raised the priority of a thread that has not stepped back since.
static BROUGHT: AtomicBool = AtomicBool::new(false);

/// Gives a thread of the default scheduling policy real-time priority, until it steps back
/// ([`step_back_from_brought`]) or uses some CPU time ([`step_back`]). One such thread at a time.
pub(super) fn bring_forward(tid: i32) {
    if attr_of(tid).is_some_and(|attr| attr.nice == 0) && set_of(tid, &FRONT) {
        BROUGHT.store(true, SeqCst);
    }
}

/// Restores this thread's usual policy if `bring_forward` changed it.
pub fn step_back_from_brought() {
    if BROUGHT.swap(false, SeqCst) {
        set(&USUAL);
    }
}

thread_local! {
    /// Whether this thread has gone to the front, and whether it has come to a turn since somebody looked.
    static ASKED: Cell<bool> = const { Cell::new(false) };
    static TURNED: Cell<bool> = const { Cell::new(false) };
}

/// Steps back if this thread has gone to the front and came to no turn since this was called last: for what ticks by its CPU
/// time, inside a signal handler. A handler or a line of a script may run for long.
pub fn step_back() {
    step_back_from_brought();
    if ASKED.get() && !TURNED.replace(false) {
        set(&USUAL);
    }
}

/// The usual scheduling policy.
const USUAL: SchedAttr =
    SchedAttr { policy: libc::SCHED_OTHER as u32, priority: 0, runtime: SLICE_NS, ..FRONT };

/// What sched(7) calls the lowest static priority. Children are not to have it (`SCHED_FLAG_RESET_ON_FORK`).
const FRONT: SchedAttr = SchedAttr {
    size: size_of::<SchedAttr>() as u32,
    policy: libc::SCHED_RR as u32,
    flags: 1,
    nice: 0,
    priority: 1,
    runtime: 0,
    deadline: 0,
    period: 0,
};

/// How much of a CPU was used since some time.
#[derive(Debug)]
struct Part {
    percent: u64,
    /// Nanoseconds of the clock, and of the thread's own CPU time.
    since: u64,
    used_before: u64,
}

impl Part {
    /// It is looked at anew so often.
    const WINDOW_NS: u64 = 100_000_000;

    /// Whether no more than the part of the time was used, and whether a window is over.
    fn is_kept(&mut self, now: u64, used: u64) -> (bool, bool) {
        let (passed, spent) = (now - self.since, used - self.used_before);
        let is_over = passed >= Part::WINDOW_NS;
        if is_over {
            (self.since, self.used_before) = (now, used);
        }
        (spent <= passed.max(Part::WINDOW_NS) / 100 * self.percent, is_over)
    }
}

/// How this thread is scheduled; None if somebody has chosen a real-time or an idle policy for it.
fn chosen_by_nobody() -> Option<SchedAttr> {
    attr_of(0)
}

/// The scheduling of a thread; None if it has a real-time or an idle policy.
fn attr_of(tid: i32) -> Option<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes, which are the structure's.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size, 0) };
    let fair = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    let is_fair = got == 0 && fair.iter().any(|policy| *policy as u32 == attr.policy);
    is_fair.then_some(SchedAttr { size, ..attr })
}

/// False if it was refused.
fn set(attr: &SchedAttr) -> bool {
    set_of(0, attr)
}

fn set_of(tid: i32, attr: &SchedAttr) -> bool {
    // SAFETY: the kernel reads `size` bytes, which are the structure's.
    unsafe { libc::syscall(libc::SYS_sched_setattr, tid, std::ptr::from_ref(attr), 0) == 0 }
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
        let nice = || chosen_by_nobody().map(|attr| (attr.policy, attr.nice));
        let before = nice();
        ask_for_short_turns();
        assert_eq!(nice(), before);
    }

    #[test]
    fn who_goes_first_steps_back_when_its_part_is_used_and_forth_when_it_uses_little() {
        const MS: u64 = 1_000_000;
        let mut part = Part { percent: 10, since: 0, used_before: 0 };
        let looks = [
            // (now, used): within the part, and past it.
            ((50, 10), (true, false)),
            ((51, 11), (false, false)),
            // Over the whole window it was too much; the next one begins anew.
            ((100, 11), (false, true)),
            ((101, 12), (true, false)),
            // Much at once, and then nothing for long.
            ((150, 50), (false, false)),
            ((900, 50), (true, true)),
        ];
        for ((now, used), wanted) in looks {
            assert_eq!(part.is_kept(now * MS, used * MS), wanted, "{used} ms at {now}");
        }
    }

    #[test]
    fn who_goes_first_leaves_its_threads_where_they_were_and_steps_back_when_it_comes_to_no_turn() {
        let policy = || {
            // SAFETY: it has no preconditions.
            unsafe { libc::sched_getscheduler(0) }
        };
        let before = policy();
        let free = chosen_by_nobody().is_some_and(|attr| attr.nice == 0);
        let may = free && std::thread::spawn(|| set(&FRONT)).join().unwrap();
        let in_front = std::thread::spawn(move || {
            let mut front = Front::ask(10);
            assert_eq!(front.is_some(), may);
            assert_eq!(std::thread::spawn(policy).join().unwrap(), before);
            let here = || policy() & !libc::SCHED_RESET_ON_FORK;
            let at_first = here();
            front.iter_mut().for_each(Front::turn);
            step_back();
            let after_a_turn = here();
            step_back();
            let stepped_back = here();
            front.iter_mut().for_each(Front::turn);
            drop(front);
            (at_first, after_a_turn, stepped_back, policy())
        });
        // The flag stays: an ordinary user would be refused the way back without it.
        let (wanted, at_last) = match may {
            true => (libc::SCHED_RR, before | libc::SCHED_RESET_ON_FORK),
            false => (before, before),
        };
        assert_eq!(in_front.join().unwrap(), (wanted, wanted, before, at_last));
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
