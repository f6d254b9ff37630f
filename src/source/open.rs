//! Opens a run's events: one ring per CPU, owned by a dummy event; all other events are redirected
//! into it.
//!
//! The dummy carries the side-band records and outlives the events, so events can be added and
//! removed while a ring is in use (`rings`). If only some tasks are watched, an event is opened per
//! task and CPU with `inherit`, and still writes to the CPU's ring. If that is impossible
//! (`thread_list`), events are opened CPU-wide and filtered by task in user space: an in-kernel
//! filter could not follow threads created later.
//!
//! Function probes are always opened CPU-wide and filtered by task in user space. A fork would
//! create an inherited probe anew: the kernel then reads the string with the probe's location
//! again, at the same address but in the memory of the forking task. There is no such string there,
//! so the task's fork fails with EFAULT or ENOENT (`inherit_event()`; seen on 6.18).

pub mod attr;
pub(super) mod braces;
pub(super) mod counted_members;
pub(super) mod counter_reading;
mod decoders;
mod function_links;
pub(super) mod groups;
pub(super) mod kernel_filter;
mod omitted;
pub(super) mod open_event;
pub(super) mod opened;
mod own_id;
pub mod probe_limit;
pub(super) mod rings;
mod sample_parts;
mod script_fields;
pub(super) mod thread_list;
pub mod try_open;
pub mod user_text;

use anyhow::{Context as _, anyhow, bail};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::request::{Opening, RefusedCondition, SourceRequest};
use super::ring::ids::Ids;
use crate::base::text::cpulist;
use crate::event::kind::function::fetched::check_layout;
use crate::sys::attr::{Attr, EVERY_TASK, PerfTarget};
use crate::sys::bpf::OutputArray;
use crate::sys::dynamic_event::DynamicEvent;
use crate::sys::errno::errno;
use crate::sys::perf::{Membership, OpenResult, PerfEvent};
use crate::sys::progress::Progress;
use crate::sys::refusal::{Refusal, RefusedCall};
use crate::sys::{signal, tasks::any_alive};
use counted_members::MemberProbes;
use function_links::FunctionLinks;
use groups::{CounterGroups, OpenParams, cgroup_of};
use kernel_filter::{ProgramFilter, remark, set_accepted_parts};
use omitted::OmittedEvents;
use open_event::{GroupPlace, OpenEvent};
use opened::OpenedSource;
use probe_limit::{allow, probes_of};
use rings::{common, layout_of_owner, open_rings, pages_of};
use sample_parts::omit_parts;
use thread_list::ThreadList;
use user_text::UserTextPrograms;

/// Opens all rings and events, disabled.
///
/// # Errors
/// The kernel refuses a ring, an event or a filter; an event does not support the options of the
/// run; or a limit on files or probes is exceeded.
pub(super) fn open(openings: &[Opening], request: &SourceRequest) -> anyhow::Result<OpenedSource> {
    let mut list = ThreadList::new(openings, request, Vec::new())?;
    loop {
        let mut opened = open_for(openings, request, list.threads())?;
        if !list.list_again(opened.owner_tid == EVERY_TASK)? {
            opened.remarks.extend(list.into_remark());
            return Ok(opened);
        }
    }
}

/// Opens all rings and events, for these threads or for whole CPUs.
fn open_for(
    openings: &[Opening],
    request: &SourceRequest,
    threads: Option<&[i32]>,
) -> anyhow::Result<OpenedSource> {
    let mut remarks = Vec::new();
    let (rings, owner_tid) = open_rings(openings, request, &mut remarks)?;
    let mut opened = OpenedSource {
        side_layout: layout_of_owner(request)?,
        rings,
        owner_tid,
        filters: Vec::new(),
        events: Vec::new(),
        decoders: Vec::new(),
        ids: Ids::default(),
        programs: UserTextPrograms::default(),
        links: FunctionLinks::default(),
        groups: CounterGroups::default(),
        remarks,
        refused: Vec::new(),
        omitted: OmittedEvents::default(),
    };
    let arrays = opened.links.attach(openings, request, &[]);
    let probes = probes_of(openings.iter().zip(&arrays));
    opened.remarks.extend(allow(0, probes)?);
    let mut progress = Progress::begin("opening events", openings.len());
    for (index, (opening, array)) in openings.iter().zip(arrays).enumerate() {
        ensure_no_interrupt()?;
        open_event(&mut opened, (index, opening, array), request, threads)?;
        progress.advance(1);
    }
    opened.report_omitted(openings)?;
    Ok(opened)
}

