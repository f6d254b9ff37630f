//! Adds and removes events during a run. The rings stay, since the dummy events own them.
//!
//! A filter can be set only once per event, so a new filter needs a new event. It is opened into
//! the same ring. The role takes the records of the old event up to a moment at which both are
//! enabled, and those of the new one from then on. Records that the old event wrote are still
//! handled by its own decoder, which stays.
//!
//! A role that requests what another role's event already writes shares that event: writing the
//! same record twice would cost the kernel twice as much.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Sender};
use std::{io, iter};

use super::Live;
use crate::source::open::open_event::OpenEvent;
use crate::source::request::{Opening, RefusedCondition, SourceRequest};
use crate::source::ring::decoder::{Recipient, TimeSpan};
use crate::sys::clock::monotonic_ns;
use crate::sys::perf::PerfEvent;
use crate::sys::refusal::Refusal;
use crate::sys::{signal, threads};

impl Live {
    /// Opens further events, turned off, for roles up to `roles`. Returns the conditions that the
    /// kernel did not filter. If one event is refused, none stays open.
    ///
    /// # Errors
    /// The kernel refuses an event or a filter, or too many probes would be open.
    pub fn add(
        &mut self,
        openings: Vec<Opening>,
        request: &SourceRequest,
        roles: usize,
    ) -> anyhow::Result<Vec<RefusedCondition>> {
        let refused = self.opened.refused.len();
        self.place_all(openings, request)?;
        self.batch.set_roles(roles);
        Ok(self.opened.refused.split_off(refused))
    }

    /// Replaces a role's events with those of `openings`; no record is handled twice or lost.
    /// Returns the conditions that the kernel does not filter.
    ///
    /// # Errors
    /// The kernel refuses the new events; the old ones then stay.
    pub fn renew(
        &mut self,
        role: u32,
        openings: &[Opening],
        request: &SourceRequest,
        closer: &Closer,
    ) -> anyhow::Result<Vec<RefusedCondition>> {
        let on = self.is_on(role);
        let refused = self.opened.refused.len();
        let was_reported = self.are_cgroups_reported();
        let arrays = vec![None; openings.len()];
        let placed = self.place(openings, &arrays, request)?;
        // All at once: the old and the new events both write meanwhile.
        if on && let Err(why) = placed.iter().try_for_each(|at| self.turn(*at, true)) {
            self.undo(openings, &placed, refused);
            return Err(why.into());
        }
        self.begin_to_follow_if_changed(was_reported);
        self.opened.groups.enable()?;
        let now = monotonic_ns();
        for &at in &placed {
            let decoder = &mut self.opened.decoders[at];
            if let Some(recipient) = decoder.recipients.last_mut().filter(|_| on) {
                recipient.span = TimeSpan::since(now);
            }
            decoder.update_plain();
        }
        closer.close(self.remove_role(role, &placed, now));
        Ok(self.opened.refused.split_off(refused))
    }

    /// Returns whether a role takes records now.
    pub fn is_on(&self, role: u32) -> bool {
        self.opened.decoders.iter().any(|decoder| decoder.is_on_for(role))
    }

    /// Removes the events of a role permanently.
    pub fn close(&mut self, role: u32, closer: &Closer) {
        closer.close(self.remove_role(role, &[], monotonic_ns()));
    }

    /// Turns the events of roles on or off; an event that also serves other roles stays on for
    /// them. A role that is turned on takes records written after all of these events are enabled
    /// on all CPUs, and those of its previous span that the rings still hold.
    ///
    /// # Errors
    /// The kernel refuses to enable or disable an event.
    pub fn switch(&mut self, states: &BTreeMap<u32, bool>) -> io::Result<()> {
        if states.is_empty() {
            return Ok(());
        }
        let state = |recipient: &Recipient| {
            states.get(&recipient.role).copied().filter(|_| !recipient.gone)
        };
        for (at, decoder) in self.opened.decoders.iter().enumerate() {
            let on = decoder.recipients.iter().any(|one| state(one).unwrap_or(one.is_on()));
            if decoder.cgroup.is_none() && on != decoder.is_on() {
                self.turn(at, on)?;
            }
        }
        self.opened.groups.enable()?;
        let now = monotonic_ns();
        for decoder in &mut self.opened.decoders {
            let mut before = Vec::new();
            for recipient in &mut decoder.recipients {
                match state(recipient) {
                    // Without times, the recipient also takes what remains of the span before.
                    Some(true) if !recipient.is_on() && decoder.time_at.is_none() => {
                        recipient.span = TimeSpan::since(0);
                    }
                    Some(true) if !recipient.is_on() => {
                        before.push(recipient.of_previous_span());
                        recipient.span = TimeSpan::since(now);
                    }
                    Some(false) if recipient.is_on() => recipient.span.to = now,
                    _ => {}
                }
            }
            before.retain(|recipient| recipient.span != TimeSpan::NEVER);
            self.has_removed_roles |= !before.is_empty();
            decoder.recipients.extend(before);
            decoder.update_plain();
        }
        self.choose_cpu_times();
        Ok(())
    }

