//! Handling of what a source yields at a prompt: as in a run, with the cost of handlers measured,
//! for a limited time.

use std::time::Duration;

use super::Prompt;
use super::meter::Spent;
use crate::base::event::chain::ChainBuilder;
use crate::source::{Batch, SideBand, Sink, UserStack};
use crate::sys::clock::thread_cpu_ns;

impl Prompt {
    /// Returns the cost of a role's handler.
    pub fn spent(&self, role: usize) -> Spent {
        self.meter.of(role)
    }

    /// Returns whether a role's handler was switched off because it failed.
    pub fn has_failed(&self, role: usize) -> bool {
        self.host.dispatch.is_off(role)
    }
}

impl Sink for Prompt {
    unsafe fn dispatch(&mut self, batch: &mut Batch) {
        let meter = &mut self.meter;
        self.host.pass(batch, |host, batch, runs| {
            let begun = thread_cpu_ns();
            host.handle(batch, runs);
            let spent = thread_cpu_ns().saturating_sub(begun);
            meter.add(batch.slots(), Duration::from_nanos(spent));
        });
    }

    fn side(&mut self, side: SideBand<'_>) {
        self.host.side(side);
    }

    fn handed_over(&mut self, until_ns: u64) {
        self.host.set_handled(until_ns);
    }

    fn unwind(&mut self, stack: &UserStack<'_>, frames: &mut ChainBuilder<'_>) {
        self.host.unwind(stack, frames);
    }

    fn process_of(&self, tid: u32) -> Option<u32> {
        self.host.process_of(tid)
    }

    fn stopped(&self) -> bool {
        self.is_late() || self.host.stopped()
    }
}
