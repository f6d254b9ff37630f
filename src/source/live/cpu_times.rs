//! Counters that the kernel keeps of each CPU's time, such as `steal-time`: read from /proc/stat,
//! not opened.
//!
//! They have no file descriptor, and the kernel counts them CPU-wide since boot. Here they count
//! while a role has them on, like an event.

use std::collections::BTreeMap;

use crate::source::counts::CountDelta;
use crate::source::request::Opening;
use crate::sys::proc_stat::{Ticks, tick_ns};

/// The counters of all roles.
#[derive(Default)]
pub(super) struct CpuTimes {
    /// By opening and CPU.
    all: BTreeMap<(usize, u32), CpuTime>,
}

/// A counter on one CPU, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTime {
    /// The kernel's count at the last reading; None while the counter is off.
    last: Option<u64>,
    /// Ticks added since the last `take`.
    added: u64,
    /// Whether the CPU was online at the last call of `choose`.
    is_online: bool,
}

/// A counter that roles have.
#[derive(Clone, Copy)]
pub(super) struct WantedTime {
    pub(super) opening: usize,
    /// Its index in [`Ticks`].
    pub(super) time: usize,
    pub(super) is_on: bool,
}

impl CpuTimes {
    /// Adds what the kernel counted since the last call while a counter was on, and removes
    /// counters that no role needs any more.
    pub(super) fn choose(&mut self, wanted: &[WantedTime], now: &[(u32, Ticks)]) {
        self.all.retain(|(opening, _), _| wanted.iter().any(|one| one.opening == *opening));
        self.all.values_mut().for_each(|counter| counter.is_online = false);
        for one in wanted {
            for (cpu, ticks) in now {
                let Some(now) = ticks.get(one.time).copied() else { continue };
                let counter = self.all.entry((one.opening, *cpu)).or_default();
                // The kernel's estimate of `iowait` may decrease.
                counter.added += now.saturating_sub(counter.last.unwrap_or(now));
                counter.last = one.is_on.then_some(now);
                counter.is_online = true;
            }
        }
    }

    /// Returns what the counters of `openings` added on these CPUs since the last call, in
    /// nanoseconds. An offline CPU is omitted.
    pub(super) fn take(&mut self, openings: &[Opening], cpus: &[u32]) -> Vec<CountDelta> {
        let tick_ns = tick_ns() as f64;
        let mut counts = Vec::new();
        for ((at, cpu), counter) in &mut self.all {
            let Some(opening) = openings.get(*at) else { continue };
            if !counter.is_online || !cpus.contains(cpu) || !opening.is_on(*cpu) {
                continue;
            }
            let added = std::mem::take(&mut counter.added);
            counts.extend(opening.named().map(|role| CountDelta {
                role,
                instance: *cpu,
                value: added as f64 * tick_ns,
                share: 1.0,
                scaled: false,
            }));
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_while_on_and_removed_without_users() {
        let mut times = CpuTimes::default();
        let at = |user: u64| [(3, [user, 2 * user, 0, 0, 0, 0, 0, 0, 0, 0])];
        let first = |is_on| WantedTime { opening: 4, time: 0, is_on };
        let second = |is_on| WantedTime { opening: 7, time: 1, is_on };
        let added = |times: &CpuTimes, opening| times.all[&(opening, 3)].added;
        times.choose(&[first(true)], &at(100));
        // It starts now, not at boot nor with the first one.
        times.choose(&[first(true), second(false)], &at(110));
        times.choose(&[first(true), second(true)], &at(120));
        assert_eq!((added(&times, 4), added(&times, 7)), (20, 0));
        times.choose(&[first(false), second(true)], &at(125));
        times.choose(&[first(false), second(true)], &at(225));
        assert_eq!((added(&times, 4), added(&times, 7)), (25, 210));
        times.choose(&[first(true), second(true)], &at(325));
        times.choose(&[first(true)], &at(326));
        assert_eq!(added(&times, 4), 26, "the time that it was off is not counted");
        assert_eq!(times.all.len(), 1);
        assert!(times.all[&(4, 3)].is_online);
        times.choose(&[first(true)], &[]);
        assert!(!times.all[&(4, 3)].is_online);
    }
}
