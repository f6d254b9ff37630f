//! Opens the rings of a run: one per CPU, owned by a dummy event that carries the records of tasks.
//!
//! Every CPU has a ring, regardless of `-C`: a task that is forked, renamed or ended on an
//! unwatched CPU may run on a watched one. Where no event is opened, the ring is small.
//!
//! For a user who may watch their own tasks but not whole CPUs, the dummies belong to the first of
//! these tasks.

use super::attr::{self, Common};
use crate::base::text::cpulist;
use crate::decode::sample::RecordLayout;
use crate::source::request::{Opening, SourceRequest};
use crate::source::ring::cpu_ring::CpuRing;
use crate::sys::attr::{EVERY_TASK, PerfTarget};
use crate::sys::budget::pages_for;
use crate::sys::limits::raise_nofile;
use crate::sys::machine::page_size;
use crate::sys::perf::PerfEvent;
use crate::sys::refusal::Refusal;
use crate::sys::ring::Ring;

/// Default pages of a ring: no loss at 2 M events/s, and cheaper per event than a smaller one.
const PAGES: usize = 512;

/// Pages of a ring that only holds records of tasks: room for about 900 of them. It wakes perilune
/// when it is half full.
const PAGES_OF_TASKS: usize = 16;

/// Minimum fill level of such a ring that wakes perilune, in percent.
const WATERMARK_OF_TASKS: u8 = 50;

/// Opens the rings of all CPUs; none if nothing but /proc/stat is read, which needs no privilege.
/// Returns them and the task of their dummies: a thread, or
/// [`EVERY_TASK`]. Rings that events write to are opened first, since all share the memory that a
/// user may lock.
///
/// # Errors
/// The kernel refuses a ring that events write to.
pub(in crate::source) fn open_rings(
    openings: &[Opening],
    request: &SourceRequest,
    remarks: &mut Vec<String>,
) -> anyhow::Result<(Vec<CpuRing>, i32)> {
    if !openings.is_empty() && openings.iter().all(|one| one.cpu_time().is_some()) {
        return Ok((Vec::new(), EVERY_TASK));
    }
    raise_nofile();
    let is_large = |one: &Opening, cpu| one.is_on(cpu) && !one.follows_cgroups;
    let has_events = |cpu| openings.is_empty() || openings.iter().any(|one| is_large(one, cpu));
    let (with_events, others): (Vec<u32>, Vec<u32>) =
        request.cpus.iter().partition(|cpu| has_events(**cpu));
    let requested = request.pages.unwrap_or(PAGES);
    let plan = pages_for(requested, with_events.len());
    remarks.extend(plan.note);
    let mut pages = plan.count;
    let tid = owner_of_rings(request, remarks)?;
    let mut rings = Vec::with_capacity(request.cpus.len());
    for cpu in with_events {
        let owner = open_owner(request, pages, tid, cpu)?;
        let mapped = Ring::map_largest(&owner, pages)?;
        if mapped.pages < pages {
            remarks.extend(mapped.note);
            pages = mapped.pages;
        }
        rings.push(CpuRing::new(cpu, owner, mapped.ring, false));
    }
    let (mut missing, mut why) = (Vec::new(), None);
    // Names are needed only when an event arrives, so these rings need not wake perilune early.
    let lazy =
        SourceRequest { watermark: request.watermark.max(WATERMARK_OF_TASKS), ..request.clone() };
    for cpu in others {
        let small = PAGES_OF_TASKS.min(pages);
        let opened = open_owner(&lazy, small, tid, cpu)
            .and_then(|owner| Ok((Ring::map_largest(&owner, small)?.ring, owner)));
        match opened {
            Ok((ring, owner)) => rings.push(CpuRing::new(cpu, owner, ring, true)),
            Err(refusal) => {
                missing.push(cpu);
                why.get_or_insert(refusal);
            }
        }
    }
    remarks.extend(why.map(|why| {
        let cpus = cpulist::format(&missing);
        format!("tasks forked on CPU {cpus} may have no name: {why:#}")
    }));
    rings.sort_by_key(|ring| ring.cpu);
    Ok((rings, tid))
}

/// Returns the pages of the rings that events write to.
pub(in crate::source) fn pages_of(rings: &[CpuRing]) -> usize {
    let pages = |ring: &CpuRing| ring.ring.capacity() as usize / page_size();
    rings.iter().map(pages).max().unwrap_or(PAGES)
}

/// Returns the task of the dummies that own the rings: every task (-1), or the first watched thread
/// for a user who may watch their own tasks but not whole CPUs. Events of other threads may still
/// write there, since the CPU is the same.
fn owner_of_rings(request: &SourceRequest, remarks: &mut Vec<String>) -> anyhow::Result<i32> {
    let (Some([first, others @ ..]), Some(&cpu)) = (request.tasks.as_deref(), request.cpus.first())
    else {
        return Ok(EVERY_TASK);
    };
    match open_owner(request, 1, EVERY_TASK, cpu) {
        Ok(_) => Ok(EVERY_TASK),
        Err(why) if is_permission(&why) => {
            if !others.is_empty() {
                remarks.push(format!(
                    "this user may not watch whole CPUs: names and children of threads other than \
                     {first} may be missing"
                ));
            }
            Ok(*first)
        }
        Err(why) => Err(why),
    }
}

fn is_permission(why: &anyhow::Error) -> bool {
    why.downcast_ref::<Refusal>().is_some_and(Refusal::is_permission)
}

/// Opens the dummy of a CPU, for that thread with its children or for every task (-1).
///
/// # Errors
/// The kernel refuses the dummy.
pub(in crate::source) fn open_owner(
    request: &SourceRequest,
    pages: usize,
    tid: i32,
    cpu: u32,
) -> anyhow::Result<PerfEvent> {
    let common = common(request, pages, tid >= 0);
    let mut attr = attr::of_owner(common, request.mmap, request.side)?;
    if tid >= 0 {
        // It counts nothing, but including the kernel needs a permission of its own.
        attr.raw().set_exclude_kernel(1);
        attr.raw().set_exclude_hv(1);
    }
    let target = PerfTarget { pid: tid, cpu: cpu as i32 };
    Ok(PerfEvent::open(&attr, target, attr::OWNER)?.event)
}

pub(in crate::source) fn common(request: &SourceRequest, pages: usize, inherit: bool) -> Common {
    let bytes = pages * page_size();
    let watermark = match request.watermark {
        0 => 0,
        percent => ((bytes as u64 * u64::from(percent.min(99)) / 100) as u32).max(1),
    };
    Common { watermark, inherit }
}

pub(in crate::source) fn layout_of_owner(request: &SourceRequest) -> anyhow::Result<RecordLayout> {
    let attr = attr::of_owner(common(request, 1, false), request.mmap, request.side)?;
    Ok(RecordLayout::new(attr::shape(&attr)))
}
