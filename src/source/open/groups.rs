//! Groups of counters: events that count at the same times and are read by one call.
//!
//! The leader of a group is a dummy, so any member can be switched off or closed while the others
//! continue. Software counters, including tracepoints, share a group per CPU or thread
//! automatically: a reading interrupts the CPU that is read, once per group instead of once per
//! event. Hardware counters share a group only if a script requests it (`group`): the hardware
//! counts all of a group or none.
//!
//! The first event of a group in braces (`{a,b}`) leads it, as in perf, and its events may be
//! sampled: some PMUs count an event only in the group of another one (`slots` of Intel). Switching
//! the leader off stops the group.
//!
//! Sources: `perf_read_group()` and `perf_event_open()` in kernel/events/core.c.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{bail, ensure};

use super::attr;
use super::open_event::{GroupPlace, OpenEvent};
use crate::event::sampling::EventGroup;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::attr::Attr;
use crate::sys::attr::PerfTarget;
use crate::sys::bpf::OutputArray;
use crate::sys::cgroup;
use crate::sys::dynamic_event::DynamicEvent;
use crate::sys::perf::{
    EventCounts, MEMBERS_MAX, Membership, OpenResult, PerfEvent, is_unscheduled,
};
use crate::sys::refusal::Refusal;

/// Identifies the events that share a group on one CPU or of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::source) struct GroupKey {
    /// The group that was requested; None for the group of software counters.
    requested: Option<EventGroup>,
    /// The control group whose tasks are counted.
    cgroup: Option<Rc<str>>,
    /// The PMU that counts for whole CPUs: each of several boxes has a group of its own.
    pmu: Option<Box<str>>,
}

/// The groups of a run.
#[derive(Default)]
pub(in crate::source) struct CounterGroups {
    /// By key, CPU and thread; another one is opened when the last one is full.
    all: HashMap<(GroupKey, u32, i32), Vec<CounterGroup>>,
    words: Vec<u64>,
}

struct CounterGroup {
    /// The dummy, or another descriptor of the event that leads: a group continues when its leader
    /// is closed.
    leader: PerfEvent,
    /// Event IDs.
    members: Vec<u64>,
    /// Whether the leader is enabled, or will be by the exec.
    enabled: Cell<bool>,
}

/// A member's part of a reading of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum GroupRead {
    Counted(EventCounts),
    /// The group is pinned and got no counter: none of its members is counted.
    Unscheduled,
}

impl Opening {
    /// Returns whether it may be multiplexed: it needs a hardware counter, or shares a group with
    /// events that may.
    pub(in crate::source) fn may_be_multiplexed(&self) -> bool {
        self.event.kind().uses_hardware_counter() || self.sampling.group.is_some()
    }

    /// Returns the number of files that one of its events may need.
    pub(in crate::source) fn files(&self) -> usize {
        1 + self.event.members().len() + usize::from(self.braces().is_some())
    }

    /// Returns the group in braces that it is in.
    pub(in crate::source) fn braces(&self) -> Option<&EventGroup> {
        self.sampling.group.as_ref().filter(|group| group.is_in_braces)
    }

    /// Returns the group that its events join, if any.
    fn group_of_counters(&self) -> Option<GroupKey> {
        let sampling = &self.sampling;
        let in_braces = self.braces().is_some();
        if !sampling.count && !in_braces {
            return None;
        }
        let in_software = self.event.kind().joins_software_group();
        // A field such as `pinned` may be valid for a single event only.
        let is_requested = sampling.group.is_some();
        (is_requested || in_software && sampling.fields.is_empty()).then(|| GroupKey {
            requested: sampling.group.clone(),
            cgroup: sampling.cgroup.clone(),
            pmu: self.event.kind().uncore_pmu().filter(|_| in_braces).map(Into::into),
        })
    }
}

/// Opens the directory of the control group that an opening counts in, if it names one.
///
/// # Errors
/// The run also selects tasks, or the directory cannot be opened.
pub(in crate::source) fn cgroup_of(
    opening: &Opening,
    request: &SourceRequest,
) -> anyhow::Result<Option<OwnedFd>> {
    let Some(path) = &opening.sampling.cgroup else { return Ok(None) };
    if request.tasks.is_some() {
        let fix = match request.workload {
            true => "add -a before the command to watch the cgroup while it runs",
            false => "omit -p and -t",
        };
        bail!("{}: the cgroup `{path}` already selects the tasks; {fix}", opening.event.name);
    }
    Ok(Some(cgroup::open(path)?))
}

