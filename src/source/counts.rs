//! Increases of counters, as a source yields them, and numbers of thinned events.

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

/// Number of events that can be thinned, and of their samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that the kernel counted up to the last sample.
    pub events: u64,
    /// Samples that were read.
    pub samples: u64,
    /// Samples of these that stand for nothing: of a time that is not measured.
    pub unmeasured: u64,
    /// Events that the others stand for.
    pub weight: u64,
}

impl Tally {
    /// Returns the sum of two.
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            events: self.events + other.events,
            samples: self.samples + other.samples,
            unmeasured: self.unmeasured + other.unmeasured,
            weight: self.weight + other.weight,
        }
    }

    /// Returns the number of events without a sample that others stand for.
    pub fn thinned(self) -> u64 {
        self.weight - (self.samples - self.unmeasured)
    }
}
