//! The content of an aggregate between two calls of a handler, which each kind implements.
//!
//! Handlers add through leaves, which know the type of their aggregate; nothing here is called per
//! event.

use super::cells::TableParts;
use crate::{
    base::{
        report::coverage::Coverage, report::draw::Report, report::flame::Flame,
        report::metric::MetricTable,
    },
    stat::{
        event_copy::CopyPosition,
        hist::Histograms,
        history::History,
        kv::Kv,
        latency::Latency,
        leaf::SharedAggregate,
        pending::{Pending, PendingLosses, PendingState},
        strings::Marks,
        word::Word,
    },
};
use mlua::Value;
use std::path::Path;

/// Appends a row for `each()`. Arguments: key, results.
pub(super) type PushRow<'a> = dyn FnMut(&[Word], Vec<Value>) -> mlua::Result<()> + 'a;

/// The content of an aggregate. A kind that is not drawn implements only [`AggregateBody::mark`]
/// and [`AggregateBody::count`].
pub(super) trait AggregateBody {
    /// Marks the strings and numbers in use.
    fn mark(&self, marks: &mut Marks);

    /// Adds what was dropped or not recorded since the start: `unmatched`, `unsafe_`, `exited`,
    /// `evicted`, `disordered`, `clamped`, `starts` and `open`.
    fn count(&self, counts: &mut Coverage);

    /// Checks what depends on the events of the run, once they are known.
    ///
    /// # Errors
    /// A mistake of the script; a sentence.
    fn begin(&self) -> Result<(), String> {
        Ok(())
    }

    /// Draws the interval, or the run (`total`).
    ///
    /// # Errors
    /// A column's own function failed.
    fn draw(&self, _parts: &TableParts<'_>, _total: bool) -> mlua::Result<Vec<Report>> {
        Ok(Vec::new())
    }

    /// Returns the measurements of the interval, or None for a kind without numbers.
    ///
    /// # Errors
    /// A column's own function failed.
    fn measure(&self, _parts: &TableParts<'_>) -> mlua::Result<Option<MetricTable>> {
        Ok(None)
    }

    /// Calls `push` with each row of the interval in drawing order.
    ///
    /// # Errors
    /// Lua is out of memory.
    fn rows(&self, _parts: &TableParts<'_>, _push: &mut PushRow<'_>) -> mlua::Result<()> {
        Ok(())
    }

    /// Keeps its events in a database in the empty file at `path`; returns whether it can.
    ///
    /// # Errors
    /// The file cannot be opened; a sentence.
    fn keep_events(&self, _path: &Path) -> Result<bool, String> {
        Ok(false)
    }

    /// Completes that database at the end of a run with this coverage. Returns a summary.
    ///
    /// # Errors
    /// The file cannot be written; a sentence.
    fn complete_events(&self, _coverage: &Coverage) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Starts the next interval; with `totals`, adds this one to the total of the run first.
    fn restart(&self, _totals: bool) {}

    /// Returns whether there is a total of earlier intervals.
    fn has_total(&self) -> bool {
        false
    }

    /// Returns whether a column of stacks makes it a flame graph.
    fn can_be_flame(&self) -> bool {
        false
    }

    /// Returns the flame graph of the interval, or None if the table has no stacks.
    ///
    /// # Errors
    /// A column's own function failed.
    fn flame(&self, _parts: &TableParts<'_>) -> mlua::Result<Option<Flame>> {
        Ok(None)
    }

    /// Returns the structure to which results of the kernel can be added.
    fn kernel_target(&self) -> Option<KernelTarget<'_>> {
        None
    }

    /// Returns the state between events that it keeps.
    fn open_state(&self) -> Option<&dyn OpenState> {
        None
    }

    /// Returns whether it can be freed once no Lua object references it.
    fn is_freed_unheld(&self) -> bool {
        self.open_state().is_none()
    }
}

/// A structure to which results of programs in the kernel are added.
pub(super) enum KernelTarget<'a> {
    /// Counts and sums.
    Rows(&'a SharedAggregate<Kv>),
    /// Delays.
    Delays(&'a SharedAggregate<Latency>),
    /// Histograms of delays.
    Histograms(&'a SharedAggregate<Histograms>),
    /// Starts without an end.
    Starts(&'a SharedAggregate<Pending>),
}

/// State between two events. It is dropped if lost events make it doubtful, or its task ends.
pub(super) trait OpenState {
    /// Drops what was opened at or before `time`, in nanoseconds of the run.
    fn drop_before(&self, time: f64);

    /// Drops the state of a thread that ended.
    fn drop_task(&self, tid: u32);

    /// Drops the state of the previous thread with this id.
    fn forget_task(&self, tid: u32) {
        self.drop_task(tid);
    }

    /// Records that a thread was renamed.
    fn rename_task(&self, _tid: u32) {}

    /// Copies kept events out of the part of the history before `until`.
    fn rescue(&self, _history: &History, _until: CopyPosition) {}

    /// Returns when the oldest open state that needs the history was opened; infinity without one.
    fn oldest_time(&self) -> f64 {
        f64::INFINITY
    }

    /// Returns the number of starts if none was ever closed, else 0.
    fn starts_without_any_end(&self) -> u64 {
        0
    }

    /// Returns the structs into which the leaves write: what was closed, and what is read.
    fn results(&self) -> [*const PendingState; 2];
}

/// Adds the counts of open state.
pub(super) fn count_open(counts: &mut Coverage, losses: PendingLosses, starts: u64, open: usize) {
    counts.unmatched += losses.unmatched;
    counts.unsafe_ += losses.unsafe_;
    counts.exited += losses.exited;
    counts.evicted += losses.evicted;
    counts.starts += starts;
    counts.open += open as u64;
}
