//! Busy, idle and stolen time of each CPU, from /proc/stat.

use std::collections::HashMap;

use super::proc_stat::{Ticks, cpu_ticks, tick_ns};

/// Returns the nanoseconds since boot that each online CPU was not idle, in steps of a hundredth of
/// a second.
pub fn busy_ns() -> HashMap<u32, u64> {
    let tick_ns = tick_ns();
    let all = cpu_ticks().unwrap_or_default();
    all.into_iter().map(|(cpu, ticks)| (cpu, busy_ticks(&ticks) * tick_ns)).collect()
}

/// Returns the ticks that are neither idle nor waiting for a disk. User time includes guests.
fn busy_ticks(ticks: &Ticks) -> u64 {
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks;
    user + nice + system + irq + softirq + steal
}

/// Time of a CPU during which its own tasks did not run, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwayTime {
    /// Idle, including waiting for a disk.
    pub idle_ns: u64,
    /// Steal time: used by other guests of the hypervisor.
    pub stolen_ns: u64,
}

/// Returns the [`AwayTime`] of each online CPU, in steps of a hundredth of a second.
pub fn away_times() -> Vec<(u32, AwayTime)> {
    let tick_ns = tick_ns();
    let all = cpu_ticks().unwrap_or_default();
    all.into_iter().map(|(cpu, ticks)| (cpu, away_of(&ticks, tick_ns))).collect()
}

fn away_of(ticks: &Ticks, tick_ns: u64) -> AwayTime {
    let [_, _, _, idle, iowait, _, _, steal, ..] = ticks;
    AwayTime { idle_ns: (idle + iowait) * tick_ns, stolen_ns: steal * tick_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Powers of two, so that no two sums of different values are equal.
    const TICKS: Ticks = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

    #[test]
    fn busy_and_idle_time_of_a_cpu_are_all_of_its_time() {
        let (busy, away) = (busy_ticks(&TICKS), away_of(&TICKS, 1));
        assert_eq!(busy, 1 + 2 + 4 + 32 + 64 + 128);
        assert_eq!(busy + away.idle_ns, TICKS[..8].iter().sum::<u64>());
    }

    #[test]
    fn idle_and_stolen_time_are_those_in_which_no_task_ran() {
        assert_eq!(away_of(&TICKS, 10), AwayTime { idle_ns: 240, stolen_ns: 1280 });
    }

    #[test]
    fn this_machine_reports_the_times_of_its_cpus() {
        let online = super::super::cpus::online_cpus().len();
        assert_eq!((busy_ns().len(), away_times().len()), (online, online));
    }
}
