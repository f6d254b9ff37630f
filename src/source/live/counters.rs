//! Reads the counters: the events' own counts, and those of /proc/stat.

use std::collections::BTreeMap;

use super::Live;
use super::cpu_times::{CpuTimes, WantedTime};
use crate::source::counts::CountDelta;
use crate::source::open::counter_reading::{CounterReading, ReadingSums};
use crate::source::open::groups::GroupRead;
use crate::source::open::opened::OpenedSource;
use crate::sys::cpus::online_cpus;
use crate::sys::perf::is_unscheduled;
use crate::sys::proc_stat::cpu_ticks;

impl Live {
    /// Returns the seconds that the last result of [`Live::counts`] covers, if there are counters.
    /// It is read after the end of an interval, and the busier the CPUs are, the later.
    pub fn counted_for(&self) -> Option<f64> {
        let any = self.openings.iter().any(|opening| opening.sampling.count);
        any.then_some(self.counted.covers / 1e9)
    }

    /// Returns what the counters added since the last call, per role and instance.
    pub fn counts(&mut self) -> Vec<CountDelta> {
        let now = self.now();
        self.counted.covers = now - std::mem::replace(&mut self.counted.at, now);
        let per_task = self.opened.events.iter().any(|open| open.tid >= 0);
        let of_groups = self.opened.groups.read();
        // By opening and instance. A thread has an event on each CPU: what one of them does not
        // count because the thread runs elsewhere, another one does.
        let mut readings: BTreeMap<(usize, u32), ReadingSums> = BTreeMap::new();
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
                        self.unscheduled.add(open.event.name(), open.cpu);
                    }
                    sums.unread = true;
                    continue;
                }
            };
            let now = open.carried.plus(CounterReading::of(&read));
            let before = std::mem::replace(&mut open.counted, now);
            (sums.before, sums.now) = (sums.before.and(before), sums.now.and(now));
            sums.events += 1;
        }
        let took = self.now() - now;
        // A thread's counters are read one after the other, while it runs.
        let slack = (took + std::mem::replace(&mut self.counted.took, took)) as u64;
        let cpus = if per_task && !readings.is_empty() { online_cpus().len() } else { 1 };
        let mut counts = Vec::new();
        for ((opening, instance), sums) in readings {
            let opening = &self.openings[opening];
            let slack = opening.may_be_multiplexed().then_some(slack);
            let (added, share) = sums.added(cpus, slack);
            let value = match opening.event.kind().unit() {
                Some(unit) if unit.is_snapshot => sums.current() * unit.scale,
                Some(unit) => added * unit.scale,
                None => added,
            };
            counts.extend(opening.named().map(|role| CountDelta {
                role,
                instance,
                value,
                share,
                scaled: share < 1.0,
            }));
        }
        self.choose_cpu_times();
        counts.extend(self.cpu_times.take(&self.openings, &self.watched_cpus));
        counts
    }

    /// Returns a line for each pinned event that got no hardware counter. Each is reported once.
    pub fn take_unscheduled(&mut self) -> Vec<String> {
        self.unscheduled.take_lines()
    }

    /// Updates the counters of /proc/stat. Must also be called when some of them were opened,
    /// switched or closed.
    pub(super) fn choose_cpu_times(&mut self) {
        let openings = self.openings.iter().zip(&self.opened.decoders).enumerate();
        let wanted = openings.filter_map(|(opening, (of, decoder))| {
            let is_on = decoder.is_on() && !self.is_disabled;
            let time = of.cpu_time().filter(|_| decoder.is_wanted())?;
            Some(WantedTime { opening, time, is_on })
        });
        let wanted: Vec<WantedTime> = wanted.collect();
        if wanted.is_empty() {
            self.cpu_times = CpuTimes::default();
        } else if let Ok(now) = cpu_ticks() {
            self.cpu_times.choose(&wanted, &now);
        }
    }
}
