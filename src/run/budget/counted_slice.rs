//! The slice of time in which the kernel counts events: how many there were, and what they cost.

use super::controller::Prices;
use super::slice_idle::SliceIdle;
use crate::source::counting::switching::{ProgramRuns, SwitchedCounts};
use crate::sys::proc_stat::CpuIdle;

/// Highest share of the time of tasks that events are assumed to take.
const SLOWEST: f64 = 0.5;
/// How many times as much an event may cost as was measured, with what it displaces from the caches
/// of its task.
const WITH_COLD_CACHES: f64 = 1.5;

/// A slice that is on, or whose counts have not been read yet.
#[derive(Debug, Default)]
pub(super) struct CountingSlice {
    begun: SwitchedCounts,
    /// Runs of programs in the slice on each CPU, once it has ended; and its nanoseconds.
    runs: Vec<ProgramRuns>,
    lasted: f64,
    /// How long CPUs are idle in this slice and those before it.
    idle: SliceIdle,
}

impl CountingSlice {
    /// Begins a slice, with the idle times of the CPUs so far.
    pub(super) fn begin(&mut self, on: SwitchedCounts, idle: CpuIdle) {
        self.begun = on;
        self.idle.begin(idle);
    }

    /// Ends the slice.
    pub(super) fn end(&mut self, off: &SwitchedCounts, idle: &CpuIdle) {
        self.lasted = off.at.saturating_sub(self.begun.at) as f64;
        let of_cpus = off.runs.iter().zip(&self.begun.runs);
        self.runs = of_cpus.map(|(end, begin)| end.since(*begin)).collect();
        let events: Vec<u64> = self.runs.iter().map(|runs| runs.all).collect();
        self.idle.end(idle, &events, self.lasted);
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
    /// the share of its time that the events take. Where the CPU is idle for that share of the
    /// slices, tasks are assumed to wait, and to do all of their work.
    pub(super) fn correction(&self, prices: &Prices, crowd: f64) -> (f64, f64) {
        let factor = |missing: f64| 1.0 / (1.0 - missing.min(SLOWEST));
        let expected = factor(self.mean(prices, |cost, idle| (cost - idle).max(0.0)));
        let cost = self.mean(prices, |cost, _| cost);
        let most = factor(WITH_COLD_CACHES * cost * crowd.max(1.0));
        (expected, (most / expected - 1.0).max(1.0 - 1.0 / expected))
    }

    /// Returns a mean over the events, each with the share of its CPU's time that counting took,
    /// and the share for which that CPU is idle in slices.
    fn mean(&self, prices: &Prices, value: impl Fn(f64, f64) -> f64) -> f64 {
        let all = ProgramRuns::sum(&self.runs).all;
        let of_cpu = |(cpu, runs): (usize, &ProgramRuns)| {
            let skipped = runs.all.saturating_sub(runs.counted) as f64 * prices.skipped;
            let cost = (skipped + runs.counted as f64 * prices.record) / self.lasted.max(1.0);
            runs.all as f64 * value(cost, self.idle.share(cpu))
        };
        let sum: f64 = self.runs.iter().enumerate().map(of_cpu).sum();
        if all > 0 { sum / all as f64 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of 10 ms in which the first CPU is idle for 5 ms and the second one never.
    fn slice() -> CountingSlice {
        let runs = |all, counted| ProgramRuns { all, counted };
        let on = SwitchedCounts { at: 1000, runs: vec![runs(10, 1), runs(20, 2)] };
        let off = SwitchedCounts { at: 10_001_000, runs: vec![runs(1010, 101), runs(3020, 302)] };
        let mut slice = CountingSlice::default();
        slice.begin(on, CpuIdle::from([(0, 7_000_000), (1, 9_000_000)]));
        slice.end(&off, &CpuIdle::from([(0, 12_000_000), (1, 9_000_000)]));
        slice
    }

    #[test]
    fn a_slice_has_its_weight_and_the_mean_cost_of_its_events() {
        let slice = slice();
        assert_eq!(slice.one_in(), 10.0);
        // 1,000 events on a CPU take 1 % of its time, 3,000 on the other one 3 %.
        let cost = slice.mean(&Prices::of_counts(460.0, 60.0, 0.0), |cost, _| cost);
        assert!((cost - (0.25 * 0.01 + 0.75 * 0.03)).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn events_are_missing_where_the_cpu_is_never_idle() {
        let prices = Prices::of_counts(460.0, 60.0, 0.0);
        let (expected, error) = slice().correction(&prices, 1.0);
        // Three in four events are on the busy CPU, where they take 3 % of the time.
        assert!((expected - 1.0 / (1.0 - 0.75 * 0.03)).abs() < 1e-9, "{expected}");
        assert!(expected * (1.0 - error) <= 1.0 && expected * (1.0 + error) > 1.0 / 0.97);
        let (_, crowded) = slice().correction(&prices, 4.0);
        assert!(crowded > 3.0 * error, "{crowded}");
        assert_eq!(CountingSlice::default().correction(&prices, 1.0), (1.0, 0.0));
    }
}
