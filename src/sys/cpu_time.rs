//! How long each CPU was busy, idle, or taken by a hypervisor, as /proc/stat counts it.

use std::collections::HashMap;

use super::proc_stat::{Ticks, cpu_ticks, tick_ns};

/// Nanoseconds since the machine began that each online CPU was not idle, to a hundredth of a
/// second.
pub fn busy_ns() -> HashMap<u32, u64> {
    let tick_ns = tick_ns();
    let all = cpu_ticks().unwrap_or_default();
    all.into_iter().map(|(cpu, ticks)| (cpu, busy_ticks(&ticks) * tick_ns)).collect()
}

/// What is neither idle nor waiting for a disk. Guests are counted as user time already.
fn busy_ticks(ticks: &Ticks) -> u64 {
    let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks;
    user + nice + system + irq + softirq + steal
}

/// Time of a CPU in which its own tasks did not run, in nanoseconds since the machine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AwayTime {
    /// Idle, or idle while a disk was waited for.
    pub idle_ns: u64,
    /// Steal time: what a hypervisor gave to others.
    pub stolen_ns: u64,
}

/// The [`AwayTime`] of each online CPU, to a hundredth of a second.
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

    /// Of which no sum of some is a sum of others.
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
    fn this_machine_tells_of_its_cpus() {
        let online = super::super::cpus::online_cpus().len();
        assert_eq!((busy_ns().len(), away_times().len()), (online, online));
    }
}
