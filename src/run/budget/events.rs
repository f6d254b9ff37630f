//! The events that a budget thins: records of a part of them are written, or the kernel counts them
//! for a part of the time.

use super::controller::Controller;
use crate::run::kernel_counts::KernelCounts;
use crate::source::counts::{CpuEvents, SwitchedEvents, Tally};
use crate::source::live::Live;

/// The events of a run, recorded or all counted in the kernel.
pub(in crate::run) struct ThinnedEvents<'a> {
    /// The source of records; it has the clock of the run.
    pub(in crate::run) live: &'a mut Live,
    /// The counts of the kernel.
    pub(in crate::run) counts: &'a mut KernelCounts,
}

impl ThinnedEvents<'_> {
    /// Returns whether the kernel counts them.
    pub(super) fn are_counted(&self) -> bool {
        self.counts.are_thinned()
    }

    /// Returns the numbers of events so far; those that the kernel counts are samples.
    pub(super) fn tally(&self) -> Tally {
        if !self.are_counted() {
            return self.live.tally();
        }
        let CpuEvents { all, sampled } = CpuEvents::sum(&self.counts.runs_by_cpu());
        Tally { events: all, samples: sampled, ..Tally::default() }
    }

    /// Returns the number of recorded system calls that cost something while their events are off.
    pub(super) fn system_calls(&self) -> u64 {
        if self.are_counted() { 0 } else { self.live.system_calls() }
    }

    /// Switches the events on or off. Returns the moment.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(super) fn switch(&mut self, on: bool) -> anyhow::Result<SwitchedEvents> {
        match self.are_counted() {
            true => self.counts.switch(on),
            false => Ok(self.live.switch_thinned(on)),
        }
    }

    /// Sets the prices of the controller to what counting an event costs, if that was measured.
    pub(super) fn reprice(&mut self, controller: &mut Controller) {
        if let Some((ns, share)) = self.counts.take_price() {
            controller.set_prices(controller.prices().scaled_to(ns, share));
        }
    }

    /// Gives records before a time of the event clock no weight.
    pub(super) fn measure_from(&self, time: u64) {
        self.live.measure_from(time);
    }

    /// Returns whether records or keys fill so much of their room that they must be read.
    pub(super) fn need_room(&self) -> bool {
        self.live.is_half_full() || self.counts.need_room()
    }
}
