//! CPUs that go offline and come back during a run.
//!
//! When a CPU goes offline, the kernel takes its events out of service without a hang-up, and it
//! does not restore them (seen on 6.18). The list of online CPUs is therefore polled. A CPU that
//! was offline only between two polls is recognized by the enabled time of its dummy event. The
//! ring stays: a new dummy and new events write into it.
//!
//! Events of tasks continue by themselves, and so do counts in the kernel, whose programs run on
//! all CPUs: no event is missing then, and no loss is reported.
//!
//! A CPU that was not online when the run began has no ring and gets none: scripts have tables with
//! an entry for each CPU.

use std::collections::BTreeSet;

use super::Live;
use crate::source::open::counter_reading::CounterReading;
use crate::source::open::errno_of;
use crate::source::open::groups::{OpenParams, cgroup_of};
use crate::source::open::open_event::{GroupPlace, OpenEvent};
use crate::source::open::opened::OpenedSource;
use crate::source::open::rings::open_owner;
use crate::source::ring::presence::Presence;
use crate::source::sink::Sink;
use crate::sys::attr::EVERY_TASK;
use crate::sys::attr::PerfTarget;
use crate::sys::clock::monotonic_ns;
use crate::sys::cpus::online_cpus;
use crate::sys::machine::page_size;

/// How thorough a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuCheck {
    /// Reads the list of online CPUs.
    Brief,
    /// Also reads how long each dummy was enabled, which costs an interrupt on its CPU.
    Close,
    /// Like `Close`, but at the end of the run: nothing is reopened.
    Last,
}

impl Live {
    /// Checks which CPUs went offline or came back, and reopens the events of those that came back.
    /// Returns notes for the user.
    pub fn follow_cpus(&mut self, look: CpuCheck, sink: &mut dyn Sink) -> Vec<String> {
        let online = online_cpus();
        let mut notes = Vec::new();
        for index in 0..self.opened.rings.len() {
            let ring = &mut self.opened.rings[index];
            let was_offline = ring.presence.is_offline();
            if !online.contains(&ring.cpu) {
                ring.presence = Presence::offline();
                if !was_offline {
                    notes.push(self.went_offline(index, sink));
                }
            } else if was_offline || look != CpuCheck::Brief && self.was_away(index) {
                notes.push(self.came_back(index, look, sink));
            }
        }
        notes.extend(self.follow_cpus_without_ring(&online));
        notes
    }

    /// Returns notes about CPUs without a ring: those that came online after the run began, and, if
    /// the run reads only /proc/stat, all of them.
    fn follow_cpus_without_ring(&mut self, online: &[u32]) -> Vec<String> {
        let rings = &self.opened.rings;
        let (all, was) = (&mut self.unwatched_cpus, &mut self.unwatched_offline);
        let has_ring = |cpu: &u32| rings.iter().any(|ring| ring.cpu == *cpu);
        let is_new = |cpu: &&u32| !has_ring(cpu) && !all.contains(cpu);
        let new: Vec<u32> = online.iter().filter(is_new).copied().collect();
        all.extend(&new);
        let offline: Vec<u32> = all.iter().filter(|cpu| !online.contains(cpu)).copied().collect();
        let went = offline.iter().filter(|cpu| !was.contains(cpu));
        let came = was.iter().filter(|cpu| !offline.contains(cpu));
        let mut notes: Vec<String> = went.map(|cpu| format!("CPU {cpu} went offline")).collect();
        notes.extend(came.map(|cpu| format!("CPU {cpu} is back online")));
        *was = offline;
        notes.extend(new.iter().map(|cpu| {
            format!(
                "CPU {cpu} came online after the run began and is not watched; start again to \
                 watch it"
            )
        }));
        notes
    }

    /// Returns whether events are missing while a CPU is offline: those of the whole CPU.
    fn loses_events_of(&self, cpu: u32) -> bool {
        self.opened.events.iter().any(|open| open.tid == EVERY_TASK && open.cpu == cpu)
    }

    /// Reports the loss window of a CPU that went offline, and returns a note for the user.
    fn went_offline(&mut self, index: usize, sink: &mut dyn Sink) -> String {
        let cpu = self.opened.rings[index].cpu;
        if !self.loses_events_of(cpu) {
            return format!("CPU {cpu} went offline");
        }
        self.report_window(index, monotonic_ns(), sink);
        format!("CPU {cpu} went offline: its events are missing until it is online again")
    }

    /// Watches a CPU again that was offline, and returns a note for the user.
    fn came_back(&mut self, index: usize, look: CpuCheck, sink: &mut dyn Sink) -> String {
        let cpu = self.opened.rings[index].cpu;
        let loses_events = self.loses_events_of(cpu);
        if look == CpuCheck::Last {
            let missing = if loses_events { ": its events since then are missing" } else { "" };
            return format!("CPU {cpu} was offline for a while{missing}");
        }
        let reopened = self.reopen(index);
        self.opened.rings[index].presence = Presence::since(monotonic_ns());
        self.opened.rings[index].presence.given_up = reopened.is_err();
        if loses_events {
            self.report_window(index, monotonic_ns(), sink);
        }
        match reopened {
            Ok(()) if !loses_events => format!("CPU {cpu} is back online"),
            Ok(()) => format!(
                "CPU {cpu} is back online and watched again: its events in between are missing"
            ),
            Err(why) => format!("CPU {cpu} is back online, but no longer watched: {why:#}"),
        }
    }

