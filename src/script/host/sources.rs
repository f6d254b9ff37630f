//! Monitors whose events another one takes: their handlers run first, and what they emit replaces
//! their own events in the batch.

use super::Host;
use crate::base::event::slot::{BATCH, Slot};
use crate::source::Batch;

impl Host {
    /// Passes a batch to `handle`, which calls the handlers of a batch of this many runs. Handlers
    /// of sources are called first; their events are not passed on, only those that they emit.
    ///
    /// The batch is then another one: its slots are good until the next call.
    pub(in crate::script) fn pass(
        &mut self,
        batch: &mut Batch,
        handle: impl FnMut(&mut Host, &Batch, usize),
    ) {
        let (before, written) = (self.coverage.events, self.written_slots(batch));
        self.pass_slots(batch, handle);
        let handled = self.coverage.events - before;
        self.coverage.events -= written.min(handled);
    }

    fn pass_slots(&mut self, batch: &mut Batch, mut handle: impl FnMut(&mut Host, &Batch, usize)) {
        if self.deepest_source() == 0 {
            let Some(runs) = self.prepare(batch) else { return };
            handle(self, batch, runs);
            self.conclude(batch);
            return;
        }
        let Some(last) = batch.slots().last().map(|slot| slot.time) else { return };
        if self.satisfied() {
            return;
        }
        self.context.with(|context| context.derived.begin_batch());
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        slots.extend_from_slice(batch.slots());
        let depths = self.state.borrow().evsels.borrow().sources.depths();
        for depth in (1..=self.deepest_source()).rev() {
            self.derive(batch, &mut slots, last, &mut handle, |slot| {
                depths.get(usize::from(slot.ev)) == Some(&depth)
            });
        }
        for part in slots.chunks(BATCH) {
            batch.replace(part.iter().copied());
            let Some(runs) = self.prepare(batch) else { break };
            handle(self, batch, runs);
            self.conclude(batch);
        }
        if slots.is_empty() {
            batch.truncate(0);
            self.conclude(batch);
        }
        self.set_now(last);
        self.print_waiting(last);
        self.slots = slots;
    }

    /// Replaces the slots of sources by those of the events that they emit.
    fn derive(
        &mut self,
        batch: &mut Batch,
        slots: &mut Vec<Slot>,
        last: f64,
        handle: &mut impl FnMut(&mut Host, &Batch, usize),
        is_of_source: impl Fn(&Slot) -> bool,
    ) {
        let positions = slots.iter().enumerate().filter(|(_, slot)| is_of_source(slot));
        let positions: Vec<usize> = positions.map(|(position, _)| position).collect();
        if positions.is_empty() {
            return;
        }
        let mut made: Vec<(usize, Slot)> = Vec::new();
        for part in positions.chunks(BATCH) {
            batch.replace(part.iter().map(|position| slots[*position]));
            let runs = if self.ordered { batch.runs_in_order() } else { batch.runs_by_role() };
            self.set_now(last);
            // Only events that reach the script itself count for -N.
            if self.dispatch.chooses()
                && let Err(why) = self.dispatch.limit(u64::MAX)
            {
                self.failed(&why.to_string());
            }
            self.context.with(|context| context.derived.begin(batch));
            handle(self, batch, runs);
            let new = self.context.with(|context| context.derived.take());
            made.extend(new.into_iter().map(|(at, slot)| (part[at], slot)));
        }
        let (mut made, mut merged) = (made.into_iter().peekable(), Vec::with_capacity(slots.len()));
        for (position, slot) in slots.iter().enumerate() {
            if !is_of_source(slot) {
                merged.push(*slot);
            }
            while let Some((_, new)) = made.next_if(|(at, _)| *at == position) {
                merged.push(new);
            }
        }
        *slots = merged;
    }

    pub(super) fn deepest_source(&self) -> u8 {
        self.state.borrow().evsels.borrow().sources.deepest()
    }

    /// Begins the declarations of the loaded monitor.
    pub(super) fn begin_sources(&self) {
        if let Some(monitor) = &self.monitor {
            self.begin_sources_of(&monitor.name);
        }
    }

    /// Begins the declarations of a monitor.
    pub(in crate::script) fn begin_sources_of(&self, monitor: &str) {
        self.sums.undrawn.set(false);
        self.state.borrow().evsels.borrow_mut().sources.begin_script(monitor);
    }

    /// Returns whether a source needs its events in order of time.
    pub(super) fn sources_need_order(&self) -> bool {
        self.state.borrow().evsels.borrow().sources.ordered
    }

    /// Returns the smallest `--watermark` of the sources, in percent.
    pub fn watermark(&self) -> Option<u8> {
        self.state.borrow().evsels.borrow().sources.watermark
    }
}
