//! How long CPUs are idle while events are on.

use crate::sys::proc_stat::CpuIdle;

/// Time constant, in slices, of the means: idle times have the resolution of a tick, which may be
/// longer than a slice.
const SLICES: f64 = 16.0;

/// The share of slices for which each CPU is idle: a mean over the last slices, weighted by events.
/// A task that moves between CPUs keeps the idle share of the slices in which it ran.
#[derive(Debug, Default)]
pub(super) struct SliceIdle {
    begun: CpuIdle,
    /// For each CPU, the sum of the shares times the events, and that of the events.
    sums: Vec<(f64, f64)>,
}

impl SliceIdle {
    /// Begins a slice, with the idle times so far.
    pub(super) fn begin(&mut self, idle: CpuIdle) {
        self.begun = idle;
    }

    /// Ends a slice that has lasted for so many nanoseconds, with the events on each CPU.
    pub(super) fn end(&mut self, idle: &CpuIdle, events: &[u64], lasted: f64) {
        self.sums.resize(events.len(), (0.0, 0.0));
        for (cpu, (sums, events)) in (0..).zip(self.sums.iter_mut().zip(events)) {
            let (Some(begin), Some(end)) = (self.begun.get(&cpu), idle.get(&cpu)) else { continue };
            let share = end.saturating_sub(*begin) as f64 / lasted.max(1.0);
            let kept = 1.0 - 1.0 / SLICES;
            let events = *events as f64;
            *sums = (sums.0 * kept + share * events, sums.1 * kept + events);
        }
    }

    /// Returns the share for a CPU; 0 while it is not known.
    pub(super) fn share(&self, cpu: usize) -> f64 {
        match self.sums.get(cpu) {
            Some((idle, events)) if *events > 0.0 => (idle / events).min(1.0),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_slices_with_events() {
        let mut idle = SliceIdle::default();
        assert_eq!(idle.share(0), 0.0);
        let mut now = 0;
        for slice in 0..40 {
            // A CPU is idle for a tick in every second slice. A busy task moves between the others.
            let is_first = slice % 2 == 0;
            idle.begin(CpuIdle::from([(0, now), (1, now), (2, now)]));
            let ticks = [is_first, !is_first, is_first].map(u64::from);
            let end = (0..).zip(ticks).map(|(cpu, ticks)| (cpu, now + ticks * 10_000_000));
            let events = [1000, if is_first { 1000 } else { 0 }, if is_first { 0 } else { 1000 }];
            idle.end(&end.collect(), &events, 20e6);
            now += 50_000_000;
        }
        assert!((idle.share(0) - 0.25).abs() < 0.03, "{}", idle.share(0));
        assert_eq!([1, 2, 3].map(|cpu| idle.share(cpu)), [0.0; 3]);
    }

    #[test]
    fn slices_may_be_shorter_than_a_tick() {
        let mut idle = SliceIdle::default();
        // A CPU that is idle for half of the time has a tick in one of 20 slices of a millisecond.
        for slice in 0..400 {
            idle.begin(CpuIdle::from([(0, 0)]));
            let ticks = u64::from(slice % 20 == 10);
            idle.end(&CpuIdle::from([(0, ticks * 10_000_000)]), &[1000], 1e6);
        }
        assert!((0.3..0.9).contains(&idle.share(0)), "{}", idle.share(0));
    }
}
