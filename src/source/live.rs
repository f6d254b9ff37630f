//! The live source: drains the rings of all CPUs into batches, ring by ring or merged by time.
//!
//! A batch's slots point into the rings, so a ring's tail moves only after its batch was
//! dispatched. A record that wraps is copied into its ring's scratch; between two releases there is
//! at most one such record.

use super::counts::{Counting, SideLost};
use super::decoder::TimeSpan;
use super::fill::{plain, plain_at, push};
use super::hotplug::Presence;
use super::merged::SLACK_NS;
use super::open::{OpenedSource, Opening, RefusedCondition, SourceRequest, open};
use super::rings::{CpuRing, pages_of};
use super::watched_tasks::WatchedTasks;
use super::{Batch, Happening, SideBand, Sink, Slot};
use crate::base::draw::Stamp;
use crate::decode::clock::Clock;
use crate::decode::sample::{Plain, identifier};
use crate::order::Order;
use crate::sys::clock::{monotonic_ns, wall_and_monotonic};
use crate::sys::cpus::online_cpus;
use crate::sys::poll::Poller;
use std::os::fd::AsFd;

/// Fill level of a ring from which on its losses are read.
const NEARLY_FULL: (u64, u64) = (7, 8);
/// Poller token of a file that is not a ring.
const OTHER: usize = usize::MAX;
pub(super) const SAMPLE: u32 = perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;

