//! Counters that the kernel keeps of each CPU's time, such as `steal-time`: read from
//! /proc/stat, not opened.
//!
//! They have no file descriptor and count whole CPUs, since the boot. What they add is read with
//! the other counters.

use std::collections::BTreeMap;

use anyhow::bail;

use super::counts::Count;
use super::open::{Opening, Wish};
use crate::event::catalog::What;
use crate::sys::clock::user_ticks_per_second;
use crate::sys::proc_stat::{Ticks, cpu_ticks};

/// The times of all CPUs as they were read last.
#[derive(Default)]
pub(super) struct CpuTimes {
    last: BTreeMap<u32, Ticks>,
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
                "{name}: the kernel counts it of whole CPUs; leave -p and -t away, and add -a to a \
                 command"
            );
        }
        if self.sampling.cgroup.is_some() {
            bail!("{name}: the kernel counts it of whole CPUs; leave the cgroup away");
        }
        Ok(())
    }
}

impl CpuTimes {
    /// Reads where the counters begin, if there are any.
    pub(super) fn begin(&mut self, openings: &[Opening]) {
        self.add(openings, &[], &mut Vec::new());
    }

    /// Adds what the counters of `openings` added on these CPUs since the last call, in
    /// nanoseconds. A CPU that is offline has none.
    pub(super) fn add(&mut self, openings: &[Opening], cpus: &[u32], counts: &mut Vec<Count>) {
        if !openings.iter().any(|opening| opening.cpu_time().is_some()) {
            return;
        }
        let Ok(all) = cpu_ticks() else { return };
        let tick_ns = 1e9 / f64::from(user_ticks_per_second());
        for (cpu, now) in all {
            let before = self.last.insert(cpu, now).unwrap_or(now);
            if !cpus.contains(&cpu) {
                continue;
            }
            for opening in openings.iter().filter(|opening| opening.is_on(cpu)) {
                let Some(time) = opening.cpu_time() else { continue };
                let (Some(now), Some(before)) = (now.get(time), before.get(time)) else { continue };
                // The kernel's estimate of `iowait` may fall.
                let added = now.saturating_sub(*before);
                counts.extend(opening.roles.iter().map(|(role, _)| Count {
                    role: *role,
                    instance: cpu,
                    value: added as f64 * tick_ns,
                    share: 1.0,
                    scaled: false,
                }));
            }
        }
    }
}
