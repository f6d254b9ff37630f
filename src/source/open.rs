//! Opening a run's events: a ring per CPU owned by a dummy event, every other event directed into it.
//!
//! The dummy carries the records of tasks and outlives the events, so events come and go while a
//! ring runs (`rings`). With tasks to watch, an event is opened per task and CPU with
//! inherit, and still writes to the CPU's ring. When that would take more file descriptors than
//! there are, events are CPU-wide and the tasks are told apart here (`Opened::tasks_checked`): a
//! kernel filter could not follow threads born later.
//!
//! Functions are always opened for whole CPUs and told apart here. A task that forks makes the inherited event anew, and the kernel
//! then reads the name of the function's place once more, at the same address, but of the memory of the task that forks: what is
//! there is no name, and it is the task's fork that fails, with EFAULT or ENOENT (`inherit_event()`; seen on 6.18).

use anyhow::bail;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use super::attr;
use super::chains::Chained;
use super::counts::Reading;
use super::decoder::{Decoder, Span};
use super::groups::{Groups, Joining};
use super::ids::Ids;
use super::left_out::LeftOut;
use super::narrow::{remark, set_what_it_takes};
use super::probes::allow;
use super::rings::{CpuRing, common, layout_of_owner, open_rings, pages_of};
use crate::base::units::counted;
use crate::decode::sample::Layout;
use crate::event::catalog::{Event as Described, What};
use crate::event::filter::{Bound, Filter, split::Rest};
use crate::event::function::{Function, Place};
use crate::event::sampling::Sampling;
use crate::sys::cgroup;
use crate::sys::limits::raise_nofile;
use crate::sys::machine::{branches_remembered, sysctl};
use crate::sys::perf::{Event, Target};
use crate::sys::refusal::Refusal;

/// What a run asks of its source.
#[derive(Clone, Debug)]
pub struct Wish {
    /// CPUs that have rings, all online: records of tasks are taken from all of them, since a task
    /// may be forked on one CPU and run on another.
    pub cpus: Vec<u32>,
    /// Those of them that are watched.
    pub watched: Vec<u32>,
    /// Threads to watch, with their children; None is everything on those CPUs.
    pub tasks: Option<Vec<i32>>,
    /// The one task is a workload that waits to be executed: its events begin with the exec.
    pub workload: bool,
    /// Roles that are off until [`super::live::Live::switch`] turns them on.
    pub off: Vec<u32>,
    /// Data pages per ring asked for; None is our own size.
    pub pages: Option<usize>,
    /// Percent of a ring that wakes us; 0 wakes at every event.
    pub watermark: u8,
    /// Whether events must come in order of time across rings.
    pub ordered: bool,
    /// Whether records of mapped files are wanted.
    pub mmap: bool,
    /// Whether this process is watched too.
    pub watch_self: bool,
    /// The threads of this process as tracepoints name them; none where no tracepoint is opened.
    pub own_tids: Vec<i32>,
}

/// One kernel event to open, for one or more roles.
pub struct Opening {
    /// The event.
    pub event: Rc<Described>,
    /// The glob that it is meant by: where the kernel refuses it, the others are opened without it.
    pub glob: Option<Rc<str>>,
    /// What the kernel filters.
    pub filter: Option<Filter>,
    /// How it is sampled.
    pub sampling: Sampling,
    /// The roles that it serves, with the filter that each checks itself.
    pub roles: Vec<(u32, Option<Bound>)>,
    /// For each of them, where in a raw record the thread stands that the event is about; None where that is the thread
    /// that it comes from.
    pub about: Vec<Option<usize>>,
}

impl Opening {
    /// Whether it is opened on a CPU.
    pub(super) fn is_on(&self, cpu: u32) -> bool {
        self.sampling.cpus.as_ref().is_none_or(|only| only.contains(&cpu))
    }

    /// Those of `cpus` that it is opened on.
    pub(super) fn cpus_of(&self, cpus: &[u32]) -> impl Iterator<Item = u32> {
        cpus.iter().copied().filter(|cpu| self.is_on(*cpu))
    }
}

/// A condition that the kernel refused: whoever handles the role's records has to check it.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The role.
    pub role: u32,
    /// The condition; None is all of the role's filter.
    pub rest: Option<Rest>,
}

/// One open file of an opening.
pub(super) struct Open {
    /// The count when it was last read.
    pub(super) counted: Reading,
    /// What those before it counted: it is opened anew when its CPU was away.
    pub(super) carried: Reading,
    pub(super) event: Event,
    /// Its id, by which a reading of its group names it.
    pub(super) id: u64,
    /// It counts once the leader of its group does.
    pub(super) in_group: bool,
    pub(super) opening: usize,
    pub(super) cpu: u32,
    pub(super) tid: i32,
}

