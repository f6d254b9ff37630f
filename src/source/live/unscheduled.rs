//! Pinned events that got no hardware counter.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::text::cpulist;

/// Pinned events that could not be counted, and which of them were reported.
#[derive(Default)]
pub(super) struct Unscheduled {
    /// CPUs on which a pinned event got no counter, by the event's name.
    cpus: BTreeMap<String, BTreeSet<u32>>,
    /// Event and CPUs of the reports so far.
    reported: BTreeSet<(String, String)>,
}

impl Unscheduled {
    /// Adds a CPU on which an event got no counter.
    pub(super) fn add(&mut self, event: &str, cpu: u32) {
        self.cpus.entry(event.to_owned()).or_default().insert(cpu);
    }

    /// Returns a line for each event that was added since the last call. Each is reported once.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (event, cpus) in std::mem::take(&mut self.cpus) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            let list = cpulist::format(&cpus);
            if self.reported.insert((event.clone(), list.clone())) {
                lines.push(format!(
                    "{event}: pinned, but CPU {list} has no free hardware counter, so it is not \
                     counted there; pin fewer events, or stop other users of counters (perf; the \
                     NMI watchdog: sysctl kernel.nmi_watchdog=0)"
                ));
            }
        }
        lines
    }
}
