//! Options of a table of pending state, and the counts of what it dropped.

/// Options of a table.
#[derive(Clone, Copy, Debug)]
pub struct PendingOptions {
    /// Number of values per slot; at most [`VALUES`](super::VALUES).
    pub values: usize,
    /// Whether keys are thread ids, so that the end of a task drops its slot.
    pub by_task: bool,
    /// Whether slots survive lost events, for pairs whose beginning stays valid if the end is
    /// missing.
    pub keep_lost: bool,
    /// Whether opening a key again begins a call inside the open one instead of replacing it: the
    /// slots of a key form a stack.
    pub nested: bool,
    /// Whether uretprobes end the calls. The kernel has no return of a call that is nested deeper
    /// than the limit.
    pub uretprobes: bool,
    /// Whether the whole event is copied.
    pub keep_event: bool,
    /// Nanoseconds after which an open slot is dropped; infinity for no limit.
    pub age: f64,
    /// Maximum size in bytes.
    pub bound: usize,
}

/// Slots that were dropped since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingLosses {
    /// Replaced before they were closed, or their end was missed.
    pub unmatched: u64,
    /// Open while events were lost.
    pub unsafe_: u64,
    /// Their task ended.
    pub exited: u64,
    /// No room, too old, or nested too deeply.
    pub evicted: u64,
}