impl Open {
    pub(super) fn new(event: Event, opening: usize, target: Target) -> std::io::Result<Open> {
        let (counted, carried) = (Reading::default(), Reading::default());
        let (id, cpu, tid) = (event.id()?, target.cpu as u32, target.pid);
        Ok(Open { counted, carried, event, id, in_group: false, opening, cpu, tid })
    }
}

/// Everything open.
pub(super) struct Opened {
    pub(super) rings: Vec<CpuRing>,
    /// Whose the dummies are that own them.
    pub(super) owner_tid: i32,
    /// The filter that the kernel has of each opening.
    pub(super) filters: Vec<Option<String>>,
    pub(super) events: Vec<Open>,
    pub(super) decoders: Vec<Decoder>,
    pub(super) ids: Ids,
    /// The groups that counters are read in.
    pub(super) groups: Groups,
    pub(super) side_layout: Layout,
    pub(super) tasks_checked: bool,
    /// What a user should hear about how it was opened.
    pub(super) remarks: Vec<String>,
    /// What the kernel did not filter.
    pub(super) refused: Vec<Refused>,
    /// Events of globs that were refused and not reported yet.
    pub(super) left_out: Vec<LeftOut>,
}

impl Opened {
    /// Closes all events but the first `kept` ones.
    pub(super) fn close_since(&mut self, kept: usize) {
        for open in self.events.drain(kept..) {
            self.groups.leave(&open);
        }
    }
}

/// Opens everything, disabled.
pub(super) fn open(openings: &[Opening], wish: &Wish) -> anyhow::Result<Opened> {
    let mut remarks = Vec::new();
    let tasks = tasks_or_cpu_wide(openings, wish, &mut remarks)?;
    let (rings, owner_tid) = open_rings(openings, wish, &mut remarks)?;
    let mut opened = Opened {
        side_layout: layout_of_owner(wish)?,
        rings,
        owner_tid,
        filters: Vec::new(),
        events: Vec::new(),
        decoders: Vec::new(),
        ids: Ids::default(),
        groups: Groups::default(),
        tasks_checked: wish.tasks.is_some() && tasks.is_none(),
        remarks,
        refused: Vec::new(),
        left_out: Vec::new(),
    };
    let probes = openings.iter().map(|opening| opening.probes(&wish.cpus)).sum();
    opened.remarks.extend(allow(0, probes)?);
    for (index, opening) in openings.iter().enumerate() {
        open_event(&mut opened, index, opening, wish, tasks.as_deref())?;
    }
    opened.tell_left_out(openings)?;
    Ok(opened)
}

fn tasks_or_cpu_wide(
    openings: &[Opening],
    wish: &Wish,
    remarks: &mut Vec<String>,
) -> anyhow::Result<Option<Vec<i32>>> {
    let Some(tasks) = wish.tasks.clone() else { return Ok(None) };
    let limit = raise_nofile().soft;
    let events: usize = openings.iter().map(|opening| opening.cpus_of(&wish.cpus).count()).sum();
    let wanted = (tasks.len() * events + wish.cpus.len()) as u64 + 64;
    if wanted <= limit || wish.workload {
        return Ok(Some(tasks));
    }
    if openings.iter().any(|opening| opening.sampling.count) {
        // A sample says whose it is; a count of a whole CPU could not be told apart.
        bail!(
            "-p: {} with these events take {wanted} files, the limit is {limit}; raise it with `ulimit -Hn {wanted}`, or watch fewer threads",
            counted(tasks.len() as u64, "thread")
        );
    }
    remarks.push(format!(
        "{} with these events take {wanted} files, the limit is {limit}: events are opened for whole CPUs and told apart here",
        counted(tasks.len() as u64, "thread")
    ));
    Ok(None)
}

/// The folder of the control group that an opening counts in, if it names one.
pub(super) fn cgroup_of(opening: &Opening, wish: &Wish) -> anyhow::Result<Option<OwnedFd>> {
    let Some(path) = &opening.sampling.cgroup else { return Ok(None) };
    if wish.tasks.is_some() {
        bail!(
            "{}: `{path}` chooses the tasks; omit -p and -t, and add -a before a command",
            opening.event.name
        );
    }
    Ok(Some(cgroup::open(path)?))
}

/// The kernel's refusal, if that is what went wrong.
pub(super) fn errno_of(why: &anyhow::Error) -> Option<i32> {
    why.downcast_ref::<Refusal>().map(|refusal| refusal.errno)
}

