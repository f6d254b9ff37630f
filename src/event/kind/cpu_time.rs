//! Counters of each CPU's time that are read from /proc/stat, such as `steal-time`. They are not
//! opened.

use anyhow::{Result, bail, ensure};

use super::named::{NameFamily, NamedEvent};
use super::properties::{EventAttr, EventProperties};
use crate::event::exclude::EventModes;
use crate::event::sampling::Sampling;

/// Stands for the CPU times of /proc/stat as `perf_event_attr.type`; no PMU has this number.
pub(super) const CPU_TIME: u32 = u32::MAX;

/// The names; the config is the index in [`crate::sys::proc_stat::Ticks`].
pub(super) const FAMILY: NameFamily = NameFamily {
    type_: CPU_TIME,
    category: "accounting",
    table: &[
        ("user-time", &[], 0),
        ("nice-time", &[], 1),
        ("system-time", &[], 2),
        ("idle-time", &[], 3),
        ("iowait-time", &[], 4),
        ("irq-time", &[], 5),
        ("softirq-time", &[], 6),
        ("steal-time", &[], 7),
        ("guest-time", &[], 8),
        ("guest-nice-time", &[], 9),
    ],
    composed: Vec::new,
    config_of: |_| None,
};

/// A counter of a CPU's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTimeEvent {
    /// Its index in [`crate::sys::proc_stat::Ticks`].
    pub index: usize,
}

impl CpuTimeEvent {
    /// Returns the name to show and the counter.
    ///
    /// # Errors
    /// The name has modifiers.
    pub(super) fn of_named(
        event: &str,
        named: &NamedEvent,
        modifiers: &str,
    ) -> Result<(String, CpuTimeEvent)> {
        ensure!(
            modifiers.is_empty(),
            "{event}: a CPU time of /proc/stat has no modifiers; omit `:{modifiers}`"
        );
        Ok((named.name.clone(), CpuTimeEvent { index: named.config as usize }))
    }
}

impl EventProperties for CpuTimeEvent {
    fn attr(&self) -> EventAttr {
        EventAttr { type_: CPU_TIME, config: self.index as u64, ..EventAttr::default() }
    }

    fn cpu_time(&self) -> Option<usize> {
        Some(self.index)
    }

    fn modes(&self, _is_counted: bool) -> EventModes {
        EventModes::Together
    }

    fn title(&self) -> String {
        "a CPU time of /proc/stat".to_owned()
    }

    fn notes(&self) -> Vec<String> {
        vec!["counted in nanoseconds for each CPU; it has no samples".to_owned()]
    }

    /// Checks that it is only counted, for whole CPUs.
    fn check_options(&self, sampling: &Sampling, of_tasks: bool) -> Result<()> {
        if !sampling.count {
            bail!("the kernel only counts it; use it with stat, or with count = true");
        }
        if of_tasks {
            bail!(
                "the kernel counts it for whole CPUs only; omit -p and -t, and add -a before a \
                 command"
            );
        }
        if sampling.cgroup.is_some() {
            bail!("the kernel counts it for whole CPUs only; omit `cgroup`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::event::kind::{EventFiles, parse};

    #[test]
    fn a_cpu_time_of_proc_stat_has_neither_rate_nor_modifiers() {
        let event = |name| parse(name, &EventFiles::NONE).unwrap().unwrap();
        assert_eq!(event("steal-time").kind().cpu_time(), Some(7));
        assert_eq!(event("cycles").kind().cpu_time(), None);
        assert!(!event("user-time").kind().has_rate());
        assert_eq!(
            parse("user-time:u", &EventFiles::NONE).unwrap_err().to_string(),
            "user-time:u: a CPU time of /proc/stat has no modifiers; omit `:u`"
        );
    }
}
