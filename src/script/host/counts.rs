//! Counts by key that the kernel does for the script.

use std::ops::Range;

use mlua::Function;

use super::Host;
use crate::script::evsel::role::DeclaredCount;
use crate::source::counted_chain::CountedChain;
use crate::source::counted_row::CountedRow;

impl Host {
    /// Returns the counts that the script declared and whose events have no other handler, each
    /// with its roles.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn declared_counts(&self) -> mlua::Result<Vec<(DeclaredCount, Range<usize>)>> {
        let only_counts: Function = self.dispatch.exports().get("only_counts")?;
        let state = self.state.borrow();
        let evsels = state.evsels.borrow();
        let mut counts = Vec::new();
        for count in &evsels.counts {
            if only_counts.call::<bool>(count.evsel)? {
                counts.push((count.clone(), evsels.indexes_of(count.evsel)));
            }
        }
        Ok(counts)
    }

    /// Returns the number of sums of a table, and whether its rows have names.
    pub fn shape_of_counts(&self, table: usize) -> Option<(usize, bool)> {
        self.aggregates.shape_of_counts(table)
    }

    /// Returns the number of events received so far, those that the kernel has counted included.
    pub fn received(&self) -> u64 {
        self.coverage.events
    }

    /// Adds a row that the kernel has counted. With `is_further`, its events are also counted
    /// elsewhere.
    pub fn add_counted(&mut self, table: usize, row: &CountedRow<'_>, is_further: bool) {
        if !is_further {
            self.coverage.events += row.count;
            self.aggregates.count_events(table, row.count);
        }
        if row.key.is_none() {
            self.note_full_table();
        }
        if row.has_truncated_chain() {
            self.coverage.truncated += row.count;
        }
        let context = &self.context;
        let stack_of = |chain: Option<&CountedChain>| {
            context.with(|all| all.stack_of_counted(chain, row.count))
        };
        self.aggregates.add_counted(table, row, &stack_of);
    }

    /// Prepares for rows with addresses of processes, which arrive after their events.
    pub fn expect_counted_chains(&self) {
        if let Some(programs) = self.context.programs() {
            programs.borrow_mut().spaces.set_late_lookups(true);
        }
    }

    /// Returns the time up to which all records were handled (`CLOCK_MONOTONIC`).
    pub fn handled_ns(&self) -> u64 {
        self.context.with(|context| context.handled_ns)
    }
}