    pub(super) fn begin_to_follow_if_changed(&mut self, was_reported: bool) {
        if self.are_cgroups_reported() != was_reported {
            self.begin_to_follow();
        }
    }

    pub(super) fn turn(&self, at: usize, on: bool) -> io::Result<()> {
        let on = on && !self.opened.decoders[at].waits(self.is_paused);
        let mut events = self.opened.events.iter().filter(|open| open.opening == at);
        events.try_for_each(|open| if on { open.event.enable() } else { open.event.disable() })
    }

    /// Removes a role from all its openings except those of `but`; it still takes what was written
    /// up to `now`. Returns the events that no role needs any more.
    fn remove_role(&mut self, role: u32, but: &[usize], now: u64) -> Vec<PerfEvent> {
        for (at, decoder) in self.opened.decoders.iter_mut().enumerate() {
            if but.contains(&at) || !decoder.serves(role) {
                continue;
            }
            for recipient in
                decoder.recipients.iter_mut().filter(|recipient| recipient.role == role)
            {
                recipient.span.to = recipient.span.to.min(now);
                recipient.gone = true;
            }
            decoder.update_plain();
            self.has_removed_roles = true;
        }
        self.choose_cpu_times();
        self.close_unused()
    }

    pub(super) fn close_unused(&mut self) -> Vec<PerfEvent> {
        let was_reported = self.are_cgroups_reported();
        let decoders = &self.opened.decoders;
        // The events that follow threads are needed while another one is about other threads.
        let mut recipients = decoders.iter().flat_map(|decoder| &decoder.recipients);
        let follows = recipients.any(|recipient| recipient.about.is_some() && !recipient.gone);
        let is_left = |open: &OpenEvent| match &decoders[open.opening] {
            decoder if decoder.cgroup.is_some() => !follows,
            decoder => !decoder.is_wanted(),
        };
        let (left, kept): (Vec<OpenEvent>, Vec<OpenEvent>) =
            std::mem::take(&mut self.opened.events).into_iter().partition(is_left);
        self.opened.events = kept;
        for open in &left {
            if self.opened.groups.leave(open) {
                // As in `disable`: the event may have gone with its CPU.
                let _ = open.event.disable();
            }
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
        self.begin_to_follow_if_changed(was_reported);
        let holders = self.opened.detach_unused();
        let closed = left.into_iter().flat_map(|open| iter::once(open.event).chain(open.members));
        closed.chain(holders).collect()
    }

    /// Removes roles that have left and whose records, up to `until` of the event clock, have been
    /// handled.
    pub(super) fn drop_removed_roles(&mut self, until: u64) {
        for decoder in &mut self.opened.decoders {
            decoder.recipients.retain(|recipient| !recipient.gone || recipient.span.to > until);
            decoder.update_plain();
        }
        let mut recipients = self.opened.decoders.iter().flat_map(|decoder| &decoder.recipients);
        self.has_removed_roles = recipients.any(|recipient| recipient.gone);
    }
}

/// A thread that closes events: the last close of a tracepoint takes about 35 ms, during which a
/// ring may overflow.
#[derive(Debug)]
pub struct Closer {
    events: Option<Sender<Vec<PerfEvent>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Closer {
    /// Starts the thread. It calls `on_start` first, so that the thread can be excluded from the
    /// run.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(on_start: impl FnOnce() + Send + 'static) -> Result<Closer, Refusal> {
        let (events, closing) = mpsc::channel::<Vec<PerfEvent>>();
        let work = move || {
            signal::keep_off_this_thread();
            on_start();
            closing.iter().for_each(drop);
        };
        let thread = threads::start("perilune:close", work)?;
        Ok(Closer { events: Some(events), thread: Some(thread) })
    }

    /// Closes the events in the background.
    pub fn close(&self, events: Vec<PerfEvent>) {
        if let Some(closing) = &self.events {
            // If the thread is gone, the error returns the events, and dropping it closes them
            // here.
            let _ = closing.send(events);
        }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.events = None;
        // The thread ends after closing the events that it received; a panic in it has been
        // reported.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}
