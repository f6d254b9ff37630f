//! The live source: drains the rings of all CPUs into batches, ring by ring or merged by time.
//!
//! A batch's slots point into the rings, so a ring's tail moves only after its batch was dispatched. A record
//! that wraps is copied into its ring's scratch; between two releases there is at most one such record.

use super::counts::Counting;
use super::decoder::Span;
use super::fill::{plain, plain_at, push};
use super::hotplug::Presence;
use super::merged::SLACK_NS;
use super::open::{Open, Opened, Opening, Refused, Wish, open};
use super::rings::{CpuRing, pages_of};
use super::watched_tasks::WatchedTasks;
use super::{Batch, Happening, Side, Sink, Slot};
use crate::base::draw::Stamp;
use crate::decode::clock::Clock;
use crate::decode::sample::{Plain, identifier};
use crate::event::catalog::What;
use crate::order::Order;
use crate::sys::clock::{monotonic_ns, wall_and_monotonic};
use crate::sys::cpus::online_cpus;
use crate::sys::poll::Poller;
use std::os::fd::AsFd;

/// A fill of this part of a ring asks for a reading of its losses.
const NEARLY_FULL: (u64, u64) = (7, 8);
/// Stands in the poller for what is no ring.
const OTHER: usize = usize::MAX;
pub(super) const SAMPLE: u32 = perf_event_open_sys::bindings::PERF_RECORD_SAMPLE;

/// The rings of a run.
pub struct Live {
    pub(super) opened: Opened,
    pub(super) openings: Vec<Opening>,
    pub(super) order: Option<Order>,
    pub(super) poller: Poller,
    /// As it was opened.
    pub(super) wish: Wish,
    /// CPUs without a ring that were online at the last look.
    pub(super) unwatched_cpus: Vec<u32>,
    pub(super) batch: Batch,
    pub(super) room: usize,
    pub(super) clock: Clock,
    own_pid: u32,
    pub(super) tasks: Option<WatchedTasks>,
    /// CPUs that are watched; others have rings for the records of tasks.
    pub(super) watched_cpus: Vec<u32>,
    pub(super) lost_seen: u64,
    pub(super) side_lost: SideLost,
    /// When the counters were read last, and what could not be.
    pub(super) counting: Counting,
    /// Some roles have left their openings, and may still take what was written before.
    pub(super) leaving: bool,
    /// The kernel writes no more.
    pub(super) is_disabled: bool,
    /// The ring whose counts and records are compared next.
    pub(super) next_compared: usize,
}

impl Live {
    /// Opens everything, still disabled. `roles` is how many roles slots can name.
    pub fn open(openings: Vec<Opening>, wish: &Wish, roles: usize) -> anyhow::Result<Self> {
        let opened = open(&openings, wish)?;
        let order = wish.ordered.then(|| Order::new(opened.rings.len()));
        let mut poller = Poller::new();
        for (index, ring) in opened.rings.iter().enumerate() {
            poller.add(&ring.owner, index);
        }
        let room = openings.iter().map(|o| o.roles.len()).max().unwrap_or(1).max(1);
        let tasks = wish.tasks.as_ref();
        let tasks = tasks.map(|tids| WatchedTasks::of(tids.iter().map(|tid| *tid as u32)));
        let has_ring = |cpu: &u32| opened.rings.iter().any(|ring| ring.cpu == *cpu);
        let without_ring = online_cpus().into_iter().filter(|cpu| !has_ring(cpu)).collect();
        let (wall, now) = wall_and_monotonic();
        Ok(Live {
            opened,
            openings,
            order,
            poller,
            wish: wish.clone(),
            unwatched_cpus: without_ring,
            batch: Batch::new(roles),
            room,
            clock: Clock::new(Stamp { wall_ns: wall, clock_ns: now }, now),
            own_pid: std::process::id(),
            tasks,
            watched_cpus: wish.watched.clone(),
            lost_seen: 0,
            side_lost: SideLost::default(),
            counting: Counting::default(),
            leaving: false,
            is_disabled: false,
            next_compared: 0,
        })
    }

    /// What a user should hear about how it was opened.
    pub fn remarks(&self) -> &[String] {
        &self.opened.remarks
    }

    /// What the kernel refused to filter: the handler of each role has to, before its first record.
    pub fn refused(&self) -> &[Refused] {
        &self.opened.refused
    }

    /// The batch, whose addresses the driver keeps.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Perf time to wall time and run time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether only some tasks are watched.
    pub fn watches_tasks(&self) -> bool {
        self.tasks.is_some()
    }

    /// How many files are open.
    pub fn files(&self) -> usize {
        self.opened.rings.len() + self.opened.events.len()
    }

    /// How many tracepoints are open, each on one CPU or more.
    pub fn tracepoints(&self) -> usize {
        let names: std::collections::BTreeSet<&str> = self
            .openings
            .iter()
            .filter(|opening| matches!(opening.event.what, What::Tracepoint { .. }))
            .map(|opening| opening.event.name.as_str())
            .collect();
        names.len()
    }

    /// How many probes of functions are open: each CPU has its own.
    pub fn probes(&self) -> usize {
        let is = |open: &&Open| self.openings[open.opening].event.function().is_some();
        self.opened.events.iter().filter(is).count()
    }

