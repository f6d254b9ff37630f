//! Counts of what a run has seen and missed.

use super::Host;
use crate::base::report::coverage::Coverage;

impl Host {
    /// Returns what was seen and missed so far. `lost` is the kernel's own count, if there is one:
    /// it includes losses at the end, which no record reports.
    pub fn coverage(&self, lost: Option<u64>) -> Coverage {
        let open = self.aggregates.counts();
        let filtered = self.dispatch.filtered();
        Coverage {
            events: self.coverage.events.saturating_sub(filtered),
            filtered,
            lost: lost.unwrap_or(self.coverage.lost),
            unmatched: open.unmatched,
            unsafe_: open.unsafe_,
            exited: open.exited,
            evicted: open.evicted
                + self.forgotten()
                + self.context.with(|context| context.derived.dropped()),
            disordered: open.disordered,
            undefined: self.state.borrow().undefined.get() as u64,
            clamped: open.clamped,
            starts: open.starts,
            open: open.open,
            errors: self.dispatch.errors(),
            ..self.coverage
        }
    }

    /// Returns the number of starts of relations without any end, if the ends may be of other
    /// tasks.
    pub fn starts_without_any_end(&self) -> u64 {
        self.aggregates.starts_without_any_end()
    }
}
