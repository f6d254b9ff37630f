//! Request to a source: what to open, for which roles, on which CPUs and tasks.

use std::rc::Rc;

use anyhow::anyhow;

use crate::event::exclude::Exclude;
use crate::event::filter::{BoundFilter, Filter, split::UserCondition};
use crate::event::kind::Event;
use crate::event::rate::SamplingRate;
use crate::event::sampling::Sampling;
use crate::source::side_record::SideKinds;
use crate::source::written_pairs::WrittenPairs;
use crate::sys::attr::Attr;
use crate::sys::cgroup_threads::CgroupThreads;

/// Request of a run to its source.
#[derive(Clone, Debug)]
pub struct SourceRequest {
    /// CPUs with a ring: all online CPUs. Records of tasks are read from all of them, since a task
    /// may be forked on one CPU and run on another.
    pub cpus: Vec<u32>,
    /// CPUs among them that are watched.
    pub watched: Vec<u32>,
    /// Threads to watch, with their children; None watches everything on the CPUs.
    pub tasks: Option<Vec<i32>>,
    /// Processes all of whose threads are among them. They are listed again when events are opened.
    pub processes: Vec<i32>,
    /// Control groups whose threads are watched. Events are limited to them by the kernel, except
    /// those that a field relates to another thread than their own ([`ServedRole::about`]).
    pub cgroups: Option<CgroupThreads>,
    /// Whether the only task is a workload that waits for its exec, at which its events begin.
    pub workload: bool,
    /// Roles that are off until [`super::live::Live::switch`] turns them on.
    pub off: Vec<u32>,
    /// Requested data pages per ring; None uses the default size.
    pub pages: Option<usize>,
    /// Fill level of a ring that wakes perilune, in percent; 0 wakes it at every event.
    pub watermark: u8,
    /// Whether events must be in time order across rings.
    pub ordered: bool,
    /// Records of mapped files that are requested.
    pub mmap: MappingRecords,
    /// Further records that scripts want.
    pub side: SideKinds,
    /// Whether this process is watched, too.
    pub watch_self: bool,
    /// Threads of this process, as tracepoints name them; empty if no tracepoint is opened.
    pub own_tids: Vec<i32>,
}

impl SourceRequest {
    /// Returns whether events of this process are left out where the kernel counts them: neither
    /// those of the scheduler nor those that only interrupts raise.
    pub fn omits_self(&self, event: &Event, sampling: &Sampling) -> bool {
        let is_kept = event.is_scheduler_event() || event.is_raised_only_by_interrupts();
        !self.watches_self(sampling) && !is_kept && self.tasks.is_none()
    }

    /// Returns the threads of this process whose events programs leave out, as the handlers of
    /// records do.
    pub fn omitted_tids(&self, event: &Event, sampling: &Sampling) -> &[i32] {
        if event.is_raised_only_by_interrupts() {
            return &[];
        }
        let hides_self = sampling.hide_self && !self.watches_self(sampling);
        if hides_self || self.omits_self(event, sampling) { &self.own_tids } else { &[] }
    }

    fn watches_self(&self, sampling: &Sampling) -> bool {
        self.watch_self || sampling.all_tasks
    }
}

/// Records of mapped files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingRecords {
    /// None.
    Omitted,
    /// With the device and inode of the file.
    WithInodes,
    /// With the build id of the file instead, if it has one. The kernel reads it when the file is
    /// mapped, so it is that of the mapped file even if the path leads to another one by now.
    WithBuildIds,
}

/// A kernel event to open for one or more roles.
#[derive(Clone)]
pub struct Opening {
    /// The event.
    pub event: Rc<Event>,
    /// The glob that selected it. If the kernel refuses the event, the others of the glob are
    /// opened without it.
    pub glob: Option<Rc<str>>,
    /// In-kernel filter.
    pub filter: Option<Filter>,
    /// How it is sampled.
    pub sampling: Sampling,
    /// Parts of its samples that are needed.
    pub parts: SampleParts,
    /// Roles that it serves.
    pub roles: Vec<ServedRole>,
    /// Whether its records report the control groups of threads. Such an opening has no roles.
    pub follows_cgroups: bool,
    /// The pairs whose programs write its records; None if the event writes them.
    pub pairs: Option<Rc<WrittenPairs>>,
}

/// Parts of a sample that are omitted if nothing needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleParts {
    /// Its time. Samples without a time are not older than the last look at their ring before them;
    /// neither order nor time spans can be found from them.
    pub time: bool,
    /// Its process. The thread is in a tracepoint's record, too.
    pub process: bool,
    /// The parameters of a function by name; without them it has the registers of a call.
    pub parameters: bool,
    /// The ID of its event. It can be omitted only if the run has a single opening, also later.
    pub id: bool,
}

impl SampleParts {
    /// All parts.
    pub const ALL: SampleParts =
        SampleParts { time: true, process: true, parameters: true, id: true };

    /// Returns the parts of either.
    #[must_use]
    pub fn or(self, other: SampleParts) -> SampleParts {
        SampleParts {
            time: self.time | other.time,
            process: self.process | other.process,
            parameters: self.parameters | other.parameters,
            id: self.id | other.id,
        }
    }
}

/// A role that an opening serves.
#[derive(Clone)]
pub struct ServedRole {
    /// Its number.
    pub role: u32,
    /// The filter that it checks in user space.
    pub own_filter: Option<BoundFilter>,
    /// Offset in the raw record of the thread that the event is about; None if that is the thread
    /// that the sample comes from.
    pub about: Option<usize>,
}