pub(super) fn open_event(
    opened: &mut Opened,
    index: usize,
    opening: &Opening,
    wish: &Wish,
    tasks: Option<&[i32]>,
) -> anyhow::Result<()> {
    let everything = [-1];
    let function = opening.event.function();
    let whole_cpus = opening.sampling.whole_cpus || function.is_some();
    opening.check_cpu_time(wish)?;
    let cgroup = cgroup_of(opening, wish)?;
    if function.is_some() && wish.tasks.is_some() && opening.sampling.count {
        bail!(
            "{}: calls are counted for whole CPUs, so those of some tasks could not be told apart; count them in a handler, as top does",
            opening.event.name
        );
    }
    if let Some(Place::File(code, offset)) = function.map(|function| &function.place) {
        if !code.is_intact() {
            // What was an instruction's first byte may be in the middle of another one by now.
            bail!("{}: its file was written to meanwhile; watch it anew", opening.event.name);
        }
        code.warm(*offset);
    }
    let tasks = tasks.filter(|_| !whole_cpus);
    let tids = tasks.unwrap_or(&everything);
    let common = common(wish, pages_of(&opened.rings), tasks.is_some());
    let mut attr = attr::of_event(&opening.event.what, &opening.sampling, common)?;
    let on = opening.roles.iter().any(|(role, _)| !wish.off.contains(role));
    if wish.workload && on && !whole_cpus {
        attr.set("enable_on_exec", 1)?;
    }
    let filtered_there =
        function.is_some() || matches!(opening.event.what, What::Tracepoint { .. });
    let everyone = opening.sampling.everyone;
    // A filter by task would leave out interrupts, too, that happen to interrupt this process.
    let counted = opening.sampling.count;
    let ours_too = wish.watch_self || everyone || counted || opening.event.is_a_switch();
    let exclude_self = filtered_there && !ours_too && tasks.is_none();
    let own: &[i32] = if exclude_self { &wish.own_tids } else { &[] };
    // Known once the first event has it.
    let mut filter: Option<Option<String>> = None;
    let mut handed_over = Vec::new();
    let before = opened.events.len();
    'cpus: for position in 0..opened.rings.len() {
        let cpu = opened.rings[position].cpu;
        // One that is offline gets its events when it is back.
        let absent = opened.rings[position].presence.is_offline();
        if absent || !opening.is_on(cpu) || opening.cpu_time().is_some() {
            continue;
        }
        for &tid in tids {
            let target = Target { pid: tid, cpu: cpu as i32 };
            let joining = Joining {
                target,
                cgroup: cgroup.as_ref(),
                on,
                // Whether this event is on or not: others may join its group.
                on_exec: wish.workload && !whole_cpus,
            };
            let (got, in_group) = match opened.groups.open(opening, &attr, &joining) {
                Ok(got) => got,
                // A thread that ended between the listing and here has nothing to show.
                Err(why) if tids.len() > 1 && errno_of(&why) == Some(libc::ESRCH) => continue,
                Err(why) => {
                    opened.leave_out(opening, why.downcast()?)?;
                    opened.close_since(before);
                    break 'cpus;
                }
            };
            for field in got.dropped {
                let remark = format!("this kernel does not know `{field}`: opened without it");
                if !opened.remarks.contains(&remark) {
                    opened.remarks.push(remark);
                }
            }
            if let Some(text) = &filter {
                text.iter().try_for_each(|text| got.event.set_filter(text))?;
            } else {
                let again = || Event::open(&attr, target, &opening.event.name).map(|got| got.event);
                let narrowed = set_what_it_takes(&got.event, opening, own, &again)?;
                opened.remarks.extend(narrowed.refused.iter().map(|rest| remark(opening, rest)));
                handed_over = opening.hand_over(&narrowed.refused);
                filter = Some(narrowed.text);
            }
            if !opening.sampling.count {
                got.event.set_output(&opened.rings[position].owner)?;
            }
            let open = Open { in_group, ..Open::new(got.event, index, target)? };
            opened.ids.insert(open.id, index as u32);
            opened.events.push(open);
        }
    }
    let layout = Layout::new(attr::shape(&attr));
    let filtered = handed_over.is_empty();
    let all_checked = handed_over.iter().any(|refused| refused.rest.is_none());
    opened.refused.extend(handed_over);
    let mut takers = opening.takers();
    for taker in &mut takers {
        taker.own = taker.own.take().filter(|_| !all_checked);
        if !wish.off.contains(&taker.role) {
            taker.span = Span::since(0);
        }
    }
    let of_tasks = wish.tasks.is_some() && !everyone;
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
            None => bail!("{}: its samples have no time at a fixed place", opening.event.name),
        },
        plain: None,
        span: Span::NEVER,
        told_apart: of_tasks && whole_cpus || by_thread,
        by_thread,
        registers: function.map(Function::of_any_task),
        whole_cpus,
        filtered,
        layout,
        chained: opening.sampling.stack.map(|stack| {
            Chained::new(stack, sysctl("kernel/perf_event_max_stack"), branches_remembered())
                .entered(attr::is_entered(&opening.event.what, &stack))
        }),
        raw_min: opening.event.format().map_or(0, |format| format.fixed_size),
        hide_self: !wish.watch_self && opening.hides_self(),
        common_pid: opening.common_pid(),
        samples_each: opening.samples_each(),
    };
    decoder.settle();
    opened.decoders.push(decoder);
    opened.filters.push(filter.flatten());
    Ok(())
}
