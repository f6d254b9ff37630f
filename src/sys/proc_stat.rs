//! CPU times as the kernel accounts them for each CPU: the `cpuN` lines of /proc/stat.
//!
//! See proc_stat(5) and `show_stat()` in fs/proc/stat.c. A tick is 1/USER_HZ s (10 ms on most
//! architectures); `user` contains `guest`, and `nice` contains `guest_nice`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};

use super::clock::user_ticks_per_second;

/// Number of times that are read from a line; kernels before 2.6.33 have fewer.
const TIMES: usize = 10;

/// Ticks of a CPU since boot: user, nice, system, idle, iowait, irq, softirq, steal, guest and
/// guest_nice.
pub type Ticks = [u64; TIMES];

/// How long each online CPU has been idle, in nanoseconds, with the resolution of a tick.
pub type CpuIdle = BTreeMap<u32, u64>;

/// Returns the length of a tick in nanoseconds.
pub fn tick_ns() -> u64 {
    1_000_000_000 / u64::from(user_ticks_per_second())
}

/// Returns the ticks of each online CPU.
///
/// # Errors
/// The file cannot be read.
pub fn cpu_ticks() -> io::Result<Vec<(u32, Ticks)>> {
    let mut all = Vec::new();
    for line in BufReader::new(File::open("/proc/stat")?).lines() {
        let line = line?;
        // The remaining lines are long, and about interrupts.
        let Some(rest) = line.strip_prefix("cpu") else { break };
        all.extend(of_line(rest));
    }
    Ok(all)
}

/// Returns the idle times of the CPUs, time with I/O that a task waits for included. Empty if the
/// file cannot be read.
pub fn cpu_idle() -> CpuIdle {
    let idle =
        |(cpu, [_, _, _, idle, iowait, ..]): (u32, Ticks)| (cpu, (idle + iowait) * tick_ns());
    cpu_ticks().unwrap_or_default().into_iter().map(idle).collect()
}

/// Parses the number and the ticks after `cpu`; returns None for the line that sums up all CPUs.
fn of_line(rest: &str) -> Option<(u32, Ticks)> {
    let mut columns = rest.split(' ');
    let cpu = columns.next()?.parse().ok()?;
    let mut ticks = Ticks::default();
    for (tick, column) in ticks.iter_mut().zip(columns) {
        *tick = column.parse().ok()?;
    }
    Some((cpu, ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_columns_of_older_kernels_are_zero() {
        let all = of_line("17 1 2 3 4 5 6 7 8 9 10").unwrap();
        assert_eq!(all, (17, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
        assert_eq!(of_line("0 1 2 3 4").unwrap(), (0, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0]));
        assert_eq!(of_line("  1 2 3"), None);
        assert_eq!(of_line("0 1 x"), None);
    }

    #[test]
    fn this_machine_has_times_for_each_of_its_cpus() {
        let cpus: Vec<u32> = cpu_ticks().unwrap().into_iter().map(|(cpu, _)| cpu).collect();
        assert_eq!(cpus, super::super::cpus::online_cpus());
        assert_eq!(cpu_idle().into_keys().collect::<Vec<_>>(), cpus);
    }
}
