//! The live source: drains the rings of all CPUs into batches, ring by ring or merged by time.

pub mod change;
pub mod clocks;
mod counters;
mod cpu_times;
mod drain;
pub mod hotplug;
mod inventory;
mod loss_windows;
mod losses;
mod merge;
mod place;
mod side_band;
mod thinning;
mod undelivered;
mod unscheduled;

use super::batch::Batch;
use super::open::braces;
use super::open::counter_reading::LastReading;
use super::open::open;
use super::open::open_event::GroupPlace;
use super::open::opened::OpenedSource;
use super::request::{Opening, RefusedCondition, SourceRequest};
use super::ring::cpu_ring::CpuRing;
use super::ring::decoder::TimeSpan;
use super::ring::group_counts::GroupCounts;
use super::ring::presence::Presence;
use super::ring::watched_tasks::WatchedTasks;
use super::sink::Sink;
use crate::base::report::draw::Stamp;
use crate::decode::clock::Clock;
use crate::order::Order;
use crate::sys::attr::EVERY_TASK;
use crate::sys::clock::{monotonic_ns, wall_and_monotonic};
use crate::sys::cpus::online_cpus;
use crate::sys::poll::Poller;
use crate::sys::progress::Progress;
use crate::sys::tasks::any_alive;
use cpu_times::CpuTimes;
use std::os::fd::AsFd;
use unscheduled::Unscheduled;

/// Distance of the merge behind the clock: longer than a record is in flight on a running CPU.
const SLACK_NS: u64 = 2_000_000;
/// Poller token of a file that is not a ring.
const OTHER: usize = usize::MAX;

/// The rings of a run.
pub struct Live {
    opened: OpenedSource,
    openings: Vec<Opening>,
    order: Option<Order>,
    poller: Poller,
    /// The request with which it was opened.
    request: SourceRequest,
    /// CPUs without a ring that were online at some check.
    unwatched_cpus: Vec<u32>,
    /// Those of them that were offline at the last check.
    unwatched_offline: Vec<u32>,
    batch: Batch,
    /// Slots that one record fills at most: one for each role of its opening.
    slots_per_record: usize,
    clock: Clock,
    own_pid: u32,
    /// The record that is handled, without the values that the kernel did not set.
    cleared: Vec<u8>,
    /// Samples known to have the data that an event of another program requested.
    prepared_elsewhere: u64,
    tasks: Option<WatchedTasks>,
    /// Watched CPUs; the others have rings for the records of tasks.
    watched_cpus: Vec<u32>,
    lost_seen: u64,
    /// Events that the kernel dropped, by opening, as of the last reading.
    lost_by_opening: Vec<u64>,
    side_lost: SideLost,
    /// Time of the last reading of the counters, and the nanoseconds that it covers.
    counted: LastReading,
    /// Counters that are read from /proc/stat.
    cpu_times: CpuTimes,
    /// Pinned events that could not be counted.
    unscheduled: Unscheduled,
    /// Whether some roles have left their openings that may still take what was written before.
    has_removed_roles: bool,
    /// Whether the events have been disabled.
    is_disabled: bool,
    /// Whether the events that can be thinned are off for a while.
    is_paused: bool,
    /// Whether [`Live::enable`] was called.
    is_enabled: bool,
    /// The ring whose counts and records are compared next.
    next_compared: usize,
    /// Whether the records of an event are handled as soon as they can be merged.
    wakes_at_once: bool,
}

/// Lost records of tasks.
#[derive(Clone, Copy, Debug, Default)]
struct SideLost {
    /// In rings that events write to, too.
    beside_events: u64,
    /// In the other rings.
    alone: u64,
}