impl ServedRole {
    /// Creates a role that takes all records, each of which is about the thread that wrote it.
    pub fn unfiltered(role: u32) -> ServedRole {
        ServedRole { role, own_filter: None, about: None }
    }
}

/// Field of perf_event_attr: the number of records after which the kernel wakes perilune.
const WAKEUP: &str = "wakeup_events";

impl Opening {
    /// Returns whether an event is about another thread than the one that raises it.
    pub fn is_about_others(&self) -> bool {
        self.roles.iter().any(|served| served.about.is_some())
    }

    /// Returns whether it is opened on a CPU.
    pub(super) fn is_on(&self, cpu: u32) -> bool {
        self.sampling.cpus.as_ref().is_none_or(|only| only.contains(&cpu))
            && self.event.kind().cpus().is_none_or(|served| served.contains(&cpu))
    }

    /// Returns whether it is opened for whole CPUs even if only some tasks are watched.
    pub(super) fn is_cpu_wide(&self) -> bool {
        self.event.needs_whole_cpus(&self.sampling) || self.is_by_program() || self.pairs.is_some()
    }

    /// Returns the attr for an event that is attached to a task; -1 stands for all tasks.
    ///
    /// # Errors
    /// The task's process has not mapped the event's file, or its mappings cannot be read.
    pub(super) fn attr_for_task(&self, attr: &Attr, tid: i32) -> anyhow::Result<Attr> {
        let mut attr = *attr;
        let fields = self.event.kind().attr_fields_for_task(tid);
        for (name, value) in fields.map_err(|why| anyhow!("{}: {why:#}", self.event.name))? {
            attr.set(name, value)?;
        }
        Ok(attr)
    }

    /// Returns the number of slots that one of its records may need.
    pub(super) fn slots(&self) -> usize {
        self.roles.len().max(if self.pairs.is_some() { 2 } else { 1 })
    }

    /// Returns those of `cpus` on which it is opened.
    pub(super) fn cpus_of(&self, cpus: &[u32]) -> impl Iterator<Item = u32> {
        cpus.iter().copied().filter(|cpu| self.is_on(*cpu))
    }

    /// Returns the index of a counter that is read from /proc/stat in
    /// [`Ticks`](crate::sys::proc_stat::Ticks).
    pub fn cpu_time(&self) -> Option<usize> {
        self.event.kind().cpu_time()
    }

    /// Returns whether its events write a sample for each event that they count.
    pub(super) fn samples_each(&self) -> bool {
        let each = self.event.kind().samples_each();
        let sampling = &self.sampling;
        let often = sampling.freq.is_none() && sampling.period.unwrap_or(1) == 1;
        let plain = sampling.fields.iter().all(|(name, _)| name == WAKEUP);
        each && often && !sampling.count && plain && !sampling.weighed
    }

    /// Requests the weights of its samples, so that it can be thinned.
    ///
    /// # Errors
    /// Its samples cannot be thinned, for this reason.
    pub fn weigh(&mut self) -> Result<(), &'static str> {
        if self.follows_cgroups {
            return Ok(());
        }
        let (event, sampling) = (self.event.kind(), &self.sampling);
        let refused = [
            (event.has_rate(), "it is sampled by time, so -F or -c bounds its cost"),
            (event.counts_time(), "it counts nanoseconds, not events"),
            (
                sampling.freq.is_some() || sampling.period.unwrap_or(1) != 1,
                "freq= or period= is set, and --budget sets the period itself; omit it",
            ),
            (
                sampling.fields.iter().any(|(name, _)| name != WAKEUP),
                "it has attributes of its own; omit them",
            ),
            (self.is_by_program(), "its text arguments need a BPF program, which is not thinned"),
            (!self.event.counted.is_empty(), "it leads a group in braces; omit the braces"),
        ];
        if let Some((_, why)) = refused.into_iter().find(|(is_refused, _)| *is_refused) {
            return Err(why);
        }
        self.sampling.weighed = !self.sampling.count;
        Ok(())
    }

    /// Returns whether its event, or the group that it is in, stays on its hardware counters.
    pub(super) fn is_pinned(&self) -> bool {
        let (kind, sampling) = (self.event.kind(), &self.sampling);
        let is_named = sampling.fields.iter().any(|(name, value)| name == "pinned" && *value > 0);
        is_named || sampling.pinned && (kind.uses_hardware_counter() || sampling.group.is_some())
    }

    /// Returns whether each of its records wakes perilune.
    pub(super) fn wakes_at_once(&self) -> bool {
        self.sampling.fields.iter().any(|(name, value)| name == WAKEUP && *value > 0)
    }

    /// Returns the requested samples per second of a clock, if its running time implies how many
    /// must arrive.
    pub(super) fn clock_hz(&self) -> Option<f64> {
        let excluded = self.excluded();
        let partial = excluded.user | excluded.kernel | excluded.host | excluded.guest;
        if !self.event.kind().is_clock() || partial || self.sampling.count {
            return None;
        }
        Some(match self.sampling.rate()? {
            SamplingRate::Frequency(hz) => hz as f64,
            SamplingRate::Period(ns) => 1e9 / ns as f64,
        })
    }

    /// Returns the modes in which it does not count.
    pub(super) fn excluded(&self) -> Exclude {
        self.event.kind().attr().exclude.or(self.sampling.exclude)
    }
}

/// A condition that the kernel refused. The handler of the role's records must check it.
#[derive(Clone, Debug)]
pub struct RefusedCondition {
    /// The role.
    pub role: u32,
    /// The condition; None means the role's whole filter.
    pub rest: Option<UserCondition>,
}
