//! All open rings and events of a run, and how their records are decoded.

use super::function_links::FunctionLinks;
use super::groups::CounterGroups;
use super::omitted::OmittedEvents;
use super::open_event::OpenEvent;
use super::user_text::UserTextPrograms;
use crate::decode::sample::RecordLayout;
use crate::source::request::{Opening, RefusedCondition};
use crate::source::ring::cpu_ring::CpuRing;
use crate::source::ring::decoder::Decoder;
use crate::source::ring::ids::Ids;
use crate::sys::perf::PerfEvent;

/// All open rings and events.
pub(in crate::source) struct OpenedSource {
    pub(in crate::source) rings: Vec<CpuRing>,
    /// Task of the dummies that own the rings.
    pub(in crate::source) owner_tid: i32,
    /// Filter that the kernel has, for each opening.
    pub(in crate::source) filters: Vec<Option<String>>,
    pub(in crate::source) events: Vec<OpenEvent>,
    pub(in crate::source) decoders: Vec<Decoder>,
    pub(in crate::source) ids: Ids,
    /// BPF programs that write the records of openings.
    pub(in crate::source) programs: UserTextPrograms,
    /// BPF links of many functions.
    pub(in crate::source) links: FunctionLinks,
    /// Groups in which counters are read.
    pub(in crate::source) groups: CounterGroups,
    pub(in crate::source) side_layout: RecordLayout,
    /// Remarks for the user about how the events were opened.
    pub(in crate::source) remarks: Vec<String>,
    /// Conditions that the kernel refused to filter.
    pub(in crate::source) refused: Vec<RefusedCondition>,
    /// Refused events of globs that have not been reported yet.
    pub(in crate::source) omitted: OmittedEvents,
}

impl OpenedSource {
    /// Returns the events whose records report the control groups of threads.
    pub(in crate::source) fn membership_events(&self) -> impl Iterator<Item = &OpenEvent> {
        self.events.iter().filter(|open| self.decoders[open.opening].cgroup.is_some())
    }

    /// Closes all events except the first `kept`.
    pub(in crate::source) fn close_since(&mut self, kept: usize) {
        for open in self.events.drain(kept..) {
            self.groups.leave(&open);
        }
        drop(self.detach_unused());
    }

    /// Removes the programs of openings without events. Returns the events that hold them.
    pub(in crate::source) fn detach_unused(&mut self) -> Vec<PerfEvent> {
        let events = &self.events;
        self.programs.close_unused(|at| events.iter().any(|open| open.opening == at))
    }

    /// Adds a remark, unless there is the same.
    pub(in crate::source) fn remark(&mut self, remark: Option<String>) {
        self.remarks.extend(remark.filter(|remark| !self.remarks.contains(remark)));
    }

    /// Adds a remark for each glob and reason with the omitted events.
    ///
    /// # Errors
    /// The first refusal of a glob, if all its events were refused.
    pub(in crate::source) fn report_omitted(&mut self, openings: &[Opening]) -> anyhow::Result<()> {
        let events = &self.events;
        let remarks = self.omitted.take_remarks(|glob| {
            let mut open = events.iter().map(|open| &openings[open.opening]);
            open.any(|opening| opening.glob.as_ref() == Some(glob))
        })?;
        self.remarks.extend(remarks);
        Ok(())
    }
}