impl Live {
    /// Opens everything, still disabled. `roles` is the number of roles that slots can name.
    ///
    /// # Errors
    /// The kernel refuses a ring, an event or a filter; an event does not support the options of
    /// the run; or a limit on files or probes is exceeded.
    pub fn open(
        openings: Vec<Opening>,
        request: &SourceRequest,
        roles: usize,
    ) -> anyhow::Result<Self> {
        let mut openings = openings;
        if openings.len() > 1 {
            openings.iter_mut().for_each(|opening| opening.parts.id = true);
        }
        let remarks = braces::resolve(&mut openings, request)?;
        let mut opened = open(&openings, request)?;
        opened.remarks.extend(remarks);
        let order = request.ordered.then(|| Order::new(opened.rings.len()));
        let mut poller = Poller::new();
        for (index, ring) in opened.rings.iter().enumerate() {
            poller.add(&ring.owner, index);
        }
        let sampled = openings.iter().filter(|opening| !opening.sampling.count);
        let slots_per_record = sampled.map(Opening::slots).max().unwrap_or(1);
        let tasks = match (&request.tasks, &request.cgroups) {
            // Without order, calls may be read before the record of the exec.
            (Some(tids), _) if request.workload && request.ordered && tids.len() == 1 => {
                Some(WatchedTasks::from_exec_of(tids[0].cast_unsigned()))
            }
            (Some(tids), _) => Some(WatchedTasks::of(tids.iter().map(|tid| tid.cast_unsigned()))),
            (None, cgroups) => cgroups.clone().map(WatchedTasks::of_cgroups),
        };
        let has_ring = |cpu: &u32| opened.rings.iter().any(|ring| ring.cpu == *cpu);
        let without_ring = online_cpus().into_iter().filter(|cpu| !has_ring(cpu)).collect();
        let wakes_at_once = openings.iter().any(Opening::wakes_at_once);
        let (wall, now) = wall_and_monotonic();
        Ok(Live {
            opened,
            openings,
            order,
            poller,
            request: request.clone(),
            unwatched_cpus: without_ring,
            unwatched_offline: Vec::new(),
            batch: Batch::new(roles),
            slots_per_record,
            clock: Clock::new(Stamp { wall_ns: wall, clock_ns: now }, now),
            own_pid: std::process::id(),
            cleared: Vec::new(),
            prepared_elsewhere: 0,
            tasks,
            watched_cpus: request.watched.clone(),
            lost_seen: 0,
            lost_by_opening: Vec::new(),
            side_lost: SideLost::default(),
            counted: LastReading::default(),
            cpu_times: CpuTimes::default(),
            unscheduled: Unscheduled::default(),
            has_removed_roles: false,
            is_disabled: false,
            is_paused: false,
            is_enabled: false,
            next_compared: 0,
            wakes_at_once,
        })
    }

    /// Returns remarks for the user about how the events were opened.
    pub fn remarks(&self) -> &[String] {
        &self.opened.remarks
    }

    /// Returns the conditions that the kernel refused to filter. The handler of each role must
    /// check them from its first record on.
    pub fn refused(&self) -> &[RefusedCondition] {
        &self.opened.refused
    }

    /// Returns the batch, whose addresses the driver keeps.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Returns the conversion of perf time to wall time and run time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns whether only some tasks are watched.
    pub fn watches_tasks(&self) -> bool {
        self.tasks.is_some()
    }

    /// Returns whether the watched threads have ended. One that has executed a program may have the
    /// number of its process by now; no record reports the end of the old number.
    pub fn have_ended(&self, tids: &[i32]) -> bool {
        let has_ends = self.opened.owner_tid == EVERY_TASK && !self.opened.rings.is_empty();
        let tasks = self.tasks.as_ref().filter(|_| has_ends);
        !any_alive(tids) && !tasks.is_some_and(WatchedTasks::have_continued)
    }

    /// Enables the records of tasks, so that a snapshot taken after this misses none.
    ///
    /// # Errors
    /// The kernel refuses to enable an owner of a ring.
    pub fn enable_side(&mut self) -> anyhow::Result<()> {
        for ring in &mut self.opened.rings {
            ring.presence = Presence::since(monotonic_ns());
            ring.owner.enable()?;
        }
        self.opened.membership_events().try_for_each(|open| open.event.enable())?;
        self.begin_to_follow();
        // Those that were created since the threads were listed; records report all later ones.
        for tid in self.request.threads_of_processes() {
            self.tasks.iter_mut().for_each(|tasks| tasks.watch(tid.cast_unsigned()));
        }
        Ok(())
    }

    /// Reads which threads are in the watched control groups, after the events that follow them
    /// were enabled or closed.
    fn begin_to_follow(&mut self) {
        let is_reported = self.are_cgroups_reported();
        self.tasks.iter_mut().for_each(|tasks| tasks.read_cgroups(is_reported));
    }

    /// Returns whether records report the control groups of threads.
    fn are_cgroups_reported(&self) -> bool {
        self.opened.membership_events().next().is_some()
    }

    /// Reads again which threads are in the watched control groups. Returns warnings for the user;
    /// `at_end`: the run has ended.
    pub fn follow_cgroups(&mut self, at_end: bool) -> Vec<String> {
        let Some(tasks) = &mut self.tasks else { return Vec::new() };
        tasks.refresh();
        tasks.take_warnings(at_end)
    }