/// How an event is opened, besides its attributes.
pub(in crate::source) struct OpenParams<'a> {
    pub(in crate::source) target: PerfTarget,
    /// The directory of its control group.
    pub(in crate::source) cgroup: Option<&'a OwnedFd>,
    /// The event in tracefs that it opens.
    pub(in crate::source) probe: Option<&'a Arc<DynamicEvent>>,
    /// The array in which a BPF program finds it.
    pub(in crate::source) array: Option<&'a Arc<OutputArray>>,
    /// Whether it counts as soon as its group does.
    pub(in crate::source) on: bool,
    /// Whether its group starts with the exec of the task.
    pub(in crate::source) on_exec: bool,
}

impl CounterGroups {
    /// Opens an event of `opening`, in its group if it has one. Returns its place there.
    ///
    /// # Errors
    /// The kernel refuses the event, or its membership in a group that was requested.
    pub(in crate::source) fn open(
        &mut self,
        opening: &Opening,
        attr: &Attr,
        joining: &OpenParams<'_>,
    ) -> anyhow::Result<(OpenResult, GroupPlace)> {
        let (target, name) = (joining.target, opening.event.name.as_str());
        let cgroup = joining.cgroup.map(|folder| folder.as_fd());
        let (probe, array) = (joining.probe, joining.array);
        let alone = || {
            let member = Membership { leader: None, cgroup, probe, array };
            PerfEvent::open_as(attr, target, name, member)
        };
        let Some(key) = opening.group_of_counters() else {
            return Ok((alone()?, GroupPlace::Alone));
        };
        let requested = key.requested.clone();
        let in_braces = requested.as_ref().is_some_and(|group| group.is_in_braces);
        let is_open = |groups: &Vec<CounterGroup>| !groups.is_empty();
        if in_braces
            && !self.all.get(&(key.clone(), target.cpu as u32, target.pid)).is_some_and(is_open)
        {
            return self.lead(key, opening, attr, joining);
        }
        let group = match self.with_room(key, attr, joining) {
            Ok(group) => group,
            Err(why) if requested.is_some() => return Err(why.into()),
            Err(_) => return Ok((alone()?, GroupPlace::Alone)),
        };
        let member = group.attr_of_member(attr, name, joining)?;
        let leader = Some(&group.leader);
        match PerfEvent::open_as(&member, target, name, Membership { leader, cgroup, probe, array })
        {
            Ok(opened) => {
                group.members.push(opened.event.id()?);
                Ok((opened, GroupPlace::Member))
            }
            Err(why) => match (alone(), requested) {
                (Ok(opened), None) => Ok((opened, GroupPlace::Alone)),
                (Ok(_), Some(group)) => Err(refused_in_group(name, &group, &why)),
                (Err(why), _) => Err(why.into()),
            },
        }
    }

