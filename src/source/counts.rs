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

/// Events of a CPU that a budget thins: those for which a program ran, or that the kernel counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuEvents {
    /// All; with programs, events that a filter rejects included.
    pub all: u64,
    /// Those that a program looked at, or that have a record: one in N.
    pub sampled: u64,
}

impl CpuEvents {
    /// Returns the events since an earlier time.
    pub fn since(self, before: CpuEvents) -> CpuEvents {
        CpuEvents {
            all: self.all.saturating_sub(before.all),
            sampled: self.sampled.saturating_sub(before.sampled),
        }
    }

    /// Returns the events of all CPUs.
    pub fn sum(of_cpus: &[CpuEvents]) -> CpuEvents {
        let plus = |sum: CpuEvents, of: &CpuEvents| CpuEvents {
            all: sum.all + of.all,
            sampled: sum.sampled + of.sampled,
        };
        of_cpus.iter().fold(CpuEvents::default(), plus)
    }
}

/// The moment in which thinned events were switched on or off.
#[derive(Clone, Debug, Default)]
pub struct SwitchedEvents {
    /// Its time (`CLOCK_MONOTONIC`, ns).
    pub at: u64,
    /// The events of each CPU so far.
    pub by_cpu: Vec<CpuEvents>,
}
