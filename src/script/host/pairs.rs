//! Pairs of events that the kernel measures for the script.

use std::ops::Range;

use mlua::Function;

use super::Host;
use crate::script::aggregate::PairLosses;
use crate::script::evsel::declared_pairs::{DeclaredPairs, PairSide};
use crate::source::Batch;
use crate::source::counting::pair_rows::{DelayRow, OpenStart, PairRow};

impl Host {
    /// Returns the pairs that the script declared and whose events have no other handler.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn declared_pairs(&self) -> mlua::Result<Vec<DeclaredPairs>> {
        let only_counts: Function = self.dispatch.exports().get("only_counts")?;
        let state = self.state.borrow();
        let evsels = state.evsels.borrow();
        let mut all = Vec::new();
        for pairs in &evsels.pairs {
            if pairs.sides().try_fold(true, |only, side| {
                mlua::Result::Ok(only && only_counts.call::<bool>(side.evsel)?)
            })? {
                all.push(pairs.clone());
            }
        }
        Ok(all)
    }

    /// Makes the handlers of these pairs take the long pairs that the kernel writes, instead of
    /// events.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn take_written(&mut self, pairs: &DeclaredPairs) -> anyhow::Result<()> {
        let roles = self.roles();
        let taker: Function = self.dispatch.exports().get("take_written")?;
        let written: Vec<usize> = pairs.sides().flat_map(|side| self.roles_of_side(side)).collect();
        for role in written {
            self.dispatch.renew(role, Some(taker.clone()), &roles)?;
            self.dispatch.written.insert(role);
        }
        Ok(())
    }

    /// Returns whether the kernel counts the events of a role and writes some of them.
    pub(in crate::script) fn is_written(&self, role: u16) -> bool {
        self.dispatch.written.contains(&usize::from(role))
    }

    /// Returns the number of a batch's events that the kernel has counted, handled or not.
    pub(super) fn written_slots(&self, batch: &Batch) -> u64 {
        match self.dispatch.written.is_empty() {
            true => 0,
            false => batch.slots().iter().filter(|slot| self.is_written(slot.ev)).count() as u64,
        }
    }

    /// Returns whether a histogram can contain delays that the kernel has counted by bucket.
    pub fn counts_delays(&self, histogram: usize) -> bool {
        self.aggregates.counts_delays(histogram)
    }

    /// Returns the roles of an event of pairs.
    pub fn roles_of_side(&self, side: &PairSide) -> Range<usize> {
        self.state.borrow().evsels.borrow().indexes_of(side.evsel)
    }

    /// Adds a row of pairs that the kernel has measured.
    pub fn add_pairs(&mut self, pairs: &DeclaredPairs, row: &PairRow<'_>) {
        if let PairRow::Delays(delays) = row {
            self.coverage.events += delays.count;
            self.aggregates.count_events(pairs.target_number(), delays.count);
        }
        if let PairRow::Delays(DelayRow { key: None, .. }) | PairRow::Count { key: None, .. } = row
        {
            self.note_full_table();
        }
        self.aggregates.add_pairs(pairs, row);
    }

    /// Adds starts that the kernel took and dropped, and `events` besides those of recorded delays.
    pub fn add_pair_losses(&mut self, pairs: &DeclaredPairs, losses: &PairLosses, events: u64) {
        self.coverage.events += events;
        self.aggregates.count_events(pairs.target_number(), events);
        self.aggregates.add_pair_losses(pairs, losses);
    }

    /// Adds a start without an end, with its time in nanoseconds of the run.
    pub fn add_open_start(&mut self, pairs: &DeclaredPairs, of: &OpenStart<'_>, time: f64) {
        self.aggregates.add_open(pairs, of, time);
    }
}