/// The user ended the run before all of its events were open.
#[derive(Debug, thiserror::Error)]
#[error("interrupted while events were opened")]
pub struct OpeningInterrupted;

/// Checks, between two events, that the run goes on: many probes take seconds to open.
///
/// # Errors
/// [`OpeningInterrupted`].
pub(super) fn ensure_no_interrupt() -> Result<(), OpeningInterrupted> {
    if signal::interrupts() > 0 { Err(OpeningInterrupted) } else { Ok(()) }
}

/// Returns the errno if the error is a refusal by the kernel.
pub(super) fn errno_of(why: &anyhow::Error) -> Option<i32> {
    why.downcast_ref::<Refusal>().map(|refusal| refusal.errno)
}

/// Opens the events of an opening for these threads or for whole CPUs, disabled, and adds its
/// decoder and filter. `linked` is the array in which the BPF program of a link finds them, if it
/// has one.
///
/// # Errors
/// The kernel refuses the event or its filter, or the event does not support the options of the
/// run.
pub(super) fn open_event(
    opened: &mut OpenedSource,
    (index, opening, linked): (usize, &Opening, Option<Arc<OutputArray>>),
    request: &SourceRequest,
    threads: Option<&[i32]>,
) -> anyhow::Result<()> {
    let tasks_checked = request.tasks.is_some() && threads.is_none();
    let (name, event) = (&opening.event.name, opening.event.kind());
    let named = |why| anyhow!("{name}: {why}");
    event.check_options(&opening.sampling, request.tasks.is_some()).map_err(named)?;
    opened.remark(event.doubt());
    if let (Some(served), None) = (event.cpus(), opening.cpus_of(&request.cpus).next()) {
        bail!(
            "{name}: its PMU serves only the CPUs {}, and none of them is watched; omit -C, or \
             watch one of them",
            cpulist::format(served)
        );
    }
    let cgroup = cgroup_of(opening, request)?;
    event.prepare().map_err(named)?;
    opening.check_members(request.tasks.is_some())?;
    let tasks = threads.filter(|_| !opening.is_cpu_wide());
    let common = common(request, pages_of(&opened.rings), tasks.is_some());
    let mut attr = attr::of_event(event, &opening.sampling, common)?;
    omit_parts(&mut attr, opening);
    own_id::add(&mut attr, opening, opened.events.iter().map(|open| open.event.attr()))?;
    let on = opening.named().any(|role| !request.off.contains(&role));
    // Does not depend on `on`: other events may join the group.
    let on_exec = request.workload && !opening.is_cpu_wide();
    if on_exec && on {
        attr.set("enable_on_exec", 1)?;
    }
    // A filter by task would also exclude interrupts that happen to hit this process.
    let ours_too = request.watch_self
        || opening.sampling.all_tasks
        || opening.sampling.count
        || opening.event.is_scheduler_event();
    let exclude_self = event.is_tracing() && !ours_too && tasks.is_none();
    let tids = tasks.unwrap_or(&[EVERY_TASK]);
    let own = if exclude_self { &request.own_tids[..] } else { &[] };
    let of_pairs = || opening.pairs.as_ref().map(|pairs| pairs.array.clone());
    let array = match linked.or_else(of_pairs) {
        Some(array) => {
            attr = attr::of_output(&attr);
            Some(array)
        }
        None => output_array(opened, index, opening, &mut attr, own),
    };
    let (probe, member_probes) = (None, opening.probes_of_members()?);
    let mut perf_events = PerfEvents {
        index,
        opening,
        attr,
        tids,
        cgroup,
        probe,
        member_probes,
        array,
        own,
        on,
        on_exec,
    };
    let filter = perf_events.open(opened)?;
    let (rings, refused) = (opened.rings.iter().map(|ring| ring.cpu), &filter.refused[..]);
    let mut attr = perf_events.attr;
    if let Some(open) = opened.events.iter().rev().find(|open| open.opening == index) {
        attr.raw().read_format = open.event.attr().as_raw().read_format;
    }
    let decoder = decoders::of_opening(opening, request, &attr, refused, rings, tasks_checked)?;
    opened.decoders.push(decoder);
    opened.filters.push(filter.text);
    opened.refused.extend(filter.refused);
    Ok(())
}

