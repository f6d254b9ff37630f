//! The history of a run: events before their handlers run, and windows that wait to be printed.

use anyhow::ensure;

use super::Host;
use crate::script::context::record::remember;
use crate::source::Batch;

impl Host {
    /// Copies the events of a batch that is about to be handled.
    pub(in crate::script) fn remember(&mut self, batch: &Batch) {
        let Some(past) = self.aggregates.past() else { return };
        let mut history = past.borrow_mut();
        history.begin_batch(batch.slots());
        let mut at = 0;
        loop {
            at = self.context.with(|context| remember(context, batch, at, &mut history));
            if at == batch.len() {
                return;
            }
            let room = history.room(self.asked_from(batch));
            self.aggregates.rescue(&history, room);
            history.turn(room);
        }
    }

    /// Returns the time from which on events may still be requested, in nanoseconds of the run.
    /// Without order, as at a prompt, an open state may be older than one that was opened before
    /// it.
    fn asked_from(&self, batch: &Batch) -> f64 {
        let (before, from) = self.context.with(|context| (context.past.before, context.past.from));
        let first = batch.slots().first().filter(|_| self.ordered);
        let first = first.map_or(f64::NEG_INFINITY, |slot| slot.time);
        from.min(self.aggregates.oldest_time().min(first) - before)
    }

    /// Checks that a script that looks back gets events in order of time; without order, some
    /// events between two others come later and would be missing.
    ///
    /// # Errors
    /// The run has a history and is not ordered.
    pub(in crate::script) fn check_order(&self) -> anyhow::Result<()> {
        let looks_back = self.looks_back();
        let (what, other) = match self.rules.order {
            Some(_) => ("--no-order", "--detail"),
            None => ("order = false", "history()"),
        };
        ensure!(
            self.ordered || !looks_back,
            "{what}: {other} needs events in time order; omit one of the two"
        );
        Ok(())
    }

    /// Returns whether the script looks back at events before the one that it handles.
    pub fn looks_back(&self) -> bool {
        self.context.with(|context| context.looks_back())
    }

    /// Returns whether the script relates events: by state that it keeps, or by looking back.
    pub(in crate::script) fn has_state(&self) -> bool {
        self.aggregates.has_state() || self.looks_back()
    }

    /// Prints the windows whose last event came before `time`.
    pub(in crate::script) fn print_waiting(&mut self, time: f64) {
        if self.context.with(|context| context.past.due) >= time {
            return;
        }
        if let Err(why) = self.dispatch.print_waiting(&self.guard, time) {
            self.failed(&why.to_string());
        }
    }

    /// Prints the complete windows before a report, and at the end also those that still wait.
    pub(in crate::script) fn print_waiting_before_report(&mut self) {
        let now = self.context.with(|context| context.now);
        self.print_waiting(if self.finishing { f64::INFINITY } else { now });
    }

    /// Returns how many requested events were evicted, and windows that could not wait.
    pub(in crate::script) fn forgotten(&self) -> u64 {
        self.context.with(|context| context.past.evicted)
    }
}