    /// Returns whether the dummy of a ring was out of service since it was last read.
    fn was_away(&mut self, index: usize) -> bool {
        if self.opened.owner_tid != EVERY_TASK {
            // It is enabled only while its task runs.
            return false;
        }
        let ring = &mut self.opened.rings[index];
        if ring.presence.given_up {
            return false;
        }
        let (now, Ok(counts)) = (monotonic_ns(), ring.owner.read_counts()) else { return false };
        ring.presence.was_away(now, counts.enabled)
    }

    /// Reopens the dummy of a ring and the events of its CPU.
    fn reopen(&mut self, index: usize) -> anyhow::Result<()> {
        let ring = &mut self.opened.rings[index];
        let pages = ring.ring.capacity() as usize / page_size();
        let owner = open_owner(&self.request, pages, self.opened.owner_tid, ring.cpu)?;
        owner.set_output(&ring.owner)?;
        self.poller.remove(index);
        ring.owner_lost_before += ring.owner.lost().unwrap_or(0);
        ring.owner = owner;
        ring.owner.enable()?;
        self.poller.add(&ring.owner, index);
        self.opened.groups.forget_cpu(ring.cpu);
        (0..self.openings.len()).try_for_each(|at| self.reopen_events(at, index))?;
        Ok(self.opened.groups.enable()?)
    }

    /// Reopens an opening's events on a ring's CPU: CPU-wide ones, and those of tasks that were not
    /// opened because the CPU was offline.
    fn reopen_events(&mut self, at: usize, index: usize) -> anyhow::Result<()> {
        let OpenedSource { rings, events, decoders, ids, filters, groups, .. } = &mut self.opened;
        let (ring, opening) = (&mut rings[index], &self.openings[at]);
        let cpu = ring.cpu;
        let like = events.iter().find(|open| open.opening == at);
        let (Some(like), true) = (like, opening.is_on(cpu)) else { return Ok(()) };
        let (mut attr, probe) = (*like.event.attr(), like.event.probe().cloned());
        let array = like.event.array().cloned();
        attr.set("disabled", 1)?;
        attr.set("enable_on_exec", 0)?;
        // A member of a group is not pinned itself; its leader is, which is reopened.
        if opening.is_pinned() {
            attr.set("pinned", 1)?;
        }
        let on = decoders[at].is_on() && !decoders[at].waits(self.is_paused);
        let cgroup = cgroup_of(opening, &self.request)?;
        let of_opening = events.iter().filter(|open| open.opening == at);
        let probes = opening.probes_of_members()?;
        let tids: BTreeSet<i32> = of_opening.map(|open| open.tid).collect();
        for tid in tids {
            let is_it =
                |open: &&mut OpenEvent| (open.opening, open.cpu, open.tid) == (at, cpu, tid);
            let before = events.iter_mut().find(is_it);
            if tid >= 0 && before.is_some() {
                continue;
            }
            let target = PerfTarget { pid: tid, cpu: cpu as i32 };
            let (cgroup, probe, array) = (cgroup.as_ref(), probe.as_ref(), array.as_ref());
            let joining = OpenParams { target, cgroup, probe, array, on, on_exec: false };
            let attr = match opening.attr_for_task(&attr, tid) {
                Ok(attr) => attr,
                // The task ended, or executed another program.
                Err(_) if tid >= 0 => continue,
                Err(why) => return Err(why),
            };
            let (event, place) = match groups.open(opening, &attr, &joining) {
                Ok((opened, place)) => (opened.event, place),
                Err(why) if tid >= 0 && errno_of(&why) == Some(libc::ESRCH) => continue,
                Err(why) => return Err(why),
            };
            if let Some(text) = &filters[at] {
                event.set_filter(text)?;
            }
            if !opening.sampling.count {
                event.set_output(&ring.owner)?;
            }
            let members = opening.open_members(&event, target, cgroup, &probes)?;
            if on && place != GroupPlace::Member {
                event.enable()?;
            }
            let open_anew = OpenEvent { place, members, ..OpenEvent::new(event, at, target)? };
            ids.insert(open_anew.id, at as u32);
            match before {
                Some(open) => {
                    let gone = std::mem::replace(open, open_anew);
                    (open.counted, open.carried) = (gone.counted, gone.carried);
                    if let Ok(read) = gone.event.read_counts() {
                        open.carried = open.carried.plus(CounterReading::of(&read));
                        ring.lost_of_closed += read.lost.unwrap_or(0);
                        if decoders[at].samples_each {
                            ring.delivery.close(&read);
                        }
                    }
                }
                None => events.push(open_anew),
            }
        }
        Ok(())
    }
}
