//! The windows over a run's history that wait to be printed.

/// State of the windows over a run's history, if it has one.
pub(in crate::script) struct Past {
    /// Longest time by which a window begins before a state that is open, in nanoseconds; infinite
    /// if unknown.
    pub(in crate::script) before: f64,
    /// When the first waiting window is complete, in nanoseconds of the run.
    pub(in crate::script) due: f64,
    /// Start of the earliest waiting window.
    pub(in crate::script) from: f64,
    /// Requested events that were evicted, and windows that could not wait for lack of room.
    pub(in crate::script) evicted: u64,
}

impl Default for Past {
    fn default() -> Past {
        Past { before: 0.0, due: f64::INFINITY, from: f64::INFINITY, evicted: 0 }
    }
}
