//! The slice of time in which events are on: how many there were, and what they cost.

use super::controller::Prices;
use super::slice_idle::SliceIdle;
use crate::source::counts::{CpuEvents, SwitchedEvents};
use crate::sys::proc_stat::CpuIdle;

/// Highest share of the time of tasks that events are assumed to take.
const SLOWEST: f64 = 0.5;
/// How many times as much an event may cost as was measured, with what it displaces from the caches
/// of its task: a program under the load, and a record in a loop before the run.
const COUNTED_WITH_COLD_CACHES: f64 = 1.5;
const RECORDED_WITH_COLD_CACHES: f64 = 2.0;

/// A slice that is on, or whose events have not been read yet.
#[derive(Debug, Default)]
pub(super) struct MeasuredSlice {
    begun: SwitchedEvents,
    /// Events of each CPU in the slice, once it has ended; and its nanoseconds.
    by_cpu: Vec<CpuEvents>,
    lasted: f64,
    /// How long CPUs are idle in this slice and those before it, and between them.
    idle: SliceIdle,
}

impl MeasuredSlice {
    /// Begins a slice, with the idle times of the CPUs so far.
    pub(super) fn begin(&mut self, on: SwitchedEvents, idle: CpuIdle) {
        self.idle.begin(on.at, idle);
        self.begun = on;
    }

    /// Ends the slice.
    pub(super) fn end(&mut self, off: &SwitchedEvents, idle: CpuIdle) {
        self.lasted = off.at.saturating_sub(self.begun.at) as f64;
        let of_cpus = off.by_cpu.iter().zip(&self.begun.by_cpu);
        self.by_cpu = of_cpus.map(|(end, begin)| end.since(*begin)).collect();
        let events: Vec<u64> = self.by_cpu.iter().map(|events| events.all).collect();
        self.idle.end(off.at, idle, &events);
    }

    /// Returns how many events each counted or recorded one stands for in the slice.
    pub(super) fn one_in(&self) -> f64 {
        let sum = CpuEvents::sum(&self.by_cpu);
        if sum.sampled > 0 { sum.all as f64 / sum.sampled as f64 } else { 1.0 }
    }

    /// Returns how many times as many events there are at other times as in the slice, and the
    /// relative error of that; `crowd` tasks are runnable for each CPU.
    ///
    /// A task that waits for a clock has as many at other times; one that never waits has more, by
    /// the share of its time that the events take. Where the CPU is idle for that share of the
    /// slices, or of the time between them, tasks are assumed to wait, and to do all of their work.
    pub(super) fn correction(&self, prices: &Prices, crowd: f64) -> (f64, f64) {
        let factor = |missing: f64| 1.0 / (1.0 - missing.min(SLOWEST));
        let expected = factor(self.mean(prices, |cost, idle| (cost - idle).max(0.0)));
        let cost = self.mean(prices, |cost, _| cost);
        let with_cold_caches =
            if prices.are_counts { COUNTED_WITH_COLD_CACHES } else { RECORDED_WITH_COLD_CACHES };
        let most = factor(with_cold_caches * cost * crowd.max(1.0));
        (expected, (most / expected - 1.0).max(1.0 - 1.0 / expected))
    }

    /// Returns a mean over the events, each with the share of its CPU's time that the events take
    /// beyond what they take while they are off, and the share for which that CPU is idle.
    fn mean(&self, prices: &Prices, value: impl Fn(f64, f64) -> f64) -> f64 {
        let all = CpuEvents::sum(&self.by_cpu).all;
        let of_cpu = |(cpu, events): (usize, &CpuEvents)| {
            let (all, sampled) = (events.all as f64, events.sampled as f64);
            let ns = (prices.of_events(all, sampled) - all * prices.off).max(0.0);
            all * value(ns / self.lasted.max(1.0), self.idle.share(cpu))
        };
        let sum: f64 = self.by_cpu.iter().enumerate().map(of_cpu).sum();
        if all > 0 { sum / all as f64 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of 10 ms in which the first CPU is idle for 5 ms and the second one never.
    fn slice() -> MeasuredSlice {
        let events = |all, sampled| CpuEvents { all, sampled };
        let on = SwitchedEvents { at: 1000, by_cpu: vec![events(10, 1), events(20, 2)] };
        let by_cpu = vec![events(1010, 101), events(3020, 302)];
        let off = SwitchedEvents { at: 10_001_000, by_cpu };
        let mut slice = MeasuredSlice::default();
        slice.begin(on, CpuIdle::from([(0, 7_000_000), (1, 9_000_000)]));
        slice.end(&off, CpuIdle::from([(0, 12_000_000), (1, 9_000_000)]));
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
        assert_eq!(MeasuredSlice::default().correction(&prices, 1.0), (1.0, 0.0));
    }
}
