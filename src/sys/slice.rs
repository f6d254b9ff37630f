//! The scheduler's slice: how soon after a wakeup we run.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
