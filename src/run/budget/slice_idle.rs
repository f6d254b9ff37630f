//! How long CPUs are idle while events are on, and while they are off.

use crate::sys::proc_stat::CpuIdle;

/// Time constant, in slices, of the means: idle times have the resolution of a tick, which may be
/// longer than a slice.
const SLICES: f64 = 16.0;

/// The share of slices and of the gaps before them for which each CPU is idle: means over the last
/// ones, weighted by the events of the slice. A task that moves between CPUs keeps the idle share
/// of those on which it ran.
#[derive(Debug, Default)]
pub(super) struct SliceIdle {
    /// When the last slice began or ended, and the idle times until then.
    at: u64,
    before: CpuIdle,
    /// The share of the last gap for which each CPU was idle.
    gap: Vec<f64>,
    of_cpus: Vec<IdleSums>,
}

/// Sums of a CPU over slices: of idle shares times events, and of events.
#[derive(Clone, Copy, Debug, Default)]
struct IdleSums {
    slices: f64,
    gaps: f64,
    events: f64,
}

impl SliceIdle {
    /// Begins a slice at a time, with the idle times so far.
    pub(super) fn begin(&mut self, at: u64, idle: CpuIdle) {
        self.gap = self.passed(at, idle);
    }

    /// Ends a slice at a time, with the idle times so far and the events on each CPU.
    pub(super) fn end(&mut self, at: u64, idle: CpuIdle, events: &[u64]) {
        let slice = self.passed(at, idle);
        self.of_cpus.resize(events.len(), IdleSums::default());
        for (cpu, (sums, events)) in self.of_cpus.iter_mut().zip(events).enumerate() {
            let of = |shares: &[f64]| shares.get(cpu).copied().unwrap_or(0.0) * *events as f64;
            let kept = 1.0 - 1.0 / SLICES;
            sums.slices = sums.slices * kept + of(&slice);
            sums.gaps = sums.gaps * kept + of(&self.gap);
            sums.events = sums.events * kept + *events as f64;
        }
    }

    /// Returns the share for a CPU, of slices or of gaps, whichever is larger; 0 while it is not
    /// known.
    pub(super) fn share(&self, cpu: usize) -> f64 {
        match self.of_cpus.get(cpu) {
            Some(sums) if sums.events > 0.0 => (sums.slices.max(sums.gaps) / sums.events).min(1.0),
            _ => 0.0,
        }
    }

    /// Returns the share of the time since the last call for which each CPU was idle; 0 before the
    /// first one, and for a CPU that came or went.
    fn passed(&mut self, at: u64, idle: CpuIdle) -> Vec<f64> {
        let lasted = at.saturating_sub(self.at).max(1) as f64;
        let mut shares = vec![0.0; idle.keys().last().map_or(0, |last| *last as usize + 1)];
        for (cpu, now) in &idle {
            if let Some(before) = self.before.get(cpu) {
                shares[*cpu as usize] = now.saturating_sub(*before) as f64 / lasted;
            }
        }
        (self.at, self.before) = (at, idle);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes a gap of 80 ms and a slice of 20 ms, with the idle ticks of the CPUs in each and the
    /// events of the slice.
    fn pass(idle: &mut SliceIdle, ticks: &[(u64, u64)], events: &[u64]) {
        let plus = |idle: &SliceIdle, ticks: &mut dyn Iterator<Item = u64>| -> CpuIdle {
            let sum =
                |(cpu, ticks)| (cpu, idle.before.get(&cpu).unwrap_or(&0) + ticks * 10_000_000);
            (0..).zip(ticks).map(sum).collect()
        };
        let begin = plus(idle, &mut ticks.iter().map(|(gap, _)| *gap));
        idle.begin(idle.at + 80_000_000, begin);
        let end = plus(idle, &mut ticks.iter().map(|(_, slice)| *slice));
        idle.end(idle.at + 20_000_000, end, events);
    }

    #[test]
    fn the_share_is_that_of_the_slices_with_events() {
        let mut idle = SliceIdle::default();
        assert_eq!(idle.share(0), 0.0);
        for slice in 0..40 {
            // A CPU is idle for a tick in every second slice. A busy task moves between the others.
            let first = u64::from(slice % 2 == 0);
            let ticks = [(0, first), (0, 1 - first), (0, first)];
            pass(&mut idle, &ticks, &[1000, 1000 * first, 1000 * (1 - first)]);
        }
        assert!((idle.share(0) - 0.25).abs() < 0.03, "{}", idle.share(0));
        assert_eq!([1, 2, 3].map(|cpu| idle.share(cpu)), [0.0; 3]);
    }

    #[test]
    fn a_cpu_may_be_idle_only_between_slices() {
        let mut idle = SliceIdle::default();
        (0..40).for_each(|_| pass(&mut idle, &[(2, 0), (0, 0)], &[1000, 1000]));
        assert!((idle.share(0) - 0.25).abs() < 0.03, "{}", idle.share(0));
        assert_eq!(idle.share(1), 0.0);
    }

    #[test]
    fn slices_may_be_shorter_than_a_tick() {
        let mut idle = SliceIdle::default();
        // A CPU that is idle for half of the time has a tick in one of 20 slices of a millisecond.
        for slice in 0..400 {
            let at = idle.at;
            idle.begin(at, idle.before.clone());
            let tick = u64::from(slice % 20 == 10) * 10_000_000;
            let now = idle.before.get(&0).unwrap_or(&0) + tick;
            idle.end(at + 1_000_000, CpuIdle::from([(0, now)]), &[1000]);
        }
        assert!((0.3..0.9).contains(&idle.share(0)), "{}", idle.share(0));
    }
}
