//! Reads the events' own counts, and the number of records that the kernel dropped.

use std::collections::{BTreeMap, BTreeSet};

use super::cpu_times::CpuTimes;
use super::groups::GroupRead;
use super::live::Live;
use super::open::OpenedSource;
use crate::base::cpulist;
use crate::sys::cpus::online_cpus;
use crate::sys::perf::{EventCounts, PerfEvent, is_unscheduled};

const FORMAT_LOST: u64 = perf_event_open_sys::bindings::PERF_FORMAT_LOST as u64;

/// Increase of a counter on one instance since the last reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountDelta {
    /// Role that requested it.
    pub role: u32,
    /// CPU or, if tasks are watched, the thread.
    pub instance: u32,
    /// Its value, scaled if the counter was multiplexed; NaN if it was not counted.
    pub value: f64,
    /// Part of the time in which it was counted, from 0 to 1.
    pub share: f64,
    /// Whether it was multiplexed.
    pub scaled: bool,
}

/// A reading of a counter: its count, and for how many nanoseconds it was enabled and running.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterReading {
    value: u64,
    enabled: u64,
    running: u64,
}

impl CounterReading {
    /// Returns the reading of an event.
    pub(super) fn of(counts: &EventCounts) -> CounterReading {
        let EventCounts { value, enabled, running, .. } = *counts;
        CounterReading { value, enabled, running }
    }

    /// Returns for how many nanoseconds the event was counting.
    pub(super) fn running_ns(self) -> u64 {
        self.running
    }

    /// Adds the reading of an event that continued from there.
    pub(super) fn plus(self, later: CounterReading) -> CounterReading {
        CounterReading {
            value: self.value + later.value,
            enabled: self.enabled + later.enabled,
            running: self.running + later.running,
        }
    }

    /// Adds the reading of the same counter on another CPU: a task's event is enabled on all of
    /// them at once, and runs on one.
    fn and(self, other: CounterReading) -> CounterReading {
        CounterReading {
            value: self.value + other.value,
            enabled: self.enabled.max(other.enabled),
            running: self.running + other.running,
        }
    }

    /// Returns what was added since `before`, and the part of the time that was counted. Below 1
    /// the counter was multiplexed, and the value is an estimate. It is scaled by this interval's
    /// own times: those of the whole run would let a count decrease. Times that differ by at most
    /// `apart` nanoseconds are considered equal.
    fn since(self, before: CounterReading, apart: u64) -> (f64, f64) {
        let added = self.added(before);
        let enabled = self.enabled.saturating_sub(before.enabled);
        let running = self.running.saturating_sub(before.running);
        match running {
            _ if running + apart >= enabled => (added, 1.0),
            0 => (f64::NAN, 0.0),
            _ => (added * enabled as f64 / running as f64, running as f64 / enabled as f64),
        }
    }

    fn added(self, before: CounterReading) -> f64 {
        self.value.saturating_sub(before.value) as f64
    }
}

/// State of reading the counters of a run.
#[derive(Default)]
pub(super) struct Counting {
    /// Time of the last reading, and the nanoseconds that it covers.
    counted: (f64, f64),
    /// Nanoseconds that the last reading took.
    reading_ns: f64,
    /// Counters that are read from /proc/stat.
    pub(super) cpu_times: CpuTimes,
    /// CPUs on which a pinned event got no counter, by the event's name.
    unscheduled: BTreeMap<String, BTreeSet<u32>>,
    /// Event and CPUs of the reports so far.
    reported: BTreeSet<(String, String)>,
}

/// Lost records of tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideLost {
    /// In rings that events write to, too.
    pub(super) beside_events: u64,
    /// In the other rings.
    pub(super) alone: u64,
}

impl Live {
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

