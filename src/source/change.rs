//! Events that come and go while a run goes on: the rings stay, since they belong to the dummies.
//!
//! A filter is set once in an event's life, so another filter is another event: it is opened into the same ring, and only then
//! the old one ends. What the old one has written is still handled, by its own decoder, which stays.

use std::sync::mpsc::{self, Sender};

use super::live::Live;
use super::open::{Open, Opening, Refused, Wish, open_event};
use crate::sys::perf::Event;
use crate::sys::signal;

impl Live {
    /// Opens further events, disabled, for roles up to `roles`; gives what the kernel did not filter of them. If one is
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
        let (events, decoders) = (self.opened.events.len(), self.openings.len());
        let refused = self.opened.refused.len();
        let tasks = wish.tasks.as_deref().filter(|_| !self.opened.tasks_checked);
        for opening in openings {
            let index = self.openings.len();
            if let Err(why) = open_event(&mut self.opened, index, &opening, wish, tasks) {
                self.opened.events.truncate(events);
                self.opened.decoders.truncate(decoders);
                self.openings.truncate(decoders);
                self.opened.refused.truncate(refused);
                return Err(why);
            }
            self.room = self.room.max(opening.roles.len());
            self.openings.push(opening);
        }
        self.batch.set_roles(roles);
        Ok(self.opened.refused.split_off(refused))
    }

    /// Puts an opening of one role in the place of those that it has: on each CPU the old event ends before the new one
    /// begins, so that nothing is handled twice. Gives what the kernel does not filter.
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
        let before = self.openings.len();
        let on = self.is_on(role);
        let roles = role as usize + 1;
        let refused = self.add(vec![opening], wish, roles)?;
        let (old, new): (Vec<usize>, Vec<usize>) = (0..self.opened.events.len())
            .filter(|at| self.serves(&self.opened.events[*at], role))
            .partition(|at| self.opened.events[*at].opening < before);
        for at in new {
            let fresh = &self.opened.events[at];
            for old in old.iter().map(|at| &self.opened.events[*at]) {
                if (old.cpu, old.tid) == (fresh.cpu, fresh.tid) {
                    old.event.disable()?;
                }
            }
            if on {
                fresh.event.enable()?;
            }
        }
        self.close_where(closer, |open| open.opening < before, role);
        if !on && let Some(decoder) = self.opened.decoders.last_mut() {
            decoder.off.push(role);
        }
        Ok(refused)
    }

    /// Ends a role's events for good.
    pub fn close(&mut self, role: u32, closer: &Closer) {
        self.close_where(closer, |_| true, role);
    }

    /// Whether a role's events come.
    fn is_on(&self, role: u32) -> bool {
        let mut decoders = self.opened.decoders.iter().rev();
        let latest = decoders.find(|decoder| decoder.roles.iter().any(|(one, _)| *one == role));
        latest.is_some_and(|decoder| !decoder.off.contains(&role))
    }

    fn serves(&self, open: &Open, role: u32) -> bool {
        self.opened.decoders[open.opening].roles.iter().any(|(one, _)| *one == role)
    }

    fn close_where(&mut self, closer: &Closer, chosen: impl Fn(&Open) -> bool, role: u32) {
        let mut kept = Vec::with_capacity(self.opened.events.len());
        let mut closed = Vec::new();
        for open in std::mem::take(&mut self.opened.events) {
            if chosen(&open) && self.serves(&open, role) {
                // As in `disable`: it may have gone with its CPU.
                let _ = open.event.disable();
                let lost = open.event.lost().unwrap_or(0);
                let mut rings = self.opened.rings.iter_mut();
                if let Some(ring) = rings.find(|ring| ring.cpu == open.cpu) {
                    ring.lost_of_closed += lost;
                }
                closed.push(open.event);
            } else {
                kept.push(open);
            }
        }
        self.opened.events = kept;
        closer.close(closed);
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
    /// There is no further thread to be had.
    pub fn start(told: impl FnOnce() + Send + 'static) -> std::io::Result<Closer> {
        let (events, closing) = mpsc::channel::<Vec<Event>>();
        let work = move || {
            signal::keep_off_this_thread();
            told();
            closing.iter().for_each(drop);
        };
        let thread = std::thread::Builder::new().name("close".to_owned()).spawn(work)?;
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
