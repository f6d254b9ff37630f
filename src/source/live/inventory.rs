//! The rings, events and attributes that a run has open.

use std::collections::BTreeSet;

use super::Live;
use crate::source::open::open_event::OpenEvent;
use crate::source::open::rings::pages_of;

impl Live {
    /// Returns the number of open events, the owners of the rings included.
    pub fn files(&self) -> usize {
        self.opened.rings.len() + self.opened.events.len()
    }

    /// Returns the number of tracepoints that are open, each on one CPU or more.
    pub fn tracepoints(&self) -> usize {
        let names: std::collections::BTreeSet<&str> = self
            .openings
            .iter()
            .filter(|opening| opening.event.kind().raw_format().is_some())
            .map(|opening| opening.event.name.as_str())
            .collect();
        names.len()
    }

    /// Returns the number of open function probes, each of which has an event on each CPU.
    /// Functions of a BPF link are not among them.
    pub fn probes(&self) -> usize {
        let of_events = |open: &OpenEvent| {
            let all = std::iter::once(&open.event).chain(&open.members);
            all.filter_map(|event| event.probe().map(|probe| probe.id())).collect::<Vec<_>>()
        };
        self.opened.events.iter().flat_map(of_events).collect::<BTreeSet<u64>>().len()
    }

    /// Returns how functions were opened: by BPF links or by probes.
    pub fn function_notes(&self) -> &[String] {
        &self.opened.links.notes
    }

    /// Returns the pages of each ring that events write to.
    pub fn pages(&self) -> usize {
        if self.opened.rings.is_empty() { 0 } else { pages_of(&self.opened.rings) }
    }

    /// Returns the CPUs of which only the records of tasks are read.
    pub fn cpus_of_tasks_only(&self) -> Vec<u32> {
        self.opened.rings.iter().filter(|ring| ring.tasks_only).map(|ring| ring.cpu).collect()
    }

    /// Returns each event as opened: its name, and the non-zero fields of its `perf_event_attr`.
    pub fn attributes(&self) -> Vec<(String, Vec<(&'static str, u64)>)> {
        let mut all: Vec<(String, Vec<(&'static str, u64)>)> = Vec::new();
        let owners = self.opened.rings.iter().map(|ring| &ring.owner);
        for event in owners.chain(self.opened.events.iter().map(|open| &open.event)) {
            let one = (event.name().to_owned(), event.attr().nonzero());
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }
}
