//! How long each CPU was busy, as /proc/stat counts it.

use std::collections::HashMap;

use super::clock::ticks_per_second;

/// Nanoseconds since the machine began that each online CPU was not idle, to a hundredth of a
/// second.
pub fn busy_ns() -> HashMap<u32, u64> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let tick_ns = 1_000_000_000 / u64::from(ticks_per_second()).max(1);
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

#[cfg(test)]
mod tests {
    use super::*;

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
