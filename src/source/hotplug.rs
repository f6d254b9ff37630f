//! CPUs that go offline and come back while a run goes on.
//!
//! The kernel takes the events of a CPU that goes offline out of service without a hang-up, and
//! does not bring them back (seen on 6.18). So the list of online CPUs is looked at now and then; a
//! CPU that was away only in between is known by the time that its dummy event was enabled. The
//! ring stays: a new dummy writes into it, and so do the new events.
//!
//! Events of tasks go on by themselves. A CPU that was not there when the run began has no ring,
//! and gets none: scripts have tables with a place for each CPU.

use std::collections::BTreeSet;

use super::Sink;
use super::counts::Reading;
use super::groups::Joining;
use super::live::Live;
use super::open::{Open, Opened, cgroup_of, errno_of};
use super::rings::{EVERY_TASK, open_owner};
use crate::sys::clock::monotonic_ns;
use crate::sys::cpus::online_cpus;
use crate::sys::machine::page_size;
use crate::sys::perf::Target;

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// At the list of online CPUs.
    Brief,
    /// Also at how long each dummy was in service, which costs an interrupt of its CPU.
    Close,
    /// The same at the end of the run: nothing is opened any more.
    Last,
}

/// What was seen of a ring's CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    /// It was offline at the last look.
    offline: bool,
    /// Its events could not be opened again: that was reported, and is not tried until it has been
    /// offline once more.
    given_up: bool,
    /// When its dummy was read last, by the event clock, and for how many nanoseconds it had been
    /// enabled.
    read: Option<(u64, u64)>,
}

impl Presence {
    /// Whether the CPU was offline at the last look.
    pub(super) fn is_offline(&self) -> bool {
        self.offline
    }

    /// Of a CPU whose dummy is enabled now.
    pub(super) fn since(now: u64) -> Presence {
        Presence { read: Some((now, 0)), ..Presence::default() }
    }

    /// Whether a dummy that was enabled for so long by now was out of service since it was last
    /// read.
    fn was_away(&mut self, now: u64, enabled: u64) -> bool {
        let before = self.read.replace((now, enabled));
        before.is_some_and(|(then, served)| {
            let (passed, served) = (now.saturating_sub(then), enabled.saturating_sub(served));
            passed > served + MISSING_NS
        })
    }
}

impl Live {
    /// Looks which CPUs have gone or are back, and opens the events of those that are back. Gives
    /// what to report.
    pub fn follow_cpus(&mut self, look: Look, sink: &mut dyn Sink) -> Vec<String> {
        let online = online_cpus();
        let mut notes = Vec::new();
        for index in 0..self.opened.rings.len() {
            let cpu = self.opened.rings[index].cpu;
            let was_offline = self.opened.rings[index].presence.offline;
            if !online.contains(&cpu) {
                self.opened.rings[index].presence =
                    Presence { offline: true, ..Presence::default() };
                if !was_offline {
                    notes.push(format!(
                        "CPU {cpu} went offline: its events are missing until it is back"
                    ));
                }
            } else if was_offline || look != Look::Brief && self.was_away(index) {
                notes.push(self.came_back(index, look, sink));
            }
        }
        let known = |cpu: &u32| {
            self.opened.rings.iter().any(|ring| ring.cpu == *cpu)
                || self.unwatched_cpus.contains(cpu)
        };
        let new: Vec<u32> = online.into_iter().filter(|cpu| !known(cpu)).collect();
        notes.extend(new.iter().map(|cpu| {
            format!("CPU {cpu} came online after the run began and is not watched; start again to watch it")
        }));
        self.unwatched_cpus.extend(new);
        notes
    }

    /// Watches a CPU again that was away, and gives what to report.
    fn came_back(&mut self, index: usize, look: Look, sink: &mut dyn Sink) -> String {
        let cpu = self.opened.rings[index].cpu;
        if look == Look::Last {
            return format!("CPU {cpu} was offline for a while: its events since then are missing");
        }
        let reopened = self.reopen(index);
        self.opened.rings[index].presence = Presence::since(monotonic_ns());
        self.opened.rings[index].presence.given_up = reopened.is_err();
        self.hole(index, monotonic_ns(), sink);
        match reopened {
            Ok(()) => format!(
                "CPU {cpu} is back online and watched again: its events since then are missing"
            ),
            Err(why) => format!("CPU {cpu} is back online, but not watched any more: {why:#}"),
        }
    }