/// The rings of a run.
pub struct Live {
    pub(super) opened: OpenedSource,
    pub(super) openings: Vec<Opening>,
    pub(super) order: Option<Order>,
    pub(super) poller: Poller,
    /// The request with which it was opened.
    pub(super) request: SourceRequest,
    /// CPUs without a ring that were online at the last check.
    pub(super) unwatched_cpus: Vec<u32>,
    pub(super) batch: Batch,
    pub(super) room: usize,
    pub(super) clock: Clock,
    own_pid: u32,
    pub(super) tasks: Option<WatchedTasks>,
    /// Watched CPUs; the others have rings for the records of tasks.
    pub(super) watched_cpus: Vec<u32>,
    pub(super) lost_seen: u64,
    pub(super) side_lost: SideLost,
    /// When the counters were read last, and which could not be.
    pub(super) counting: Counting,
    /// Whether some roles have left their openings that may still take what was written before.
    pub(super) leaving: bool,
    /// Whether the events have been disabled.
    pub(super) is_disabled: bool,
    /// The ring whose counts and records are compared next.
    pub(super) next_compared: usize,
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
        let opened = open(&openings, request)?;
        let order = request.ordered.then(|| Order::new(opened.rings.len()));
        let mut poller = Poller::new();
        for (index, ring) in opened.rings.iter().enumerate() {
            poller.add(&ring.owner, index);
        }
        let room = openings.iter().map(|o| o.roles.len()).max().unwrap_or(1).max(1);
        let tasks = request.tasks.as_ref();
        let tasks = tasks.map(|tids| WatchedTasks::of(tids.iter().map(|tid| *tid as u32)));
        let has_ring = |cpu: &u32| opened.rings.iter().any(|ring| ring.cpu == *cpu);
        let without_ring = online_cpus().into_iter().filter(|cpu| !has_ring(cpu)).collect();
        let (wall, now) = wall_and_monotonic();
        Ok(Live {
            opened,
            openings,
            order,
            poller,
            request: request.clone(),
            unwatched_cpus: without_ring,
            batch: Batch::new(roles),
            room,
            clock: Clock::new(Stamp { wall_ns: wall, clock_ns: now }, now),
            own_pid: std::process::id(),
            tasks,
            watched_cpus: request.watched.clone(),
            lost_seen: 0,
            side_lost: SideLost::default(),
            counting: Counting::default(),
            leaving: false,
            is_disabled: false,
            next_compared: 0,
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

    /// Returns the pages of each ring that events write to.
    pub fn pages(&self) -> usize {
        if self.opened.rings.is_empty() { 0 } else { pages_of(&self.opened.rings) }
    }

    /// Returns the CPUs of which only the records of tasks are read.
    pub fn cpus_of_tasks_only(&self) -> Vec<u32> {
        self.opened.rings.iter().filter(|ring| ring.tasks_only).map(|ring| ring.cpu).collect()
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
        Ok(())
    }

    /// Enables every event that is not turned off. The run begins when the last one is enabled; if
    /// rings are merged, nothing older is handed on.
    ///
    /// # Errors
    /// The kernel refuses to enable an event.
    pub fn enable(&mut self, workload: bool) -> anyhow::Result<()> {
        let decoders = &self.opened.decoders;
        for open in &self.opened.events {
            let decoder = &decoders[open.opening];
            if decoder.is_on() && !open.in_group && (!workload || decoder.whole_cpus) {
                open.event.enable()?;
            }
        }
        self.opened.groups.enable()?;
        self.settle_cpu_times();
        let (wall, now) = wall_and_monotonic();
        self.clock = Clock::new(Stamp { wall_ns: wall, clock_ns: now }, now);
        if self.order.is_some() {
            for decoder in &mut self.opened.decoders {
                let takers = decoder.takers.iter_mut().filter(|taker| taker.is_on());
                takers.for_each(|taker| taker.span = TimeSpan::since(now));
                decoder.settle();
            }
        }
        Ok(())
    }

    /// Disables the events, so that the next drain is the last.
    pub fn disable(&mut self) {
        self.is_disabled = true;
        self.settle_cpu_times();
        self.opened.groups.disable();
        for open in &self.opened.events {
            // An event that cannot be disabled has gone with its task or CPU.
            let _ = open.event.disable();
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
        let most = if self.is_pressed() { SLACK_NS.div_ceil(1_000_000) as i32 } else { i32::MAX };
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

    /// Returns whether a ring still holds many records that were too recent to be merged when it
    /// woke perilune: it may be full before it does so again.
    fn is_pressed(&self) -> bool {
        let much = |ring: &CpuRing| (ring.head - ring.at) * 4 >= ring.ring.capacity();
        self.order.is_some() && self.opened.rings.iter().any(much)
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
        match self.order.take() {
            Some(mut order) => {
                self.drain_merged(&mut order, until, sink);
                self.order = Some(order);
            }
            None => self.drain_rings(sink),
        }
        if self.leaving && !sink.stopped() {
            self.forget_left(self.clock.clock_ns(until));
        }
    }

    fn drain_rings(&mut self, sink: &mut dyn Sink) {
        // Names first: a task that was forked on an unwatched CPU may have run on a watched one.
        for turn in 0..2 * self.opened.rings.len() {
            let (of_tasks, index) =
                (turn < self.opened.rings.len(), turn % self.opened.rings.len());
            if self.opened.rings[index].tasks_only != of_tasks {
                continue;
            }
            self.look(index);
            while self.opened.rings[index].at < self.opened.rings[index].head {
                self.take_plain(index);
                if !self.batch.is_full(self.room) {
                    self.take(index, None, sink);
                }
                if self.batch.is_full(self.room) {
                    self.flush(sink);
                    self.release(index);
                    if sink.stopped() {
                        return;
                    }
                }
            }
            self.flush(sink);
            self.release(index);
        }
    }

    /// Reads how far the kernel has written.
    pub(super) fn look(&mut self, index: usize) {
        let ring = &mut self.opened.rings[index];
        ring.head = ring.ring.head();
        let fill = ring.head.wrapping_sub(ring.ring.tail());
        let (part, whole) = NEARLY_FULL;
        ring.suspect |= fill * whole >= ring.ring.capacity() * part;
        ring.holes.note_fill(fill, ring.ring.capacity());
    }

    /// Adds records of a ring to the batch while they are the usual ones: samples of the plain
    /// layout that do not wrap, for one role. The next record is for [`Live::take`]. This is a
    /// separate loop so that its state stays in registers.
    fn take_plain(&mut self, index: usize) {
        let OpenedSource { rings, ids, decoders, .. } = &mut self.opened;
        let ring = &mut rings[index];
        let (mut at, mut last, mut taken) = (ring.at, ring.last, 0);
        while !self.batch.is_full(1) {
            let Ok(Some(piece)) = ring.ring.piece(at, ring.head) else { break };
            let Some((role, sample)) = plain_at(&piece, ids, decoders) else { break };
            at += piece.len() as u64;
            taken += 1;
            last = last.max(sample.time);
            let time = self.clock.since_start(sample.time);
            self.batch.push(Slot { time, ..plain(role, &sample) });
        }
        (ring.at, ring.last) = (at, last);
        ring.delivery.taken += taken;
    }

    /// Handles the next record of a ring: adds it to the batch, or passes it to the sink after the
    /// batch. `mended` is its time in a merge, which never decreases.
    pub(super) fn take(&mut self, index: usize, mended: Option<u64>, sink: &mut dyn Sink) {
        let ring = &mut self.opened.rings[index];
        let piece = match ring.ring.piece(ring.at, ring.head) {
            Ok(Some(piece)) => piece,
            Err(_) => {
                // Its length cannot be trusted: no record up to the head can be found any more.
                ring.at = ring.head;
                ring.delivery.broken = true;
                return sink.side(undecodable(ring.cpu));
            }
            Ok(None) => return,
        };
        if piece.kind() != SAMPLE {
            return self.take_side(index, mended, sink);
        }
        ring.at += piece.len() as u64;
        let bytes = piece.bytes(&mut ring.scratch);
        let opened = identifier(bytes).and_then(|id| self.opened.ids.get(id));
        let Some(decoder) = opened.and_then(|i| self.opened.decoders.get(i as usize)) else {
            return sink.side(undecodable(ring.cpu));
        };
        ring.delivery.taken += u64::from(decoder.samples_each);
        if let Some(role) = decoder.plain {
            let Some(mut sample) = Plain::read(bytes).filter(|s| s.raw.len() >= decoder.raw_min)
            else {
                return sink.side(undecodable(ring.cpu));
            };
            (sample.pid, sample.tid) = decoder.task((sample.pid, sample.tid), sample.raw, sink);
            ring.last = ring.last.max(sample.time);
            if decoder.span.holds(sample.time) {
                let time = self.clock.since_start(mended.unwrap_or(sample.time));
                self.batch.push(Slot { time, ..plain(role, &sample) });
            }
            return;
        }
        let Some(mut sample) = decoder.sample(bytes) else {
            return sink.side(undecodable(ring.cpu));
        };
        (sample.pid, sample.tid) = decoder.task((sample.pid, sample.tid), sample.raw, sink);
        ring.last = ring.last.max(sample.time);
        decoder.note_sample(index);
        let time = mended.unwrap_or(sample.time);
        let foreign = decoder.by_thread
            && self.tasks.as_ref().is_some_and(|tasks| !tasks.contains(sample.tid));
        let own = decoder.hide_self && sample.pid == self.own_pid;
        if !(foreign || own) {
            let (at, tasks) = (self.clock.since_start(time), self.tasks.as_ref());
            push(&mut self.batch, decoder, &sample, at, tasks, sink);
        }
    }

    pub(super) fn flush(&mut self, sink: &mut dyn Sink) {
        if !self.batch.is_empty() {
            // SAFETY: the slots point into records that have not been released to the kernel yet,
            // into the copies of those that wrap, and into the batch's own chains; `release` comes
            // later. Each record was at least as long as its decoder's `raw_min`.
            unsafe { sink.dispatch(&mut self.batch) };
            self.batch.clear();
        }
    }

    /// Releases what was read to the kernel.
    pub(super) fn release(&mut self, index: usize) {
        let ring = &mut self.opened.rings[index];
        ring.ring.release(ring.at);
    }

    pub(super) fn release_all(&mut self) {
        for index in 0..self.opened.rings.len() {
            self.release(index);
        }
    }
}

fn undecodable(cpu: u32) -> SideBand<'static> {
    SideBand { time: 0.0, cpu, watched: true, what: Happening::Undecodable }
}
