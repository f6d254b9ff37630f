//! Opens the events that are counted in the group of a sampled event (`{LEADER,MEMBER,…}:S`).

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};

use super::attr::{self, Common};
use crate::event::sampling::Sampling;
use crate::source::request::Opening;
use crate::sys::attr::PerfTarget;
use crate::sys::dynamic_event::DynamicEvent;
use crate::sys::errno::errno;
use crate::sys::perf::{Membership, PerfEvent};
use crate::sys::refusal::{Refusal, RefusedCall};

impl Opening {
    /// Checks that the kernel can count its members for the watched tasks or CPUs.
    ///
    /// # Errors
    /// One of them is not counted by the kernel, or not for these.
    pub(in crate::source) fn check_members(&self, of_tasks: bool) -> anyhow::Result<()> {
        let sampling = self.sampling_of_members();
        for member in self.event.members() {
            let (name, kind) = (&member.event.name, member.event.kind());
            if kind.cpu_time().is_some() {
                bail!(
                    "{name}: it is read from /proc/stat and cannot be counted in a group; omit it"
                );
            }
            ensure!(
                !(of_tasks || sampling.cgroup.is_some()) || kind.probe().is_none(),
                "{name}: a probe is counted for whole CPUs; add -a, or omit it in the group"
            );
            kind.check_options(&sampling, of_tasks).map_err(|why| anyhow!("{name}: {why}"))?;
            kind.prepare().map_err(|why| anyhow!("{name}: {why}"))?;
        }
        Ok(())
    }

    /// Returns how its members are counted.
    fn sampling_of_members(&self) -> Sampling {
        let Sampling { exclude, cgroup, .. } = self.sampling.clone();
        Sampling { count: true, exclude, cgroup, ..Sampling::default() }
    }

    /// Makes the probes of its members.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub(in crate::source) fn probes_of_members(&self) -> anyhow::Result<MemberProbes> {
        let members = self.event.members().iter();
        let probes = members.map(|member| match member.event.kind().probe() {
            None => Ok(None),
            Some(point) => DynamicEvent::create(point).map(Some).map_err(|why| {
                let call = RefusedCall::CreateProbe(point.type_);
                Refusal::new(&member.event.name, call, errno(&why)).into()
            }),
        });
        probes.collect()
    }

    /// Opens the members of a leader on its task and CPU.
    ///
    /// # Errors
    /// The kernel refuses one, or its filter, or cannot sample the counts of tasks with their
    /// children.
    pub(in crate::source) fn open_members(
        &self,
        leader: &PerfEvent,
        target: PerfTarget,
        cgroup: Option<&OwnedFd>,
        probes: &MemberProbes,
    ) -> anyhow::Result<Vec<PerfEvent>> {
        let members = self.event.members();
        if members.is_empty() {
            return Ok(Vec::new());
        }
        ensure!(
            leader.leads(),
            "{}: this kernel does not support groups in samples; omit the modifier S",
            self.event.name
        );
        let common = Common { watermark: 1, inherit: target.pid >= 0 };
        let sampling = self.sampling_of_members();
        let mut opened = Vec::with_capacity(members.len());
        for (member, probe) in members.iter().zip(probes) {
            let (name, kind) = (&member.event.name, member.event.kind());
            let mut attr = attr::of_event(kind, &sampling, common)?;
            attr.set("disabled", 0)?;
            if let Some(probe) = probe {
                attr.set("config", probe.id())?;
            }
            for (field, value) in
                kind.attr_fields_for_task(target.pid).map_err(|why| anyhow!("{name}: {why:#}"))?
            {
                attr.set(field, value)?;
            }
            let cgroup = cgroup.map(|folder| folder.as_fd());
            let place =
                Membership { leader: Some(leader), cgroup, probe: probe.as_ref(), array: None };
            let event = PerfEvent::open_as(&attr, target, name, place)?.event;
            if let Some(filter) = &member.filter {
                event.set_filter(&filter.to_kernel())?;
            }
            opened.push(event);
        }
        Ok(opened)
    }
}

/// The probes of members, by their position.
pub(in crate::source) type MemberProbes = Vec<Option<Arc<DynamicEvent>>>;
