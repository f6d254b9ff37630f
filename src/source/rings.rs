//! The rings of a run: one for each CPU, owned by a dummy event that carries the records of tasks.
//!
//! Every CPU has one, whatever `-C` says: a task that is forked, named or ended on a CPU that is
//! not watched may run on one that is. Where no event is opened the ring is small.
//!
//! A user who may watch his own tasks but no whole CPU gets dummies of the first of his tasks.

use super::attr::{self, Common};
use super::delivery::Delivery;
use super::hole::Holes;
use super::hotplug::Presence;
use super::merged::Staged;
use super::open::{Opening, Wish};
use crate::base::cpulist;
use crate::decode::sample::Layout;
use crate::sys::budget::pages_for;
use crate::sys::limits::raise_nofile;
use crate::sys::machine::page_size;
use crate::sys::perf::{Event, Target};
use crate::sys::refusal::Refusal;
use crate::sys::ring::{Ring, Scratch};

/// A CPU's ring and how far it was read.
pub(super) struct CpuRing {
    pub(super) cpu: u32,
    /// No event writes here, only records of tasks come.
    pub(super) tasks_only: bool,
    pub(super) owner: Event,
    pub(super) ring: Ring,
    pub(super) scratch: Scratch,
    /// Where the next unread record begins; what lies before may not be released yet.
    pub(super) at: u64,
    /// Where the last look at the kernel's head found it.
    pub(super) head: u64,
    /// The record at `at`, where rings are merged.
    pub(super) staged: Staged,
    /// The newest time read, for the window of a loss.
    pub(super) last: u64,
    /// Whether it was nearly full, or a LOST record was seen, since its losses were last read.
    pub(super) suspect: bool,
    /// What is known of its losses.
    pub(super) holes: Holes,
    /// What the events that wrote here had lost when they were closed.
    pub(super) lost_of_closed: u64,
    /// What dummies before this one had lost.
    pub(super) owner_lost_before: u64,
    /// Whether all that was counted came.
    pub(super) delivery: Delivery,
    /// Whether its CPU is there.
    pub(super) presence: Presence,
}

/// Pages of a ring when nobody asks: no loss at 2 M events/s, and cheaper per event than a smaller
/// one.
const PAGES: usize = 512;

/// Pages of a ring that only holds records of tasks: some 900 of them, in the tenth of a second
/// between two drains.
const PAGES_OF_TASKS: usize = 16;

/// Percent of such a ring that wakes us at least.
const WATERMARK_OF_TASKS: u8 = 50;

/// Opens the rings of all CPUs, and gives whose the dummies are: a thread's, or [`EVERY_TASK`].
/// Those that events write to go first: the memory that a user may lock is shared by all.
pub(super) fn open_rings(
    openings: &[Opening],
    wish: &Wish,
    remarks: &mut Vec<String>,
) -> anyhow::Result<(Vec<CpuRing>, i32)> {
    raise_nofile();
    let has_events = |cpu: u32| openings.is_empty() || openings.iter().any(|one| one.is_on(cpu));
    let (with_events, others): (Vec<u32>, Vec<u32>) =
        wish.cpus.iter().partition(|cpu| has_events(**cpu));
    let asked = wish.pages.unwrap_or(PAGES);
    let plan = pages_for(asked, with_events.len());
    remarks.extend(plan.note);
    let mut pages = plan.count;
    let tid = owner_of_rings(wish, remarks)?;
    let mut rings = Vec::with_capacity(wish.cpus.len());
    for cpu in with_events {
        let owner = open_owner(wish, pages, tid, cpu)?;
        let mapped = Ring::map_largest(&owner, pages)?;
        if mapped.pages < pages {
            remarks.extend(mapped.note);
            pages = mapped.pages;
        }
        rings.push(CpuRing::new(cpu, owner, mapped.ring, false));
    }
    let (mut missing, mut why) = (Vec::new(), None);
    // Names are needed when an event comes, so that nothing waits for them.
    let lazy = Wish { watermark: wish.watermark.max(WATERMARK_OF_TASKS), ..wish.clone() };
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
        format!("tasks that are forked on CPU {cpus} may have no name: {why:#}")
    }));
    rings.sort_by_key(|ring| ring.cpu);
    Ok((rings, tid))
}

/// Pages of the rings that events write to.
pub(super) fn pages_of(rings: &[CpuRing]) -> usize {
    let pages = |ring: &CpuRing| ring.ring.capacity() as usize / page_size();
    rings.iter().map(pages).max().unwrap_or(PAGES)
}

impl CpuRing {
    fn new(cpu: u32, owner: Event, ring: Ring, tasks_only: bool) -> CpuRing {
        CpuRing {
            cpu,
            tasks_only,
            owner,
            ring,
            scratch: Scratch::new(),
            at: 0,
            head: 0,
            staged: Staged::NONE,
            last: 0,
            suspect: false,
            holes: Holes::new(tasks_only),
            lost_of_closed: 0,
            owner_lost_before: 0,
            delivery: Delivery::default(),
            presence: Presence::default(),
        }
    }

    /// Records of tasks that the kernel dropped so far; None where it does not count them (before
    /// 6.0).
    pub(super) fn lost_of_tasks(&self) -> Option<u64> {
        Some(self.owner.lost()? + self.owner_lost_before)
    }
}

/// The dummies carry the records of every task.
pub(super) const EVERY_TASK: i32 = -1;

/// Whose the dummies are that own the rings: every task's (-1), or the first watched thread's, for
/// a user who may watch his own tasks but no whole CPU. Events of other threads may still write
/// there, the CPU being the same.
fn owner_of_rings(wish: &Wish, remarks: &mut Vec<String>) -> anyhow::Result<i32> {
    let (Some([first, others @ ..]), Some(&cpu)) = (wish.tasks.as_deref(), wish.cpus.first())
    else {
        return Ok(EVERY_TASK);
    };
    match open_owner(wish, 1, EVERY_TASK, cpu) {
        Ok(_) => Ok(EVERY_TASK),
        Err(why) if is_permission(&why) => {
            if !others.is_empty() {
                remarks.push(format!(
                    "this user may not watch whole CPUs: names and children of threads other than {first} may be missing"
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

/// The dummy of a CPU, of that thread with its children, or of every task (-1).
pub(super) fn open_owner(wish: &Wish, pages: usize, tid: i32, cpu: u32) -> anyhow::Result<Event> {
    let mut attr = attr::of_owner(common(wish, pages, tid >= 0), wish.mmap)?;
    if tid >= 0 {
        // It counts nothing, but asking for the kernel's part takes a permission of its own.
        attr.raw().set_exclude_kernel(1);
        attr.raw().set_exclude_hv(1);
    }
    let target = Target { pid: tid, cpu: cpu as i32 };
    Ok(Event::open(&attr, target, attr::OWNER)?.event)
}

pub(super) fn common(wish: &Wish, pages: usize, inherit: bool) -> Common {
    let bytes = pages * page_size();
    let watermark = match wish.watermark {
        0 => 0,
        percent => ((bytes as u64 * u64::from(percent.min(99)) / 100) as u32).max(1),
    };
    Common { watermark, inherit }
}

pub(super) fn layout_of_owner(wish: &Wish) -> anyhow::Result<Layout> {
    Ok(Layout::new(attr::shape(&attr::of_owner(common(wish, 1, false), wish.mmap)?)))
}
