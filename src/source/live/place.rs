//! Opens further events during a run, or shares those that are open.

use std::sync::Arc;

use super::Live;
use crate::source::open::open_event;
use crate::source::open::probe_limit::{allow, probes_of};
use crate::source::open::thread_list::ThreadList;
use crate::source::open::{braces, ensure_no_interrupt};
use crate::source::request::{Opening, SourceRequest};
use crate::sys::attr::EVERY_TASK;
use crate::sys::bpf::OutputArray;

impl Live {
    /// Opens the events of all openings, disabled, with their groups and probes.
    pub(super) fn place_all(
        &mut self,
        mut openings: Vec<Opening>,
        request: &SourceRequest,
    ) -> anyhow::Result<()> {
        let remarks = braces::resolve(&mut openings, request)?;
        let is_open: Vec<bool> = openings.iter().map(|one| self.like(one).is_some()).collect();
        let arrays = self.opened.links.attach(&openings, request, &is_open);
        let new = openings.iter().zip(&arrays).zip(&is_open).filter(|(_, open)| !**open);
        let remark = allow(self.probes(), probes_of(new.map(|(one, _)| one)))?;
        self.opened.remarks.extend(remarks);
        let (was_reported, refused) = (self.are_cgroups_reported(), self.opened.refused.len());
        let placed = self.place(&openings, &arrays, request)?;
        self.begin_to_follow_if_changed(was_reported);
        if let Err(why) = self.opened.report_omitted(&self.openings) {
            self.undo(&openings, &placed, refused);
            return Err(why);
        }
        self.opened.remarks.extend(remark);
        Ok(())
    }

    /// Opens the events of these openings, disabled, unless equivalent ones are open. Returns the
    /// indices of the openings.
    pub(super) fn place(
        &mut self,
        openings: &[Opening],
        arrays: &[Option<Arc<OutputArray>>],
        request: &SourceRequest,
    ) -> anyhow::Result<Vec<usize>> {
        // The command is running by now, so no exec enables these events.
        let request = SourceRequest { workload: false, ..request.clone() };
        let refused = self.opened.refused.len();
        let followed = self.tasks.iter().filter(|_| request.tasks.is_some());
        let followed = followed.flat_map(|tasks| tasks.living().map(u32::cast_signed)).collect();
        let mut list = ThreadList::new(openings, &request, followed)?;
        loop {
            let mut placed = Vec::with_capacity(openings.len());
            let outcome = openings.iter().zip(arrays).try_for_each(|(opening, array)| {
                ensure_no_interrupt()?;
                placed.push(self.place_one(opening, array.clone(), list.threads(), &request)?);
                Ok(())
            });
            let may_watch_cpus = self.opened.owner_tid == EVERY_TASK;
            let again = outcome.and_then(|()| list.list_again(may_watch_cpus));
            if again.as_ref().is_ok_and(|again| !again) {
                self.opened.remarks.extend(list.into_remark());
                return Ok(placed);
            }
            self.undo(openings, &placed, refused);
            again?;
        }
    }

    fn place_one(
        &mut self,
        opening: &Opening,
        linked: Option<Arc<OutputArray>>,
        threads: Option<&[i32]>,
        request: &SourceRequest,
    ) -> anyhow::Result<usize> {
        if let Some(at) = self.like(opening) {
            return Ok(self.join(at, opening));
        }
        // Without IDs, its samples would be taken for those of the first opening.
        assert!(self.openings.iter().all(|opening| opening.parts.id));
        let off = opening.named().collect();
        let (at, events) = (self.openings.len(), self.opened.events.len());
        let request = SourceRequest { off, ..request.clone() };
        if let Err(why) = open_event(&mut self.opened, (at, opening, linked), &request, threads) {
            self.opened.close_since(events);
            self.opened.decoders.truncate(at);
            self.opened.filters.truncate(at);
            return Err(why);
        }
        self.slots_per_record = self.slots_per_record.max(opening.slots());
        self.openings.push(opening.clone());
        if opening.follows_cgroups {
            self.turn(at, true)?;
        }
        Ok(at)
    }

    /// Returns the index of an opening with open events that write exactly what this opening's
    /// would.
    fn like(&self, opening: &Opening) -> Option<usize> {
        let checks = opening.roles.iter().any(|served| served.own_filter.is_some());
        if checks || opening.sampling.count || opening.pairs.is_some() {
            return None;
        }
        let is_like = |other: &Opening| {
            // Compares events, not names: a function of that name may be in another file by now.
            other.event == opening.event
                && other.sampling == opening.sampling
                && other.parts == opening.parts
                && other.follows_cgroups == opening.follows_cgroups
                && other.filter == opening.filter
                && other.pairs.is_none()
        };
        let is_open = |at| self.opened.events.iter().any(|open| open.opening == at);
        let takes_more = |at: usize| self.opened.decoders[at].takes_more() && is_open(at);
        let all = self.openings.iter().enumerate();
        all.filter(|(_, other)| is_like(other)).map(|(at, _)| at).find(|&at| takes_more(at))
    }

    fn join(&mut self, at: usize, opening: &Opening) -> usize {
        let decoder = &mut self.opened.decoders[at];
        decoder.recipients.extend(opening.recipients());
        decoder.update_plain();
        self.slots_per_record = self.slots_per_record.max(decoder.recipients.len());
        at
    }

    /// Undoes [`Live::place`]; `refused` is the number of refused conditions before it.
    pub(super) fn undo(&mut self, openings: &[Opening], placed: &[usize], refused: usize) {
        for (&at, opening) in placed.iter().zip(openings) {
            let decoder = &mut self.opened.decoders[at];
            let kept = decoder.recipients.len() - opening.roles.len();
            decoder.recipients.truncate(kept);
            decoder.update_plain();
            if !decoder.is_on() {
                // The caller reports another error, or opens the events again.
                let _ = self.turn(at, false);
            }
        }
        self.opened.refused.truncate(refused);
        self.opened.omitted.clear();
        drop(self.close_unused());
    }
}
