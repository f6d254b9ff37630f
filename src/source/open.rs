//! Opens a run's events: one ring per CPU, owned by a dummy event; all other events are redirected
//! into it.
//!
//! The dummy carries the side-band records and outlives the events, so events can be added and
//! removed while a ring is in use (`rings`). If only some tasks are watched, an event is opened per
//! task and CPU with `inherit`, and still writes to the CPU's ring. If that needs more file
//! descriptors than the limit, events are opened CPU-wide and filtered by task in user space
//! (`Opened::tasks_checked`): an in-kernel filter could not follow threads that are created later.
//!
//! Function probes are always opened CPU-wide and filtered by task in user space. A fork would
//! create an inherited probe anew: the kernel then reads the string with the probe's location
//! again, at the same address but in the memory of the forking task. There is no such string there,
//! so the task's fork fails with EFAULT or ENOENT (`inherit_event()`; seen on 6.18).

use anyhow::bail;
use std::cell::Cell;
use std::rc::Rc;

use super::attr;
use super::chains::Chained;
use super::counts::CounterReading;
use super::decoder::{Decoder, TimeSpan};
use super::groups::{CounterGroups, Joining, cgroup_of};
use super::ids::Ids;
use super::left_out::LeftOut;
use super::narrow::{remark, set_accepted_parts};
use super::probes::allow;
use super::rings::{CpuRing, common, layout_of_owner, open_rings, pages_of};
use crate::base::units::counted;
use crate::decode::sample::RecordLayout;
use crate::event::catalog::{Event as Described, EventKind};
use crate::event::filter::{Bound, Filter, split::UserCondition};
use crate::event::function::{FunctionEvent, FunctionLocation};
use crate::event::sampling::Sampling;
use crate::sys::limits::raise_nofile;
use crate::sys::machine::{branches_remembered, sysctl};
use crate::sys::perf::{PerfEvent, PerfTarget};
use crate::sys::refusal::Refusal;

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
    /// Whether records of mapped files are requested.
    pub mmap: bool,
    /// Whether this process is watched, too.
    pub watch_self: bool,
    /// Threads of this process, as tracepoints name them; empty if no tracepoint is opened.
    pub own_tids: Vec<i32>,
}

/// A kernel event to open for one or more roles.
pub struct Opening {
    /// The event.
    pub event: Rc<Described>,
    /// The glob that selected it. If the kernel refuses the event, the others of the glob are
    /// opened without it.
    pub glob: Option<Rc<str>>,
    /// In-kernel filter.
    pub filter: Option<Filter>,
    /// How it is sampled.
    pub sampling: Sampling,
    /// Roles that it serves, each with the filter that it checks in user space.
    pub roles: Vec<(u32, Option<Bound>)>,
    /// For each role, the offset in the raw record of the thread that the event is about; None if
    /// that is the thread that the sample comes from.
    pub about: Vec<Option<usize>>,
}

impl Opening {
    /// Returns whether it is opened on a CPU.
    pub(super) fn is_on(&self, cpu: u32) -> bool {
        self.sampling.cpus.as_ref().is_none_or(|only| only.contains(&cpu))
    }

