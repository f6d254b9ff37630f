//! Handling of what a source yields for several monitors: as in a run, with the events of each role
//! counted.

use super::ServedMonitors;
use crate::base::event::chain::ChainBuilder;
use crate::source::{Batch, SideBand, Sink, UserStack};

impl Sink for ServedMonitors {
    unsafe fn dispatch(&mut self, batch: &mut Batch) {
        let events = &mut self.events;
        self.host.pass(batch, |host, batch, runs| {
            host.handle(batch, runs);
            for slot in batch.slots().iter().filter(|slot| !host.is_written(slot.ev)) {
                if let Some(count) = events.get_mut(usize::from(slot.ev)) {
                    *count += 1;
                }
            }
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
        self.host.stopped()
    }
}