    /// Enables every event that is not turned off. The run begins when the last one is enabled; if
    /// rings are merged, nothing older is handed on.
    ///
    /// # Errors
    /// The kernel refuses to enable an event.
    pub fn enable(&mut self, workload: bool) -> anyhow::Result<()> {
        let before = monotonic_ns();
        self.is_enabled = true;
        let decoders = &self.opened.decoders;
        for open in &self.opened.events {
            let decoder = &decoders[open.opening];
            if decoder.is_on()
                && open.place != GroupPlace::Member
                && (!workload || decoder.whole_cpus)
            {
                open.event.enable()?;
            }
        }
        self.opened.groups.enable()?;
        self.choose_cpu_times();
        let (wall, now) = wall_and_monotonic();
        self.clock = Clock::new(Stamp { wall_ns: wall, clock_ns: now }, now);
        self.opened.rings.iter_mut().for_each(|ring| (ring.looked_at, ring.last) = (now, before));
        if self.order.is_some() {
            for decoder in &mut self.opened.decoders {
                let recipients =
                    decoder.recipients.iter_mut().filter(|recipient| recipient.is_on());
                recipients.for_each(|recipient| recipient.span = TimeSpan::since(now));
                decoder.update_plain();
            }
        }
        Ok(())
    }

    /// Disables the events, so that the next drain is the last.
    pub fn disable(&mut self) {
        self.is_disabled = true;
        self.choose_cpu_times();
        self.opened.groups.disable();
        for open in &self.opened.events {
            // An event that cannot be disabled has gone with its task or CPU.
            let _ = open.event.disable();
        }
    }

    /// Closes the events, and shows the progress if that takes long.
    pub fn end(mut self) {
        let events = std::mem::take(&mut self.opened.events);
        let mut progress = Progress::begin("closing events", events.len());
        for open in events {
            drop(open);
            progress.advance(1);
        }
    }

    /// Lets a wait also end when `other` is readable. `other` must stay open as long as `self`.
    pub fn listen(&mut self, other: &impl AsFd) {
        self.poller.add(other, OTHER);
    }

    /// Sets whether that file is ignored for now.
    pub fn mute(&mut self, muted: bool) {
        self.poller.mute(OTHER, muted);
    }

    /// Waits until a ring is filled to its watermark, a signal arrives, or the timeout ends.
    /// Returns true if there is something to read from the file passed to [`Live::listen`].
    ///
    /// # Errors
    /// The rings cannot be polled.
    pub fn wait(&mut self, timeout_ms: i32) -> anyhow::Result<bool> {
        let soon = self.is_pressed() || self.wakes_at_once && self.has_recent();
        let most = if soon { SLACK_NS.div_ceil(1_000_000) as i32 } else { i32::MAX };
        let ready = self.poller.wait(timeout_ms.min(most))?;
        let other = ready.readable.contains(&OTHER);
        let gone = ready.hung_up.clone();
        // The ring of a CPU that went offline is still read, but it does not wake perilune any
        // more.
        for index in gone {
            self.poller.remove(index);
        }
        Ok(other)
    }

    /// Returns the counts of the groups whose leaders are sampled.
    fn group_counts(&self) -> impl Iterator<Item = &GroupCounts> {
        self.opened.decoders.iter().filter_map(|decoder| decoder.counts.as_deref())
    }

    /// Returns whether a ring still holds many records that were too recent to be merged when it
    /// woke perilune: it may be full before it does so again.
    fn is_pressed(&self) -> bool {
        let much = |ring: &CpuRing| (ring.head - ring.at) * 4 >= ring.ring.capacity();
        self.order.is_some() && self.opened.rings.iter().any(much)
    }

    /// Returns whether a ring holds records that were too recent to be merged.
    fn has_recent(&self) -> bool {
        self.order.is_some() && self.opened.rings.iter().any(|ring| ring.head > ring.at)
    }

    /// Returns the run time now, in nanoseconds.
    pub fn now(&self) -> f64 {
        self.clock.since_start(monotonic_ns())
    }

    /// Returns the run time up to which events may be handled now: if merged, a little behind the
    /// clock.
    pub fn horizon(&self) -> f64 {
        let slack = if self.order.is_some() { SLACK_NS as f64 } else { 0.0 };
        self.now() - slack
    }

    /// Hands on what the rings hold: merged, up to `until` (run time), or unordered, ring by ring.
    pub fn drain(&mut self, until: f64, sink: &mut dyn Sink) {
        self.group_counts().for_each(GroupCounts::forget_ended);
        match self.order.take() {
            Some(mut order) => {
                self.drain_merged(&mut order, until, sink);
                self.order = Some(order);
            }
            None => self.drain_rings(sink),
        }
        sink.handed_over(self.clock.clock_ns(until));
        if self.has_removed_roles && !sink.stopped() {
            self.drop_removed_roles(self.clock.clock_ns(until));
        }
    }
}
