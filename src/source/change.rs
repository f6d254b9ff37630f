//! Events that come and go while a run goes on: the rings stay, since they belong to the dummies.
//!
//! A filter is set once in an event's life, so another filter is another event: it is opened into the same ring, and the
//! role takes what either wrote up to a moment when both are on, and from then on. What the old one has written is still
//! handled, by its own decoder, which stays.
//!
//! A role that asks for what another one's event writes anyway joins that: the same record twice in a ring would cost the kernel
//! twice.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Sender};

use super::decoder::{Span, Taker};
use super::live::Live;
use super::open::{Open, Opening, Refused, Wish, open_event};
use super::probes::allow;
use crate::sys::clock::monotonic_ns;
use crate::sys::perf::Event;
use crate::sys::refusal::Refusal;
use crate::sys::{signal, threads};

impl Live {
    /// Opens further events, for roles up to `roles`, which are off; gives what the kernel did not filter of them. If one is
    /// refused, none is open.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn add(
        &mut self,
        openings: Vec<Opening>,
        wish: &Wish,
        roles: usize,
    ) -> anyhow::Result<Vec<Refused>> {
        let refused = self.opened.refused.len();
        let placed: Vec<u32> = openings.iter().flat_map(Opening::named).collect();
        if let Err(why) = self.place_all(openings, wish) {
            let now = monotonic_ns();
            placed.into_iter().for_each(|role| drop(self.leave(role, None, now)));
            self.opened.refused.truncate(refused);
            self.opened.left_out.clear();
            return Err(why);
        }
        self.batch.set_roles(roles);
        Ok(self.opened.refused.split_off(refused))
    }

    /// Puts an opening of one role in the place of those that it has: nothing is handled twice, and nothing is left out. Gives
    /// what the kernel does not filter.
    ///
    /// # Errors
    /// The kernel's refusal: the old events stay then.
    pub fn renew(
        &mut self,
        role: u32,
        opening: Opening,
        wish: &Wish,
        closer: &Closer,
    ) -> anyhow::Result<Vec<Refused>> {
        let on = self.opened.decoders.iter().any(|decoder| decoder.is_on_for(role));
        let refused = self.opened.refused.len();
        let at = self.place(opening, wish)?;
        if on && let Err(why) = self.turn(at, true) {
            self.opened.decoders[at].takers.pop();
            self.opened.refused.truncate(refused);
            drop(self.close_left());
            return Err(why.into());
        }
        self.opened.groups.enable()?;
        let now = monotonic_ns();
        let decoder = &mut self.opened.decoders[at];
        if let Some(taker) = decoder.takers.last_mut().filter(|_| on) {
            taker.span = Span::since(now);
        }
        decoder.settle();
        closer.close(self.leave(role, Some(at), now));
        Ok(self.opened.refused.split_off(refused))
    }

    /// Ends a role's events for good.
    pub fn close(&mut self, role: u32, closer: &Closer) {
        closer.close(self.leave(role, None, monotonic_ns()));
    }

    /// Turns the events of roles on or off; one that serves other roles as well stays on for them. Each takes what is written
    /// after the last of those that are turned on with it is on everywhere, and, of a time before, what the rings still hold.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn switch(&mut self, wishes: &BTreeMap<u32, bool>) -> io::Result<()> {
        let wish = |taker: &Taker| wishes.get(&taker.role).copied().filter(|_| !taker.gone);
        for (at, decoder) in self.opened.decoders.iter().enumerate() {
            let on = decoder.takers.iter().any(|one| wish(one).unwrap_or(one.is_on()));
            if on != decoder.is_on() {
                self.turn(at, on)?;
            }
        }
        self.opened.groups.enable()?;
        let now = monotonic_ns();
        for decoder in &mut self.opened.decoders {
            let mut before = Vec::new();
            for taker in &mut decoder.takers {
                match wish(taker) {
                    Some(true) if !taker.is_on() => {
                        before.push(taker.as_it_was());
                        taker.span = Span::since(now);
                    }
                    Some(false) if taker.is_on() => taker.span.to = now,
                    _ => {}
                }
            }
            before.retain(|taker| taker.span != Span::NEVER);
            self.leaving |= !before.is_empty();
            decoder.takers.extend(before);
            decoder.settle();
        }
        self.settle_cpu_times();
        Ok(())
    }

    fn turn(&self, at: usize, on: bool) -> io::Result<()> {
        let mut events = self.opened.events.iter().filter(|open| open.opening == at);
        events.try_for_each(|open| if on { open.event.enable() } else { open.event.disable() })
    }

    fn place_all(&mut self, openings: Vec<Opening>, wish: &Wish) -> anyhow::Result<()> {
        let cpus: Vec<u32> = self.opened.rings.iter().map(|ring| ring.cpu).collect();
        let new = openings.iter().filter(|opening| self.like(opening).is_none());
        let remark = allow(self.probes(), new.map(|opening| opening.probes(&cpus)).sum())?;
        for opening in openings {
            self.place(opening, wish)?;
        }
        self.opened.tell_left_out(&self.openings)?;
        self.opened.remarks.extend(remark);
        Ok(())
    }

    /// Opens an opening's events, disabled, unless some are open that are like them; gives their place.
    fn place(&mut self, opening: Opening, wish: &Wish) -> anyhow::Result<usize> {
        if let Some(at) = self.like(&opening) {
            return Ok(self.join(at, &opening));
        }
        let off = opening.named().collect();
        let (at, events) = (self.openings.len(), self.opened.events.len());
        let tasks = wish.tasks.as_deref().filter(|_| !self.opened.tasks_checked);
        // A command has begun by now: no exec of it enables anything.
        let wish = Wish { off, workload: false, ..wish.clone() };
        if let Err(why) = open_event(&mut self.opened, at, &opening, &wish, tasks) {
            self.opened.close_since(events);
            self.opened.decoders.truncate(at);
            self.opened.filters.truncate(at);
            return Err(why);
        }
        self.room = self.room.max(opening.roles.len());
        self.openings.push(opening);
        Ok(at)
    }

    /// Where events are open that write just what this opening's would.
    fn like(&self, opening: &Opening) -> Option<usize> {
        let checks = opening.roles.iter().any(|(_, own)| own.is_some());
        if checks || opening.sampling.count {
            return None;
        }
        let is_like = |other: &Opening| {
            // A function of that name may be another file's by now.
            other.event == opening.event
                && other.sampling == opening.sampling
                && other.filter == opening.filter
        };
        let is_open = |at| self.opened.events.iter().any(|open| open.opening == at);
        let takes_more = |at: usize| self.opened.decoders[at].takes_more() && is_open(at);
        let all = self.openings.iter().enumerate();
        all.filter(|(_, other)| is_like(other)).map(|(at, _)| at).find(|&at| takes_more(at))
    }

    fn join(&mut self, at: usize, opening: &Opening) -> usize {
        let decoder = &mut self.opened.decoders[at];
        decoder.takers.extend(opening.takers());
        decoder.settle();
        self.room = self.room.max(decoder.takers.len());
        at
    }

    /// Takes a role from its openings, but for one: it takes what was written up to now. Gives the events that nobody wants any
    /// more.
    fn leave(&mut self, role: u32, but: Option<usize>, now: u64) -> Vec<Event> {
        for (at, decoder) in self.opened.decoders.iter_mut().enumerate() {
            if Some(at) == but || !decoder.serves(role) {
                continue;
            }
            for taker in decoder.takers.iter_mut().filter(|taker| taker.role == role) {
                taker.span.to = taker.span.to.min(now);
                taker.gone = true;
            }
            decoder.settle();
            self.leaving = true;
        }
        self.settle_cpu_times();
        self.close_left()
    }

    fn close_left(&mut self) -> Vec<Event> {
        let decoders = &self.opened.decoders;
        let is_left = |open: &Open| decoders[open.opening].takers.iter().all(|taker| taker.gone);
        let (left, kept): (Vec<Open>, Vec<Open>) =
            std::mem::take(&mut self.opened.events).into_iter().partition(is_left);
        self.opened.events = kept;
        for open in &left {
            self.opened.groups.leave(open);
            // As in `disable`: it may have gone with its CPU.
            let _ = open.event.disable();
            let counts = open.event.read_counts().unwrap_or_default();
            let each = decoders.get(open.opening).is_some_and(|decoder| decoder.samples_each);
            let mut rings = self.opened.rings.iter_mut();
            if let Some(ring) = rings.find(|ring| ring.cpu == open.cpu) {
                ring.lost_of_closed += counts.lost.unwrap_or(0);
                if each {
                    ring.delivery.close(&counts);
                }
            }
        }
        left.into_iter().map(|open| open.event).collect()
    }

    /// Forgets roles that have left, of which everything up to that time of the event clock was handled.
    pub(super) fn forget_left(&mut self, until: u64) {
        for decoder in &mut self.opened.decoders {
            decoder.takers.retain(|taker| !taker.gone || taker.span.to > until);
            decoder.settle();
        }
        let mut takers = self.opened.decoders.iter().flat_map(|decoder| &decoder.takers);
        self.leaving = takers.any(|taker| taker.gone);
    }
}

/// A thread that closes events: the last close of a tracepoint takes some 35 ms, in which a ring may overflow.
#[derive(Debug)]
pub struct Closer {
    events: Option<Sender<Vec<Event>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Closer {
    /// Starts the thread. `told` is called on it first, so that it can be kept out of what is watched.
    ///
    /// # Errors
    /// No further thread can be started.
    pub fn start(told: impl FnOnce() + Send + 'static) -> Result<Closer, Refusal> {
        let (events, closing) = mpsc::channel::<Vec<Event>>();
        let work = move || {
            signal::keep_off_this_thread();
            told();
            closing.iter().for_each(drop);
        };
        let thread = threads::start("perilune:close", work)?;
        Ok(Closer { events: Some(events), thread: Some(thread) })
    }

    /// Closes them, some time.
    pub fn close(&self, events: Vec<Event>) {
        if let Some(closing) = &self.events {
            // If the thread is gone, what could not be sent is closed here.
            let _ = closing.send(events);
        }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.events = None;
        // It ends when it has closed what it was given; a panic in it has been told.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}
