//! What is read from the events themselves: their own counts, and what the kernel dropped of them.

use super::live::Live;
use crate::sys::perf::Event;

const FORMAT_LOST: u64 = perf_event_open_sys::bindings::PERF_FORMAT_LOST as u64;

/// Value of a counter on one instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Role that asked for it.
    pub role: u32,
    /// CPU, or with tasks the thread.
    pub instance: u32,
    /// Its value, scaled when it shared its hardware.
    pub value: f64,
    /// Whether it did.
    pub scaled: bool,
}

impl Live {
    /// Each event as opened: its name, and the fields of its `perf_event_attr` that are not zero.
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

    /// Events that the kernel dropped so far, by its own count per event; None if it does not count (before 6.0).
    /// Reading costs an interrupt of another CPU, so within a run it is asked only after a ring was nearly
    /// full; `all` at the end.
    pub fn lost(&mut self, all: bool) -> Option<u64> {
        let first =
            self.opened.events.iter().find(|open| !self.openings[open.opening].sampling.count)?;
        if first.event.attr().get("read_format").unwrap_or(0) & FORMAT_LOST == 0 {
            return None;
        }
        if !all && !self.opened.rings.iter().any(|r| r.suspect) {
            return Some(self.lost_seen);
        }
        let lost_of =
            |event: &Event| event.read_counts().ok().and_then(|counts| counts.lost).unwrap_or(0);
        let total: u64 = self.opened.events.iter().map(|open| lost_of(&open.event)).sum();
        for ring in &mut self.opened.rings {
            ring.suspect = false;
        }
        if all {
            self.side_lost = self.opened.rings.iter().map(|r| lost_of(&r.owner)).sum();
        }
        self.lost_seen = self.lost_seen.max(total);
        Some(self.lost_seen)
    }

    /// Records of tasks that were lost; names may be stale then. Known after `lost(true)`.
    pub fn side_lost(&self) -> u64 {
        self.side_lost
    }

    /// Events whose order across rings could not be restored.
    pub fn disordered(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.counts().disordered)
    }

    /// What the counters added since the last call, per role and instance.
    pub fn counts(&mut self) -> Vec<Count> {
        let per_task = !self.opened.tasks_checked && self.opened.events.iter().any(|o| o.tid >= 0);
        let mut counts = Vec::new();
        for open in &mut self.opened.events {
            let opening = &self.openings[open.opening];
            if !opening.sampling.count {
                continue;
            }
            let Ok(read) = open.event.read_counts() else { continue };
            let scaled = read.running < read.enabled;
            let all = match (scaled, read.running) {
                (false, _) => read.value as f64,
                (true, 0) => 0.0,
                (true, running) => read.value as f64 * read.enabled as f64 / running as f64,
            };
            let value = all - std::mem::replace(&mut open.counted, all);
            let instance = if per_task { open.tid as u32 } else { open.cpu };
            counts.extend(opening.roles.iter().map(|(role, _)| Count {
                role: *role,
                instance,
                value,
                scaled,
            }));
        }
        counts
    }
}