    /// Returns those of `cpus` on which it is opened.
    pub(super) fn cpus_of(&self, cpus: &[u32]) -> impl Iterator<Item = u32> {
        cpus.iter().copied().filter(|cpu| self.is_on(*cpu))
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

/// An open perf event of an opening.
pub(super) struct OpenEvent {
    /// Count at the last reading.
    pub(super) counted: CounterReading,
    /// Sum of the counts of its predecessors: the event is reopened after its CPU was offline.
    pub(super) carried: CounterReading,
    pub(super) event: PerfEvent,
    /// Event ID, which identifies the event in a reading of its group.
    pub(super) id: u64,
    /// Whether it counts only while the leader of its group does.
    pub(super) in_group: bool,
    pub(super) opening: usize,
    pub(super) cpu: u32,
    pub(super) tid: i32,
}

impl OpenEvent {
    pub(super) fn new(
        event: PerfEvent,
        opening: usize,
        target: PerfTarget,
    ) -> std::io::Result<OpenEvent> {
        let (counted, carried) = (CounterReading::default(), CounterReading::default());
        let (id, cpu, tid) = (event.id()?, target.cpu as u32, target.pid);
        Ok(OpenEvent { counted, carried, event, id, in_group: false, opening, cpu, tid })
    }
}

/// All open rings and events.
pub(super) struct OpenedSource {
    pub(super) rings: Vec<CpuRing>,
    /// Task of the dummies that own the rings.
    pub(super) owner_tid: i32,
    /// Filter that the kernel has, for each opening.
    pub(super) filters: Vec<Option<String>>,
    pub(super) events: Vec<OpenEvent>,
    pub(super) decoders: Vec<Decoder>,
    pub(super) ids: Ids,
    /// Groups in which counters are read.
    pub(super) groups: CounterGroups,
    pub(super) side_layout: RecordLayout,
    pub(super) tasks_checked: bool,
    /// Remarks for the user about how the events were opened.
    pub(super) remarks: Vec<String>,
    /// Conditions that the kernel refused to filter.
    pub(super) refused: Vec<RefusedCondition>,
    /// Refused events of globs that have not been reported yet.
    pub(super) left_out: Vec<LeftOut>,
}

impl OpenedSource {
    /// Closes all events except the first `kept`.
    pub(super) fn close_since(&mut self, kept: usize) {
        for open in self.events.drain(kept..) {
            self.groups.leave(&open);
        }
    }
}

/// Opens all rings and events, disabled.
///
/// # Errors
/// The kernel refuses a ring, an event or a filter; an event does not support the options of the
/// run; or a limit on files or probes is exceeded.
pub(super) fn open(openings: &[Opening], request: &SourceRequest) -> anyhow::Result<OpenedSource> {
    let mut remarks = Vec::new();
    let tasks = tasks_or_cpu_wide(openings, request, &mut remarks)?;
    let (rings, owner_tid) = open_rings(openings, request, &mut remarks)?;
    let mut opened = OpenedSource {
        side_layout: layout_of_owner(request)?,
        rings,
        owner_tid,
        filters: Vec::new(),
        events: Vec::new(),
        decoders: Vec::new(),
        ids: Ids::default(),
        groups: CounterGroups::default(),
        tasks_checked: request.tasks.is_some() && tasks.is_none(),
        remarks,
        refused: Vec::new(),
        left_out: Vec::new(),
    };
    let probes = openings.iter().map(|opening| opening.probes(&request.cpus)).sum();
    opened.remarks.extend(allow(0, probes)?);
    for (index, opening) in openings.iter().enumerate() {
        open_event(&mut opened, index, opening, request, tasks.as_deref())?;
    }
    opened.report_omitted(openings)?;
    Ok(opened)
}

fn tasks_or_cpu_wide(
    openings: &[Opening],
    request: &SourceRequest,
    remarks: &mut Vec<String>,
) -> anyhow::Result<Option<Vec<i32>>> {
    let Some(tasks) = request.tasks.clone() else { return Ok(None) };
    let limit = raise_nofile().soft;
    let events: usize = openings.iter().map(|opening| opening.cpus_of(&request.cpus).count()).sum();
    let wanted = (tasks.len() * events + request.cpus.len()) as u64 + 64;
    if wanted <= limit || request.workload {
        return Ok(Some(tasks));
    }
    if openings.iter().any(|opening| opening.sampling.count) {
        // A sample carries its thread; a CPU-wide count cannot be split by task.
        bail!(
            "-p: {} with these events need {wanted} files, the limit is {limit}; raise it with \
             `ulimit -Hn {wanted}`, or watch fewer threads",
            counted(tasks.len() as u64, "thread")
        );
    }
    remarks.push(format!(
        "{} with these events need {wanted} files, the limit is {limit}: events are opened for \
         whole CPUs and filtered by thread in user space",
        counted(tasks.len() as u64, "thread")
    ));
    Ok(None)
}

/// Returns the errno if the error is a refusal by the kernel.
pub(super) fn errno_of(why: &anyhow::Error) -> Option<i32> {
    why.downcast_ref::<Refusal>().map(|refusal| refusal.errno)
}

/// Opens the events of an opening, disabled, and adds its decoder and filter.
///
/// # Errors
/// The kernel refuses the event or its filter, or the event does not support the options of the
/// run.
pub(super) fn open_event(
    opened: &mut OpenedSource,
    index: usize,
    opening: &Opening,
    request: &SourceRequest,
    tasks: Option<&[i32]>,
) -> anyhow::Result<()> {
    let everything = [-1];
    let function = opening.event.function();
    let whole_cpus = opening.sampling.whole_cpus || function.is_some();
    opening.check_cpu_time(request)?;
    let cgroup = cgroup_of(opening, request)?;
    if function.is_some() && request.tasks.is_some() && opening.sampling.count {
        bail!(
            "{}: the kernel counts calls for whole CPUs, not for single tasks; count them in a \
             handler, as top does",
            opening.event.name
        );
    }
    if let Some(FunctionLocation::File(code, offset)) = function.map(|function| &function.place) {
        if !code.is_intact() {
            // The offset may now be in the middle of another instruction.
            bail!(
                "{}: its file was modified after the probe was looked up; open the probe again",
                opening.event.name
            );
        }
        code.warm(*offset);
    }
    let tasks = tasks.filter(|_| !whole_cpus);
    let tids = tasks.unwrap_or(&everything);
    let common = common(request, pages_of(&opened.rings), tasks.is_some());
    let mut attr = attr::of_event(&opening.event.what, &opening.sampling, common)?;
    let on = opening.roles.iter().any(|(role, _)| !request.off.contains(role));
    if request.workload && on && !whole_cpus {
        attr.set("enable_on_exec", 1)?;
    }
    let filtered_there =
        function.is_some() || matches!(opening.event.what, EventKind::Tracepoint { .. });
    let everyone = opening.sampling.everyone;
    // A filter by task would also exclude interrupts that happen to hit this process.
    let counted = opening.sampling.count;
    let ours_too = request.watch_self || everyone || counted || opening.event.is_scheduler_event();
    let exclude_self = filtered_there && !ours_too && tasks.is_none();
    let own: &[i32] = if exclude_self { &request.own_tids } else { &[] };
    // Set when the first event is open; the other events get the same text.
    let mut filter: Option<Option<String>> = None;
    let mut handed_over = Vec::new();
    let before = opened.events.len();
    'cpus: for position in 0..opened.rings.len() {
        let cpu = opened.rings[position].cpu;
        // An offline CPU gets its events when it is back.
        let absent = opened.rings[position].presence.is_offline();
        if absent || !opening.is_on(cpu) || opening.cpu_time().is_some() {
            continue;
        }
        for &tid in tids {
            let target = PerfTarget { pid: tid, cpu: cpu as i32 };
            let joining = Joining {
                target,
                cgroup: cgroup.as_ref(),
                on,
                // Does not depend on `on`: other events may join the group.
                on_exec: request.workload && !whole_cpus,
            };
            let (got, in_group) = match opened.groups.open(opening, &attr, &joining) {
                Ok(got) => got,
                // Skips a thread that ended after the threads were listed.
                Err(why) if tids.len() > 1 && errno_of(&why) == Some(libc::ESRCH) => continue,
                Err(why) => {
                    opened.omit(opening, why.downcast()?)?;
                    opened.close_since(before);
                    break 'cpus;
                }
            };
            for field in got.dropped {
                let remark = format!("this kernel does not support `{field}`: opened without it");
                if !opened.remarks.contains(&remark) {
                    opened.remarks.push(remark);
                }
            }
            if let Some(text) = &filter {
                text.iter().try_for_each(|text| got.event.set_filter(text))?;
            } else {
                let again =
                    || PerfEvent::open(&attr, target, &opening.event.name).map(|got| got.event);
                let narrowed = set_accepted_parts(&got.event, opening, own, &again)?;
                opened.remarks.extend(narrowed.refused.iter().map(|rest| remark(opening, rest)));
                handed_over = opening.hand_over(&narrowed.refused);
                filter = Some(narrowed.text);
            }
            if !opening.sampling.count {
                got.event.set_output(&opened.rings[position].owner)?;
            }
            let open = OpenEvent { in_group, ..OpenEvent::new(got.event, index, target)? };
            opened.ids.insert(open.id, index as u32);
            opened.events.push(open);
        }
    }
    let layout = RecordLayout::new(attr::shape(&attr));
    let filtered = handed_over.is_empty();
    let all_checked = handed_over.iter().any(|refused| refused.rest.is_none());
    opened.refused.extend(handed_over);
    let mut takers = opening.takers();
    for taker in &mut takers {
        taker.own = taker.own.take().filter(|_| !all_checked);
        if !request.off.contains(&taker.role) {
            taker.span = TimeSpan::since(0);
        }
    }
    let of_tasks = request.tasks.is_some() && !everyone;
    let about = opening.about.iter().any(Option::is_some);
    let by_thread = of_tasks && (opened.tasks_checked || function.is_some() && !about);
    let came = match opening.clock_hz() {
        Some(_) => opened.rings.iter().map(|ring| (ring.cpu, Cell::new(0))).collect(),
        None => Vec::new(),
    };
    let mut decoder = Decoder {
        takers,
        came,
        time_at: match layout.time_offset() {
            Some(at) => at,
            None if opening.sampling.count => 0,
            None => {
                bail!("{}: the time is not at a fixed offset in its samples", opening.event.name)
            }
        },
        plain: None,
        span: TimeSpan::NEVER,
        filtered_by_task: of_tasks && whole_cpus || by_thread,
        by_thread,
        registers: function.map(FunctionEvent::of_any_task),
        whole_cpus,
        filtered,
        layout,
        chained: opening.sampling.stack.map(|stack| {
            Chained::new(stack, sysctl("kernel/perf_event_max_stack"), branches_remembered())
                .entered(attr::is_entered(&opening.event.what, &stack))
        }),
        raw_min: opening.event.format().map_or(0, |format| format.fixed_size),
        hide_self: !request.watch_self && opening.hides_self(),
        common_pid: opening.common_pid(),
        samples_each: opening.samples_each(),
    };
    decoder.settle();
    opened.decoders.push(decoder);
    opened.filters.push(filter.flatten());
    Ok(())
}
