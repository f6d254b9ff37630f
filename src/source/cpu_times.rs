//! Counters that the kernel keeps of each CPU's time, such as `steal-time`: read from
//! /proc/stat, not opened.
//!
//! They have no file descriptor, and the kernel counts them for whole CPUs since the boot. Here they
//! count while a role has them on, as an event does.

use std::collections::BTreeMap;

use anyhow::bail;

use super::counts::Count;
use super::live::Live;
use super::open::{Opening, Wish};
use crate::event::catalog::What;
use crate::sys::proc_stat::{Ticks, cpu_ticks, tick_ns};

/// The counters that roles have.
#[derive(Default)]
pub(super) struct CpuTimes {
    /// By the place of their opening and the CPU.
    all: BTreeMap<(usize, u32), CpuTime>,
}

/// A counter on one CPU, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTime {
    /// The kernel's count when it was read last; None while the counter is off.
    last: Option<u64>,
    /// What was added since it was taken last.
    added: u64,
    /// Whether the CPU was online at the last call of `settle`.
    is_online: bool,
}

/// What is asked of a counter.
#[derive(Clone, Copy)]
struct Wanted {
    opening: usize,
    /// Its place in [`Ticks`].
    time: usize,
    is_on: bool,
}

impl Opening {
    /// The place in /proc/stat of a counter that is read there.
    pub(super) fn cpu_time(&self) -> Option<usize> {
        match &self.event.what {
            What::Counter(counter) => counter.cpu_time(),
            _ => None,
        }
    }

    /// # Errors
    /// More is asked of such a counter than counts of whole CPUs.
    pub(super) fn check_cpu_time(&self, wish: &Wish) -> anyhow::Result<()> {
        let name = &self.event.name;
        if self.cpu_time().is_none() {
            return Ok(());
        }
        if !self.sampling.count {
            bail!("{name}: the kernel only counts it; use it with stat, or with count = true");
        }
        if wish.tasks.is_some() {
            bail!(
                "{name}: the kernel counts it for whole CPUs only; omit -p and -t, and add -a \
                 before a command"
            );
        }
        if self.sampling.cgroup.is_some() {
            bail!("{name}: the kernel counts it for whole CPUs only; omit the cgroup");
        }
        Ok(())
    }
}

impl Live {
    /// Brings the counters of /proc/stat up to now. To be called when some of them were opened,
    /// switched or closed, too.
    pub(super) fn settle_cpu_times(&mut self) {
        let openings = self.openings.iter().zip(&self.opened.decoders).enumerate();
        let wanted = openings.filter_map(|(opening, (of, decoder))| {
            let is_on = decoder.is_on() && !self.is_disabled;
            let time = of.cpu_time().filter(|_| decoder.is_wanted())?;
            Some(Wanted { opening, time, is_on })
        });
        let wanted: Vec<Wanted> = wanted.collect();
        if wanted.is_empty() {
            self.counting.cpu_times = CpuTimes::default();
        } else if let Ok(now) = cpu_ticks() {
            self.counting.cpu_times.settle(&wanted, &now);
        }
    }
}

impl CpuTimes {
    /// Adds what the kernel counted since the last call while a counter was on, and forgets those
    /// that nobody wants any more.
    fn settle(&mut self, wanted: &[Wanted], now: &[(u32, Ticks)]) {
        self.all.retain(|(opening, _), _| wanted.iter().any(|one| one.opening == *opening));
        self.all.values_mut().for_each(|counter| counter.is_online = false);
        for one in wanted {
            for (cpu, ticks) in now {
                let Some(now) = ticks.get(one.time).copied() else { continue };
                let counter = self.all.entry((one.opening, *cpu)).or_default();
                // The kernel's estimate of `iowait` may fall.
                counter.added += now.saturating_sub(counter.last.unwrap_or(now));
                counter.last = one.is_on.then_some(now);
                counter.is_online = true;
            }
        }
    }

    /// What the counters of `openings` added on these CPUs since the last call, in nanoseconds. A
    /// CPU that is offline has none.
    pub(super) fn take(&mut self, openings: &[Opening], cpus: &[u32]) -> Vec<Count> {
        let tick_ns = tick_ns() as f64;
        let mut counts = Vec::new();
        for ((at, cpu), counter) in &mut self.all {
            let Some(opening) = openings.get(*at) else { continue };
            if !counter.is_online || !cpus.contains(cpu) || !opening.is_on(*cpu) {
                continue;
            }
            let added = std::mem::take(&mut counter.added);
            counts.extend(opening.roles.iter().map(|(role, _)| Count {
                role: *role,
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
    fn a_time_is_counted_while_it_is_on_and_forgotten_once_nobody_wants_it() {
        let mut times = CpuTimes::default();
        let at = |user: u64| [(3, [user, 2 * user, 0, 0, 0, 0, 0, 0, 0, 0])];
        let first = |is_on| Wanted { opening: 4, time: 0, is_on };
        let second = |is_on| Wanted { opening: 7, time: 1, is_on };
        let added = |times: &CpuTimes, opening| times.all[&(opening, 3)].added;
        times.settle(&[first(true)], &at(100));
        // It begins now, not with the boot nor with the first one.
        times.settle(&[first(true), second(false)], &at(110));
        times.settle(&[first(true), second(true)], &at(120));
        assert_eq!((added(&times, 4), added(&times, 7)), (20, 0));
        times.settle(&[first(false), second(true)], &at(125));
        times.settle(&[first(false), second(true)], &at(225));
        assert_eq!((added(&times, 4), added(&times, 7)), (25, 210));
        times.settle(&[first(true), second(true)], &at(325));
        times.settle(&[first(true)], &at(326));
        assert_eq!(added(&times, 4), 26, "not of the time that it was off");
        assert_eq!(times.all.len(), 1);
        assert!(times.all[&(4, 3)].is_online);
        times.settle(&[first(true)], &[]);
        assert!(!times.all[&(4, 3)].is_online);
    }
}
