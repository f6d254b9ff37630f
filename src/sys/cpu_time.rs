//! How long each CPU was busy, idle, or taken by a hypervisor, as /proc/stat counts it.

use std::collections::HashMap;

use super::clock::user_ticks_per_second;

/// Nanoseconds since the machine began that each online CPU was not idle, to a hundredth of a
/// second.
pub fn busy_ns() -> HashMap<u32, u64> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let tick_ns = 1_000_000_000 / u64::from(user_ticks_per_second());
    text.lines().filter_map(busy_ticks).map(|(cpu, ticks)| (cpu, ticks * tick_ns)).collect()
}

/// Of `cpuN user nice system idle iowait irq softirq steal …`: what is neither idle nor waiting for
/// a disk. Guests are counted as user time already.
fn busy_ticks(line: &str) -> Option<(u32, u64)> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
    Some((cpu, ticks.iter().sum::<u64>() - idle))
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
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let tick_ns = 1_000_000_000 / u64::from(user_ticks_per_second());
    text.lines().filter_map(|line| away_of(line, tick_ns)).collect()
}

/// Of a line as [`busy_ticks`] reads it. A kernel without the column of steal time counts none.
fn away_of(line: &str, tick_ns: u64) -> Option<(u32, AwayTime)> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let of = |column: usize| ticks.get(column).copied().unwrap_or(0) * tick_ns;
    Some((cpu, AwayTime { idle_ns: of(3) + of(4), stolen_ns: of(7) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_and_idle_time_of_a_cpu_are_the_time_that_passes() {
        let both = || {
            let idle = away_times().into_iter().find(|(cpu, _)| *cpu == 0).unwrap().1.idle_ns;
            busy_ns()[&0] + idle
        };
        let (begun, before) = (std::time::Instant::now(), both());
        std::thread::sleep(std::time::Duration::from_millis(500));
        let counted = (both() - before) as f64;
        let passed = begun.elapsed().as_nanos() as f64;
        assert!((counted / passed - 1.0).abs() < 0.2, "{counted} of {passed}");
    }

    #[test]
    fn idle_and_stolen_time_are_those_in_which_no_task_ran() {
        let away = AwayTime { idle_ns: 45_000, stolen_ns: 70 };
        assert_eq!(away_of("cpu1 10 20 30 4000 500 1 2 7 8", 10), Some((1, away)));
        let old = AwayTime { idle_ns: 40_000, stolen_ns: 0 };
        assert_eq!(away_of("cpu0 10 20 30 4000", 10), Some((0, old)));
        assert_eq!(away_of("cpu  1 2 3 4 5 6 7 8", 10), None);
        assert_eq!(away_times().len(), busy_ns().len());
    }

    #[test]
    fn the_time_of_a_cpu_is_busy_but_for_idle_and_iowait() {
        assert_eq!(busy_ticks("cpu1 10 20 30 4000 500 1 2 3 7 8"), Some((1, 66)));
        assert_eq!(busy_ticks("cpu0 10 20 30 4000"), Some((0, 60)));
        for other in ["cpu  1 2 3 4 5 6 7 8", "intr 1 2 3", "cpu2 1 2", ""] {
            assert_eq!(busy_ticks(other), None, "{other}");
        }
    }

    #[test]
    fn this_machine_tells_of_its_cpus() {
        assert_eq!(busy_ns().len(), super::super::cpus::online_cpus().len());
    }
}