    /// Returns how many events the kernel dropped so far, by its own count per event; None if it
    /// does not count them (before 6.0). A reading costs an interrupt on another CPU, so during a
    /// run the counts are read only after a ring was nearly full; with `all`, at the end, always.
    pub fn lost(&mut self, all: bool) -> Option<u64> {
        let first =
            self.opened.events.iter().find(|open| !self.openings[open.opening].sampling.count);
        let closed: u64 = self.opened.rings.iter().map(|ring| ring.lost_of_closed).sum();
        let Some(first) = first else {
            self.lost_seen = self.lost_seen.max(closed);
            return (closed > 0).then_some(self.lost_seen);
        };
        if first.event.attr().get("read_format").unwrap_or(0) & FORMAT_LOST == 0 {
            return None;
        }
        if !all && !self.opened.rings.iter().any(|r| r.suspect) {
            return Some(self.lost_seen);
        }
        let lost_of = |event: &PerfEvent| event.lost().unwrap_or(0);
        let total: u64 = self.opened.events.iter().map(|open| lost_of(&open.event)).sum();
        for ring in &mut self.opened.rings {
            ring.suspect = false;
        }
        let of_rings = |tasks_only: bool| {
            let rings = self.opened.rings.iter().filter(|ring| ring.tasks_only == tasks_only);
            rings.map(|ring| ring.lost_of_tasks().unwrap_or(0)).sum()
        };
        self.side_lost = SideLost { beside_events: of_rings(false), alone: of_rings(true) };
        self.lost_seen = self.lost_seen.max(total + closed);
        Some(self.lost_seen)
    }

    /// Returns how many records of tasks were lost, as of the last [`Live::lost`]; names may then
    /// be stale.
    pub fn side_lost(&self) -> u64 {
        self.side_lost.beside_events + self.side_lost.alone
    }

    /// Returns how many of them were lost from rings that events write to, too.
    pub fn side_lost_beside_events(&self) -> u64 {
        self.side_lost.beside_events
    }

