//! Counts of what a run has seen and missed.

use super::Host;
use crate::base::report::coverage::Coverage;

impl Host {
    /// Returns the number of the script's failures so far.
    pub fn errors(&self) -> u64 {
        self.dispatch.errors()
    }

    /// Returns what was seen and missed so far. `lost` is the kernel's own count, if there is one:
    /// it includes losses at the end, which no record reports.
    pub fn coverage(&self, lost: Option<u64>) -> Coverage {
        let open = self.aggregates.counts();
        let filtered = self.dispatch.filtered(0..usize::from(u16::MAX) + 1);
        Coverage {
            events: self.coverage.events.saturating_sub(filtered),
            filtered,
            lost: lost.unwrap_or(self.coverage.lost),
            unmatched: open.unmatched,
            unsafe_: open.unsafe_,
            exited: open.exited,
            evicted: open.evicted + self.dropped_events(),
            disordered: open.disordered,
            undefined: self.state.borrow().undefined.get() as u64,
            clamped: open.clamped,
            starts: open.starts,
            open: open.open,
            errors: self.dispatch.errors(),
            ..self.coverage
        }
    }

    /// Returns how much the parts that all monitors of the host share have evicted.
    pub(super) fn shared_evictions(&self) -> u64 {
        self.aggregates.evicted_texts() + self.dropped_events()
    }

    /// Returns how many events the history and the sources of events have dropped.
    fn dropped_events(&self) -> u64 {
        self.forgotten() + self.context.with(|context| context.derived.dropped())
    }

    /// Returns the number of starts of relations without any end, if the ends may be of other
    /// tasks.
    pub fn starts_without_any_end(&self) -> u64 {
        self.aggregates.starts_without_any_end()
    }
}