    /// Pages of each ring that events write to.
    pub fn pages(&self) -> usize {
        if self.opened.rings.is_empty() { 0 } else { pages_of(&self.opened.rings) }
    }

    /// CPUs of which only the records of tasks are taken.
    pub fn cpus_of_tasks_only(&self) -> Vec<u32> {
        self.opened.rings.iter().filter(|ring| ring.tasks_only).map(|ring| ring.cpu).collect()
    }

    /// Enables the records of tasks, so that a snapshot taken after this misses none.
    pub fn enable_side(&mut self) -> anyhow::Result<()> {
        for ring in &mut self.opened.rings {
            ring.presence = Presence::since(monotonic_ns());
            ring.owner.enable()?;
        }
        Ok(())
    }

    /// Enables every event that is not off. The run begins when the last one is on; where rings are merged nothing older is
    /// handed on.
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
                takers.for_each(|taker| taker.span = Span::since(now));
                decoder.settle();
            }
        }
        Ok(())
    }

    /// Stops the kernel's writing, so that the next drain is the last.
    pub fn disable(&mut self) {
        self.is_disabled = true;
        self.settle_cpu_times();
        self.opened.groups.disable();
        for open in &self.opened.events {
            // An event that cannot be disabled has gone with its task or CPU.
            let _ = open.event.disable();
        }
    }

    /// Lets something to read there end a wait, too. It must stay open as long as this.
    pub fn listen(&mut self, other: &impl AsFd) {
        self.poller.add(other, OTHER);
    }

    /// Whether what there is to read there is to be left alone for now.
    pub fn mute(&mut self, muted: bool) {
        self.poller.mute(OTHER, muted);
    }

    /// Waits until a ring is filled to its watermark, a signal comes, or the time is over. True when there is something
    /// to read where [`Live::listen`] was told to listen.
    pub fn wait(&mut self, timeout_ms: i32) -> anyhow::Result<bool> {
        let most = if self.is_pressed() { SLACK_NS.div_ceil(1_000_000) as i32 } else { i32::MAX };
        let ready = self.poller.wait(timeout_ms.min(most))?;
        let other = ready.readable.contains(&OTHER);
        let gone = ready.hung_up.clone();
        // The ring of a CPU that went offline is still read, but it wakes nobody any more.
        for index in gone {
            self.poller.remove(index);
        }
        Ok(other)
    }

    /// Whether a ring still holds much that was too young to be merged when it woke us: it may be full before it wakes us again.
    fn is_pressed(&self) -> bool {
        let much = |ring: &CpuRing| (ring.head - ring.at) * 4 >= ring.ring.capacity();
        self.order.is_some() && self.opened.rings.iter().any(much)
    }

    /// Nanoseconds since the run began, now.
    pub fn now(&self) -> f64 {
        self.clock.since_start(monotonic_ns())
    }

    /// How far events may be handled now: merged, a little behind the clock.
    pub fn horizon(&self) -> f64 {
        let slack = if self.order.is_some() { SLACK_NS as f64 } else { 0.0 };
        self.now() - slack
    }

    /// Hands on what the rings hold, merged up to `until` (run time) or, unordered, as it lies.
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
        // Names first: a task that was forked on a CPU that is not watched may have run on one that
        // is.
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

    /// Notes how far the kernel has written.
    pub(super) fn look(&mut self, index: usize) {
        let ring = &mut self.opened.rings[index];
        ring.head = ring.ring.head();
        let fill = ring.head.wrapping_sub(ring.ring.tail());
        let (part, whole) = NEARLY_FULL;
        ring.suspect |= fill * whole >= ring.ring.capacity() * part;
        ring.holes.look(fill, ring.ring.capacity());
    }

    /// Takes records of a ring as long as they are the usual ones: samples of the plain layout that do not wrap, for
    /// one role. What comes then is for [`Live::take`]. A loop of its own, so that its state stays in registers.
    fn take_plain(&mut self, index: usize) {
        let Opened { rings, ids, decoders, .. } = &mut self.opened;
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

    /// Takes the next record of a ring: into the batch, or to the sink after what stands in the batch.
    pub(super) fn take(&mut self, index: usize, mended: Option<u64>, sink: &mut dyn Sink) {
        let ring = &mut self.opened.rings[index];
        let piece = match ring.ring.piece(ring.at, ring.head) {
            Ok(Some(piece)) => piece,
            Err(_) => {
                // Its length cannot be trusted: nothing up to the head can be found any more.
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
            // SAFETY: the slots lead into records that were not given back to the kernel yet, into
            // the copies of those that wrap, and into the batch's own chains; `release` comes
            // later. Each record was as long as its decoder's `raw_min`.
            unsafe { sink.dispatch(&mut self.batch) };
            self.batch.clear();
        }
    }

    /// Gives what was read back to the kernel.
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

/// Records of tasks that were lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideLost {
    /// In rings that events write to as well.
    pub(super) beside_events: u64,
    /// In the others.
    pub(super) alone: u64,
}

fn undecodable(cpu: u32) -> Side<'static> {
    Side { time: 0.0, cpu, watched: true, what: Happening::Undecodable }
}