    /// Returns the number of events whose order across rings could not be restored.
    pub fn disordered(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.counts().disordered)
    }

    /// Returns how many chains so far contain only the inner part of their stack.
    pub fn truncated(&self) -> u64 {
        self.batch().truncated()
    }

    /// Returns the seconds that the last result of [`Live::counts`] covers, if there are counters.
    /// It is read after the end of an interval, and the busier the CPUs are, the later.
    pub fn counted_for(&self) -> Option<f64> {
        let any = self.openings.iter().any(|opening| opening.sampling.count);
        any.then_some(self.counting.counted.1 / 1e9)
    }

    /// Returns what the counters added since the last call, per role and instance.
    pub fn counts(&mut self) -> Vec<CountDelta> {
        let now = self.now();
        self.counting.counted = (now, now - self.counting.counted.0);
        let per_task = !self.opened.tasks_checked && self.opened.events.iter().any(|o| o.tid >= 0);
        let of_groups = self.opened.groups.read();
        // By opening and instance. A thread has an event on each CPU: what one of them does not
        // count because the thread runs elsewhere, another one does.
        let mut readings: BTreeMap<(usize, u32), Sums> = BTreeMap::new();
        let OpenedSource { events, rings, .. } = &mut self.opened;
        let offline: Vec<u32> =
            rings.iter().filter(|ring| ring.presence.is_offline()).map(|ring| ring.cpu).collect();
        for open in events.iter_mut().filter(|o| self.openings[o.opening].sampling.count) {
            if open.tid < 0 && offline.contains(&open.cpu) {
                continue;
            }
            let instance = if per_task { open.tid as u32 } else { open.cpu };
            let sums = readings.entry((open.opening, instance)).or_default();
            let read = match of_groups.get(&open.id) {
                Some(GroupRead::Counted(counts)) => Ok(*counts),
                Some(GroupRead::Unscheduled) => Err(true),
                None => open.event.read_counts().map_err(|why| is_unscheduled(&why)),
            };
            let read = match read {
                Ok(read) => read,
                Err(unscheduled) => {
                    if unscheduled {
                        let cpus = self.counting.unscheduled.entry(open.event.name().to_owned());
                        cpus.or_default().insert(open.cpu);
                    }
                    sums.unread = true;
                    continue;
                }
            };
            let now = open.carried.plus(CounterReading::of(&read));
            let before = std::mem::replace(&mut open.counted, now);
            (sums.before, sums.now) = (sums.before.and(before), sums.now.and(now));
            sums.events += 1;
            sums.in_software = !self.openings[open.opening].may_be_multiplexed();
        }
        let reading_ns = self.now() - now;
        // A thread's counters are read one after the other, while it runs.
        let apart = reading_ns + std::mem::replace(&mut self.counting.reading_ns, reading_ns);
        let cpus = if per_task && !readings.is_empty() { online_cpus().len() } else { 1 };
        let mut counts = Vec::new();
        for ((opening, instance), sums) in readings {
            let opening = &self.openings[opening];
            let (value, share) = sums.added(cpus, apart as u64);
            counts.extend(opening.roles.iter().map(|(role, _)| CountDelta {
                role: *role,
                instance,
                value,
                share,
                scaled: share < 1.0,
            }));
        }
        self.settle_cpu_times();
        counts.extend(self.counting.cpu_times.take(&self.openings, &self.watched_cpus));
        counts
    }

    /// Returns a line for each pinned event that got no hardware counter. Each is reported once.
    pub fn take_unscheduled(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (event, cpus) in std::mem::take(&mut self.counting.unscheduled) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            let list = cpulist::format(&cpus);
            if self.counting.reported.insert((event.clone(), list.clone())) {
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

/// Sum of the readings of an opening's events on one instance.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    before: CounterReading,
    now: CounterReading,
    events: usize,
    /// Whether one of them could not be read.
    unread: bool,
    /// Whether it needs no hardware counter, so that it is never multiplexed.
    in_software: bool,
}

impl Sums {
    /// Returns what they added, and the part of the time that was counted. `cpus` is the number of
    /// CPUs on which a thread can run; 1 for an instance that is a CPU. The readings were made in
    /// at most `apart` nanoseconds.
    fn added(self, cpus: usize, apart: u64) -> (f64, f64) {
        match self.events {
            _ if self.unread => (f64::NAN, 0.0),
            _ if self.in_software => (self.now.added(self.before), 1.0),
            // With -C, a thread was also on CPUs where nothing counted; that does not mean that the
            // counter was multiplexed.
            events if events < cpus => (self.now.added(self.before), 1.0),
            events => self.now.since(self.before, if events > 1 { apart } else { 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: u64 = 1_000_000;

    /// Times in milliseconds.
    fn reading(value: u64, enabled: u64, running: u64) -> CounterReading {
        CounterReading { value, enabled: enabled * 1_000_000, running: running * 1_000_000 }
    }

    #[test]
    fn a_count_is_scaled_by_the_times_of_its_own_interval() {
        let first = reading(100, 10, 5);
        assert_eq!(first.since(CounterReading::default(), APART), (200.0, 0.5));
        // Not multiplexed since: exact, and never below zero.
        assert_eq!(reading(130, 20, 15).since(first, 0), (30.0, 1.0));
        let (value, share) = reading(100, 20, 5).since(first, 0);
        assert!(value.is_nan() && share == 0.0, "the value is unknown, not zero: {value}");
    }

    #[test]
    fn counts_of_a_migrating_thread_are_scaled_only_if_multiplexed() {
        let both = reading(30, 100, 30).and(reading(70, 100, 70));
        assert_eq!(both.since(CounterReading::default(), APART), (100.0, 1.0));
        let shared = reading(30, 100, 30).and(reading(20, 100, 20));
        assert_eq!(shared.since(CounterReading::default(), APART), (100.0, 0.5));
        // Never on the hardware during a short interval.
        assert!(reading(0, 2, 0).since(CounterReading::default(), APART).0.is_nan());
        // Read while it was running.
        assert_eq!(reading(99, 100, 99).since(CounterReading::default(), APART), (99.0, 1.0));
    }
}
