//! The slice of time in which the kernel counts events: how many there were, and what they cost.

use super::controller::Prices;
use crate::source::counting::switching::{ProgramRuns, SwitchedCounts};

/// Highest share of the time of tasks that events are assumed to take.
const SLOWEST: f64 = 0.5;
/// How many times as much an event may cost as was measured, with what it displaces from the caches
/// of its task.
const WITH_COLD_CACHES: f64 = 1.5;

/// A slice that is on, or whose counts have not been read yet.
#[derive(Clone, Debug, Default)]
pub(super) struct CountingSlice {
    begun: SwitchedCounts,
    /// Runs of programs in the slice on each CPU, once it has ended; and its nanoseconds.
    runs: Vec<ProgramRuns>,
    lasted: f64,
}

impl CountingSlice {
    /// Begins a slice.
    pub(super) fn begin(on: SwitchedCounts) -> CountingSlice {
        CountingSlice { begun: on, ..CountingSlice::default() }
    }

    /// Ends the slice.
    pub(super) fn end(&mut self, off: &SwitchedCounts) {
        self.lasted = off.at.saturating_sub(self.begun.at) as f64;
        let of_cpus = off.runs.iter().zip(&self.begun.runs);
        self.runs = of_cpus.map(|(end, begin)| end.since(*begin)).collect();
    }

    /// Returns how many events each counted one stands for in the slice.
    pub(super) fn one_in(&self) -> f64 {
        let sum = ProgramRuns::sum(&self.runs);
        if sum.counted > 0 { sum.all as f64 / sum.counted as f64 } else { 1.0 }
    }

    /// Returns how many times as many events there are at other times as in the slice, and the
    /// relative error of that; `crowd` tasks are runnable for each CPU.
    ///
    /// A task that waits for a clock has as many at other times; one that never waits has more, by
    /// the share of its time that the events take. The middle of both is assumed.
    pub(super) fn correction(&self, prices: &Prices, crowd: f64) -> (f64, f64) {
        let factor = |cost: f64| 1.0 / (1.0 - cost.min(SLOWEST));
        let cost = self.cost(prices);
        let (middle, most) =
            (f64::midpoint(1.0, factor(cost)), factor(WITH_COLD_CACHES * cost * crowd.max(1.0)));
        (middle, most / middle - 1.0)
    }

    /// Returns the share of the time of its CPU that counting took, as a mean over the events: one
    /// on a busy CPU belongs to a task that is slower.
    fn cost(&self, prices: &Prices) -> f64 {
        let all = ProgramRuns::sum(&self.runs).all;
        let of_cpu = |runs: &ProgramRuns| {
            let skipped = runs.all.saturating_sub(runs.counted) as f64 * prices.skipped;
            runs.all as f64 * (skipped + runs.counted as f64 * prices.record)
        };
        let sum: f64 = self.runs.iter().map(of_cpu).sum();
        if all > 0 { sum / all as f64 / self.lasted.max(1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice() -> CountingSlice {
        let runs = |all, counted| ProgramRuns { all, counted };
        let on = SwitchedCounts { at: 1000, runs: vec![runs(10, 1), runs(20, 2)] };
        let mut slice = CountingSlice::begin(on);
        slice.end(&SwitchedCounts { at: 10_001_000, runs: vec![runs(1010, 101), runs(3020, 302)] });
        slice
    }

    #[test]
    fn a_slice_has_its_weight_and_the_mean_cost_of_its_events() {
        let slice = slice();
        assert_eq!(slice.one_in(), 10.0);
        // 1,000 events on a CPU take 1 % of its time, 3,000 on the other one 3 %.
        let cost = slice.cost(&Prices::of_counts(460.0, 60.0));
        assert!((cost - (0.25 * 0.01 + 0.75 * 0.03)).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn the_error_covers_tasks_that_wait_for_a_clock_and_tasks_that_never_wait() {
        let prices = Prices::of_counts(460.0, 60.0);
        let (factor, error) = slice().correction(&prices, 1.0);
        assert!(factor > 1.012 && factor < 1.013, "{factor}");
        assert!(factor * (1.0 - error) < 1.0 && factor * (1.0 + error) > 1.0 / 0.97, "{error}");
        let (_, crowded) = slice().correction(&prices, 4.0);
        assert!(crowded > 3.0 * error, "{crowded}");
        assert_eq!(CountingSlice::default().correction(&prices, 1.0), (1.0, 0.0));
    }
}