    /// Opens the first event of a group in braces.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn lead(
        &mut self,
        key: GroupKey,
        opening: &Opening,
        attr: &Attr,
        joining: &OpenParams<'_>,
    ) -> anyhow::Result<(OpenResult, GroupPlace)> {
        let (target, cgroup) = (joining.target, joining.cgroup.map(|folder| folder.as_fd()));
        let mut attr = *attr;
        if opening.sampling.count {
            attr.set("read_format", attr::read_format_of_leader())?;
        }
        let member =
            Membership { leader: None, cgroup, probe: joining.probe, array: joining.array };
        let opened = PerfEvent::open_as(&attr, target, &opening.event.name, member)?;
        let leader = opened.event.duplicate()?;
        let members = vec![opened.event.id()?];
        let group = CounterGroup { leader, members, enabled: Cell::new(true) };
        self.all.insert((key, target.cpu as u32, target.pid), vec![group]);
        Ok((opened, GroupPlace::Leader))
    }

    /// Returns the group with room for one more event; opens its leader if there is none.
    fn with_room(
        &mut self,
        key: GroupKey,
        attr: &Attr,
        joining: &OpenParams<'_>,
    ) -> Result<&mut CounterGroup, Refusal> {
        let OpenParams { target, on_exec, .. } = *joining;
        let cgroup = joining.cgroup.map(|folder| folder.as_fd());
        let groups = self.all.entry((key, target.cpu as u32, target.pid)).or_default();
        if groups.last().is_none_or(|group| group.members.len() >= MEMBERS_MAX) {
            let attr = attr::of_leader(attr, on_exec);
            let member = Membership { cgroup, ..Membership::default() };
            let leader = PerfEvent::open_as(&attr, target, attr::OWNER, member)?.event;
            groups.push(CounterGroup { leader, members: Vec::new(), enabled: Cell::new(on_exec) });
        }
        let last = groups.len() - 1;
        Ok(&mut groups[last])
    }

    /// Enables the groups that were opened since the last call.
    ///
    /// # Errors
    /// The kernel refuses to enable a leader.
    pub(in crate::source) fn enable(&self) -> std::io::Result<()> {
        for group in self.all.values().flatten() {
            if !group.enabled.replace(true) {
                group.leader.enable()?;
            }
        }
        Ok(())
    }

    /// Disables all groups.
    pub(in crate::source) fn disable(&self) {
        for group in self.all.values().flatten() {
            // A leader that cannot be disabled has gone with its task or CPU.
            let _ = group.leader.disable();
        }
    }

    /// Removes the groups of a CPU whose events the kernel has removed; those of tasks stay.
    pub(in crate::source) fn forget_cpu(&mut self, cpu: u32) {
        self.all.retain(|(_, of, tid), _| *of != cpu || *tid >= 0);
    }

    /// Removes an event that is about to be closed from its group, and closes a group without
    /// members. Returns whether the group needs the event no more.
    pub(in crate::source) fn leave(&mut self, open: &OpenEvent) -> bool {
        if open.place == GroupPlace::Alone {
            return true;
        }
        self.all.retain(|(_, cpu, tid), groups| {
            if (*cpu, *tid) == (open.cpu, open.tid) {
                groups.retain_mut(|group| {
                    group.members.retain(|id| *id != open.id);
                    !group.members.is_empty()
                });
            }
            !groups.is_empty()
        });
        let mut groups = self.all.values().flatten();
        open.place == GroupPlace::Member
            || !groups.any(|group| group.leader.id().ok() == Some(open.id))
    }

    /// Reads every group, and returns its members by their IDs. A group that cannot be read for
    /// another reason than a lack of counters is omitted: its members are read one by one, which
    /// reports the error.
    pub(in crate::source) fn read(&mut self) -> HashMap<u64, GroupRead> {
        let mut all = HashMap::new();
        for group in self.all.values().flatten().filter(|group| group.leader.leads()) {
            group.read(&mut self.words, &mut all);
        }
        all
    }
}

impl CounterGroup {
    /// Returns the attr of an event that joins the group.
    ///
    /// # Errors
    /// It is to be pinned or exclusive, and its leader is not.
    fn attr_of_member(
        &self,
        attr: &Attr,
        name: &str,
        joining: &OpenParams<'_>,
    ) -> anyhow::Result<Attr> {
        let mut member = *attr;
        member.set("disabled", u64::from(!joining.on))?;
        member.set("enable_on_exec", 0)?;
        for (field, modifier) in [("pinned", 'D'), ("exclusive", 'e')] {
            let leader = self.leader.attr().get(field).unwrap_or(0);
            ensure!(
                attr.get(field).unwrap_or(0) <= leader,
                "{name}: the modifier {modifier} ({field}) applies to a whole group; write it \
                 behind its first event"
            );
            // Only the leader of a group may have it.
            member.set(field, 0)?;
        }
        Ok(member)
    }

    fn read(&self, words: &mut Vec<u64>, all: &mut HashMap<u64, GroupRead>) {
        let take = |one: EventCounts| {
            all.insert(one.id, GroupRead::Counted(one));
        };
        // Members that have left count until they are closed, so there must be room for the
        // maximum.
        match self.leader.read_group(MEMBERS_MAX, words, take) {
            // Only the leader is pinned, so the kernel reports a count of 0 for each member.
            Err(why) if is_unscheduled(&why) => {
                all.extend(self.members.iter().map(|id| (*id, GroupRead::Unscheduled)));
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Returns the error for an event that the kernel opens, but not in its group.
pub(in crate::source) fn refused_in_group(
    name: &str,
    group: &EventGroup,
    why: &Refusal,
) -> anyhow::Error {
    let fix = match group.is_in_braces {
        true => "omit it there, or add the modifier W to open the events without the group",
        false => "count it in a group of its own",
    };
    anyhow::anyhow!(
        "{name}: the kernel does not count it in one group with the other events of `{}` ({}); \
         {fix}",
        group.name,
        why.why
    )
}