/// Loads the BPF program that writes the records of an opening, if it has one. Returns the array of
/// its perf events, and changes `attr` to theirs. If the kernel refuses it, adds a remark, and the
/// tracepoint writes the records, without strings.
fn output_array(
    opened: &mut OpenedSource,
    index: usize,
    opening: &Opening,
    attr: &mut Attr,
    own: &[i32],
) -> Option<Arc<OutputArray>> {
    let name = &opening.event.name;
    let texts = opening.event.kind().raw_format().map_or(0, |format| format.user_text.len());
    if !opening.is_by_program() {
        if texts > 0 && !opening.sampling.count {
            opened.remarks.push(format!(
                "{name}: text arguments are empty with freq=, period= or fields of \
                 perf_event_attr; omit these"
            ));
        }
        return None;
    }
    let cpu = opened.rings.first()?.cpu;
    let filter = ProgramFilter::of(opening).unwrap_or_default();
    let place = (index, opening);
    match opened.programs.open(place, attr, cpu, own, &filter.checked) {
        Ok(array) => {
            *attr = attr::of_output(attr);
            Some(array)
        }
        Err(why) => {
            opened.remarks.push(format!("{name}: text arguments are empty: {why}"));
            None
        }
    }
}

/// The perf events of an opening: one per CPU and task.
struct PerfEvents<'a> {
    index: usize,
    opening: &'a Opening,
    attr: Attr,
    /// Threads to watch, or [`EVERY_TASK`].
    tids: &'a [i32],
    cgroup: Option<OwnedFd>,
    /// The event that was made in tracefs.
    probe: Option<Arc<DynamicEvent>>,
    /// The array in which a BPF program finds them.
    array: Option<Arc<OutputArray>>,
    member_probes: MemberProbes,
    /// Threads that the in-kernel filter excludes.
    own: &'a [i32],
    /// Whether a role has them on.
    on: bool,
    /// Whether the exec of the workload enables them.
    on_exec: bool,
}

/// The filter that the kernel has accepted.
#[derive(Default)]
struct AcceptedFilter {
    text: Option<String>,
    refused: Vec<RefusedCondition>,
}