    /// Whether the dummy of a ring was out of service since it was last read.
    fn was_away(&mut self, index: usize) -> bool {
        if self.opened.owner_tid != EVERY_TASK {
            // It is enabled while its task runs.
            return false;
        }
        let ring = &mut self.opened.rings[index];
        if ring.presence.given_up {
            return false;
        }
        let (now, Ok(counts)) = (monotonic_ns(), ring.owner.read_counts()) else { return false };
        ring.presence.was_away(now, counts.enabled)
    }

    /// Opens the dummy of a ring and its CPU's events anew.
    fn reopen(&mut self, index: usize) -> anyhow::Result<()> {
        let ring = &mut self.opened.rings[index];
        let pages = ring.ring.capacity() as usize / page_size();
        let owner = open_owner(&self.wish, pages, self.opened.owner_tid, ring.cpu)?;
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

    /// Opens an opening's events on a ring's CPU: those of whole CPUs anew, and those that were not
    /// opened since the CPU was offline then.
    fn reopen_events(&mut self, at: usize, index: usize) -> anyhow::Result<()> {
        let Opened { rings, events, decoders, ids, filters, groups, .. } = &mut self.opened;
        let (ring, opening) = (&mut rings[index], &self.openings[at]);
        let cpu = ring.cpu;
        let like = events.iter().find(|open| open.opening == at);
        let (Some(like), true) = (like, opening.is_on(cpu)) else { return Ok(()) };
        let mut attr = *like.event.attr();
        attr.set("disabled", 1)?;
        attr.set("enable_on_exec", 0)?;
        // A member of a group is not pinned itself: its leader is, which is opened anew.
        let fields = &opening.sampling.fields;
        if let Some((_, pinned)) = fields.iter().find(|(name, _)| name == "pinned") {
            attr.set("pinned", *pinned)?;
        }
        let (cgroup, on) = (cgroup_of(opening, &self.wish)?, decoders[at].is_on());
        let of_opening = events.iter().filter(|open| open.opening == at);
        let tids: BTreeSet<i32> = of_opening.map(|open| open.tid).collect();
        for tid in tids {
            let is_it = |open: &&mut Open| (open.opening, open.cpu, open.tid) == (at, cpu, tid);
            let before = events.iter_mut().find(is_it);
            if tid >= 0 && before.is_some() {
                continue;
            }
            let target = Target { pid: tid, cpu: cpu as i32 };
            let joining = Joining { target, cgroup: cgroup.as_ref(), on, on_exec: false };
            let (event, in_group) = match groups.open(opening, &attr, &joining) {
                Ok((opened, in_group)) => (opened.event, in_group),
                Err(why) if tid >= 0 && errno_of(&why) == Some(libc::ESRCH) => continue,
                Err(why) => return Err(why),
            };
            if let Some(text) = &filters[at] {
                event.set_filter(text)?;
            }
            if !opening.sampling.count {
                event.set_output(&ring.owner)?;
            }
            if on && !in_group {
                event.enable()?;
            }
            let open_anew = Open { in_group, ..Open::new(event, at, target)? };
            ids.insert(open_anew.id, at as u32);
            match before {
                Some(open) => {
                    let gone = std::mem::replace(open, open_anew);
                    (open.counted, open.carried) = (gone.counted, gone.carried);
                    if let Ok(read) = gone.event.read_counts() {
                        open.carried = open.carried.plus(Reading::of(&read));
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

/// A dummy that lacks less than this of the time that passed was in service all the time.
const MISSING_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dummy_that_was_enabled_for_less_than_the_time_that_passed_was_away() {
        const MS: u64 = 1_000_000;
        let mut presence = Presence::since(5 * MS);
        assert!(!presence.was_away(1005 * MS, 1000 * MS));
        assert!(!presence.was_away(2005 * MS, 1990 * MS), "read a little late");
        assert!(presence.was_away(3005 * MS, 2400 * MS));
        // It is told once.
        assert!(!presence.was_away(4005 * MS, 3400 * MS));
        assert!(!Presence::default().was_away(9 * MS, 0), "there is nothing to compare with");
    }
}
