//! Increases of counters, as a source yields them.

/// Increase of a counter on one instance since the last reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountDelta {
    /// Role that requested it.
    pub role: u32,
    /// CPU or, if tasks are watched, the thread.
    pub instance: u32,
    /// Its value, scaled if the counter was multiplexed; NaN if it was not counted.
    pub value: f64,
    /// Part of the time in which it was counted, from 0 to 1.
    pub share: f64,
    /// Whether it was multiplexed.
    pub scaled: bool,
}