impl PerfEvents<'_> {
    /// Opens all of them. If the kernel refuses one and the event may be omitted, closes them.
    fn open(&mut self, opened: &mut OpenedSource) -> anyhow::Result<AcceptedFilter> {
        // Set when the first event is open; the other events get the same text.
        let mut filter = None;
        if self.opening.cpu_time().is_some() {
            return Ok(AcceptedFilter::default());
        }
        if let Some(point) = self.opening.event.kind().probe().filter(|_| self.array.is_none()) {
            match DynamicEvent::create(point) {
                Ok(probe) => {
                    if let Some(expected) = self.opening.event.kind().raw_format() {
                        check_layout(expected, probe.format())
                            .with_context(|| self.opening.event.name.clone())?;
                    }
                    self.attr.set("config", probe.id())?;
                    self.probe = Some(probe);
                }
                Err(why) => {
                    let call = RefusedCall::CreateProbe(point.type_);
                    let name = &self.opening.event.name;
                    opened.omitted.add(self.opening, Refusal::new(name, call, errno(&why)))?;
                    return Ok(AcceptedFilter::default());
                }
            }
        }
        let before = opened.events.len();
        'cpus: for position in 0..opened.rings.len() {
            let ring = &opened.rings[position];
            // An offline CPU gets its events when it is back.
            if ring.presence.is_offline() || !self.opening.is_on(ring.cpu) {
                continue;
            }
            let cpu = ring.cpu as i32;
            for &tid in self.tids {
                let attr = match self.opening.attr_for_task(&self.attr, tid) {
                    Ok(attr) => attr,
                    Err(_) if self.tids.len() > 1 && !any_alive(&[tid]) => continue,
                    Err(why) => return Err(why),
                };
                let target = PerfTarget { pid: tid, cpu };
                let joining = OpenParams {
                    target,
                    cgroup: self.cgroup.as_ref(),
                    probe: self.probe.as_ref(),
                    array: self.array.as_ref(),
                    on: self.on,
                    on_exec: self.on_exec,
                };
                match opened.groups.open(self.opening, &attr, &joining) {
                    Ok(got) => self.add(opened, position, target, got, &mut filter)?,
                    // Skips a thread that ended after the threads were listed.
                    Err(why) if self.tids.len() > 1 && errno_of(&why) == Some(libc::ESRCH) => {}
                    Err(why) => {
                        opened.omitted.add(self.opening, why.downcast()?)?;
                        opened.close_since(before);
                        break 'cpus;
                    }
                }
            }
        }
        Ok(filter.unwrap_or_default())
    }

    /// Returns what the BPF program leaves to user space.
    fn filter_of_program(&self) -> anyhow::Result<AcceptedFilter> {
        let ProgramFilter { refused, .. } = ProgramFilter::of(self.opening)?;
        Ok(AcceptedFilter { text: None, refused: self.opening.hand_over(&refused) })
    }

    /// Adds an open event, with its filter and output set, to the ring at `position`.
    fn add(
        &self,
        opened: &mut OpenedSource,
        position: usize,
        target: PerfTarget,
        (got, place): (OpenResult, GroupPlace),
        filter: &mut Option<AcceptedFilter>,
    ) -> anyhow::Result<()> {
        for field in got.dropped {
            opened
                .remark(Some(format!("this kernel does not support `{field}`: opened without it")));
        }
        if self.array.is_some() && filter.is_none() {
            *filter = Some(self.filter_of_program()?);
        } else if let Some(accepted) = filter {
            accepted.text.iter().try_for_each(|text| got.event.set_filter(text))?;
        } else {
            let (opening, name) = (self.opening, &self.opening.event.name);
            let probe = self.probe.as_ref();
            let member = Membership { probe, ..Membership::default() };
            let again =
                || PerfEvent::open_as(&self.attr, target, name, member).map(|got| got.event);
            let narrowed = set_accepted_parts(&got.event, opening, self.own, &again)?;
            opened.remarks.extend(narrowed.refused.iter().map(|rest| remark(opening, rest)));
            let refused = opening.hand_over(&narrowed.refused);
            *filter = Some(AcceptedFilter { text: narrowed.text, refused });
        }
        if !self.opening.sampling.count {
            got.event.set_output(&opened.rings[position].owner)?;
        }
        let (cgroup, probes) = (self.cgroup.as_ref(), &self.member_probes);
        let members = self.opening.open_members(&got.event, target, cgroup, probes)?;
        let open = OpenEvent { place, members, ..OpenEvent::new(got.event, self.index, target)? };
        opened.ids.insert(open.id, self.index as u32);
        opened.events.push(open);
        Ok(())
    }
}
