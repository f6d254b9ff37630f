//! What a table of open state is made for, and what it had to drop.

/// What a table is for.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many values a slot remembers; at most [`VALUES`](super::VALUES).
    pub values: usize,
    /// Whether keys are thread ids, so that a task's end drops its slot.
    pub by_task: bool,
    /// Whether slots outlive lost events: when a missing end is no reason to doubt the beginning.
    pub keep_lost: bool,
    /// Whether opening again does not replace what is open but begins inside of it: slots of a key are a stack.
    pub nested: bool,
    /// Whether the whole event is copied.
    pub keep_event: bool,
    /// Nanoseconds after which a beginning is given up; infinite where it may wait for ever.
    pub age: f64,
    /// Bytes it may take.
    pub bound: usize,
}

/// What was dropped, since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Replaced before they were closed.
    pub unmatched: u64,
    /// Open while events were lost.
    pub unsafe_: u64,
    /// Their task ended.
    pub exited: u64,
    /// No room, or too old.
    pub evicted: u64,
}
