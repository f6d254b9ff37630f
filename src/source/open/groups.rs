//! Groups of counters: events that count at the same times and are read by one call.
//!
//! The leader of a group is a dummy, so any member can be switched off or closed while the others
//! continue. Software counters, including tracepoints, share a group per CPU or thread
//! automatically: a reading interrupts the CPU that is read, once per group instead of once per
//! event. Hardware counters share a group only if a script requests it (`group`): the hardware
//! counts all of a group or none.
//!
//! Sources: `perf_read_group()` and `perf_event_open()` in kernel/events/core.c.

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::bail;

use super::attr;
use super::open_event::OpenEvent;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::attr::Attr;
use crate::sys::attr::PerfTarget;
use crate::sys::cgroup;
use crate::sys::dynamic_event::DynamicEvent;
use crate::sys::perf::{
    EventCounts, Membership, OpenResult, OutputArray, PerfEvent, is_unscheduled,
};
use crate::sys::refusal::Refusal;

/// Maximum number of members of a group: the kernel refuses a group whose reading takes more than
/// 16 KiB.
const MEMBERS_MAX: usize = 500;

/// Identifies the events that share a group on one CPU or of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::source) struct GroupKey {
    /// Name given by the script; None for the group of software counters.
    name: Option<Rc<str>>,
    /// The control group whose tasks are counted.
    cgroup: Option<Rc<str>>,
}

/// The groups of a run.
#[derive(Default)]
pub(in crate::source) struct CounterGroups {
    /// By key, CPU and thread; another one is opened when the last one is full.
    all: HashMap<(GroupKey, u32, i32), Vec<CounterGroup>>,
    words: Vec<u64>,
}

struct CounterGroup {
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

    /// Returns the group that its events join, if any.
    fn group_of_counters(&self) -> Option<GroupKey> {
        let sampling = &self.sampling;
        if !sampling.count {
            return None;
        }
        let in_software = self.event.kind().joins_software_group();
        // A field such as `pinned` may be valid for a single event only.
        let named = sampling.group.is_some();
        (named || in_software && sampling.fields.is_empty())
            .then(|| GroupKey { name: sampling.group.clone(), cgroup: sampling.cgroup.clone() })
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
        let fix = if request.workload { "add -a before the command" } else { "omit -p and -t" };
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
    /// Opens an event of `opening`, in its group if it has one. Returns whether it joined one.
    ///
    /// # Errors
    /// The kernel refuses the event, or its membership in a group that the script requested.
    pub(in crate::source) fn open(
        &mut self,
        opening: &Opening,
        attr: &Attr,
        joining: &OpenParams<'_>,
    ) -> anyhow::Result<(OpenResult, bool)> {
        let (target, name) = (joining.target, opening.event.name.as_str());
        let cgroup = joining.cgroup.map(|folder| folder.as_fd());
        let (probe, array) = (joining.probe, joining.array);
        let alone = || {
            let member = Membership { leader: None, cgroup, probe, array };
            PerfEvent::open_as(attr, target, name, member)
        };
        let Some(key) = opening.group_of_counters() else { return Ok((alone()?, false)) };
        let requested = key.name.clone();
        let group = match self.with_room(key, attr, joining) {
            Ok(group) => group,
            Err(why) if requested.is_some() => return Err(why.into()),
            Err(_) => return Ok((alone()?, false)),
        };
        let mut member = *attr;
        member.set("disabled", u64::from(!joining.on))?;
        member.set("enable_on_exec", 0)?;
        // Only the leader of a group may have these.
        member.set("pinned", 0)?;
        member.set("exclusive", 0)?;
        let leader = Some(&group.leader);
        match PerfEvent::open_as(&member, target, name, Membership { leader, cgroup, probe, array })
        {
            Ok(opened) => {
                group.members.push(opened.event.id()?);
                Ok((opened, true))
            }
            Err(why) => match (alone(), requested) {
                (Ok(opened), None) => Ok((opened, false)),
                (Ok(_), Some(group)) => Err(anyhow::anyhow!(
                    "{name}: the kernel does not count it in one group with the other events of \
                     `{group}` ({}); count it in a group of its own",
                    why.why
                )),
                (Err(why), _) => Err(why.into()),
            },
        }
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

    /// Removes a member that is about to be closed from its group, and closes a group without
    /// members.
    pub(in crate::source) fn leave(&mut self, open: &OpenEvent) {
        if !open.in_group {
            return;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::open::counter_reading::CounterReading;

    fn group(members: &[u64]) -> CounterGroup {
        // Its reading ends at once, like that of a pinned event without a counter.
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        let attr = attr::of_leader(&Attr::counter(0, 0), false);
        let leader = PerfEvent::of_fd(fd, attr);
        CounterGroup { leader, members: members.to_vec(), enabled: Cell::new(true) }
    }

    #[test]
    fn members_of_a_pinned_group_without_a_counter_are_not_counted() {
        let key = GroupKey { name: Some("pinned".into()), cgroup: None };
        let all = HashMap::from([((key, 0, -1), vec![group(&[7, 9])])]);
        let read = CounterGroups { all, words: Vec::new() }.read();
        let none = GroupRead::Unscheduled;
        assert_eq!(read, HashMap::from([(7, none), (9, none)]));
    }

    #[test]
    fn a_group_is_closed_with_its_last_member() {
        let key = || GroupKey { name: None, cgroup: None };
        let both = [((key(), 0, -1), vec![group(&[7, 9])]), ((key(), 1, -1), vec![group(&[8])])];
        let mut groups = CounterGroups { all: HashMap::from(both), words: Vec::new() };
        let open = |id, cpu, in_group| OpenEvent {
            counted: CounterReading::default(),
            carried: CounterReading::default(),
            event: group(&[]).leader,
            id,
            in_group,
            opening: 0,
            cpu,
            tid: -1,
        };
        groups.leave(&open(7, 0, true));
        assert_eq!(groups.all[&(key(), 0, -1)][0].members, [9]);
        groups.leave(&open(8, 1, true));
        assert_eq!(groups.all.len(), 1);
        groups.leave(&open(9, 0, false));
        assert_eq!(groups.all.len(), 1, "an event that is in no group");
        groups.leave(&open(9, 0, true));
        assert!(groups.all.is_empty());
    }
}
