//! Weights of thinned samples: how many events each of them stands for.
//!
//! A thinned event writes one sample in N. Its samples have the event's own count
//! (`PERF_SAMPLE_READ`), so the difference to the previous sample of the same CPU is the exact
//! weight, also around a change of N. `PERF_SAMPLE_PERIOD` cannot be used: with that bit, the
//! kernel samples every event (`perf_swevent_event()`, kernel/events/core.c).
//!
//! While N is 1, the weight is 1 without a look at the count: an event that the kernel counts and
//! then omits must not be attributed to the next one.
//!
//! If events are on in slices of time only, each sample also stands for the time without events,
//! and those of the begin of a slice stand for nothing.

use std::cell::{Cell, RefCell};

use crate::decode::sample::Sample;
use crate::source::counts::Tally;

/// The weights of one opening, whose events are opened for whole CPUs.
#[derive(Debug)]
pub(in crate::source) struct SampleWeights {
    /// By CPU.
    cpus: RefCell<Vec<CpuWeights>>,
    /// How many times as much time a slice of time stands for as it lasts.
    expansion: Cell<f64>,
    /// Samples before this time of the event clock stand for nothing.
    measured_from: Cell<u64>,
    /// Time of the first sample since this was last asked for; `u64::MAX` if there was none.
    first: Cell<u64>,
}

impl Default for SampleWeights {
    fn default() -> SampleWeights {
        SampleWeights {
            cpus: RefCell::default(),
            expansion: Cell::new(1.0),
            measured_from: Cell::new(0),
            first: Cell::new(u64::MAX),
        }
    }
}

/// The last sample of one CPU, and how it is thinned.
#[derive(Clone, Copy, Debug)]
struct CpuWeights {
    /// ID of the event. A CPU that was offline gets a new event, whose count begins at 0.
    id: u64,
    counted: u64,
    lost: u64,
    /// Current N, and the one before.
    one_in: u64,
    one_in_before: u64,
    /// Times of the event clock just before and just after N was changed. Samples between them have
    /// either N: this process may have waited for a CPU meanwhile.
    changed: [u64; 2],
    /// Whether no sample has come since then: the first one ends a period of the N before.
    is_fresh: bool,
    tally: Tally,
}

impl Default for CpuWeights {
    fn default() -> CpuWeights {
        CpuWeights {
            id: 0,
            counted: 0,
            lost: 0,
            one_in: 1,
            one_in_before: 1,
            changed: [0; 2],
            is_fresh: false,
            tally: Tally::default(),
        }
    }
}

impl SampleWeights {
    /// Returns the weight of the next sample of its CPU; 0 if it stands for nothing.
    pub(in crate::source) fn weigh(&self, sample: &Sample<'_>) -> u32 {
        let Some(count) = sample.read.counts().next() else { return 1 };
        let mut cpus = self.cpus.borrow_mut();
        let of_cpu = at(&mut cpus, sample.cpu);
        let read = SampleReading {
            id: sample.id,
            time: sample.time,
            counted: count.value,
            lost: count.lost.unwrap_or(0),
        };
        self.first.set(self.first.get().min(read.time));
        let is_measured = read.time >= self.measured_from.get();
        of_cpu.weigh(&read, is_measured.then_some(self.expansion.get()))
    }

    /// Returns the N of a CPU: it samples one event in so many.
    pub(in crate::source) fn one_in(&self, cpu: u32) -> u64 {
        at(&mut self.cpus.borrow_mut(), cpu).one_in
    }

    /// Lets the following samples stand for so many times as many events.
    pub(in crate::source) fn expand(&self, expansion: f64) {
        self.expansion.set(expansion);
    }

    /// Returns the time of the first sample since the last call; `u64::MAX` if there was none.
    pub(in crate::source) fn take_first(&self) -> u64 {
        self.first.replace(u64::MAX)
    }

    /// Lets the samples before a time stand for nothing.
    pub(in crate::source) fn measure_from(&self, time: u64) {
        self.measured_from.set(time);
    }

    /// Notes that a CPU samples one event in `one_in`, since a change between two times of the
    /// event clock.
    pub(in crate::source) fn thin(&self, cpu: u32, one_in: u64, changed: [u64; 2]) {
        let mut cpus = self.cpus.borrow_mut();
        let of_cpu = at(&mut cpus, cpu);
        of_cpu.one_in_before = of_cpu.one_in;
        of_cpu.one_in = one_in;
        of_cpu.changed = changed;
        of_cpu.is_fresh = true;
    }

    /// Returns the events and samples so far.
    pub(in crate::source) fn tally(&self) -> Tally {
        let cpus = self.cpus.borrow();
        cpus.iter().fold(Tally::default(), |sum, of_cpu| sum.plus(of_cpu.tally))
    }
}

/// Returns the weights of a CPU. CPU numbers are those of the rings, so there are few.
fn at(cpus: &mut Vec<CpuWeights>, cpu: u32) -> &mut CpuWeights {
    let at = cpu as usize;
    if cpus.len() <= at {
        cpus.resize(at + 1, CpuWeights::default());
    }
    &mut cpus[at]
}

/// The parts of a sample that its weight follows from.
struct SampleReading {
    id: u64,
    time: u64,
    counted: u64,
    lost: u64,
}

impl CpuWeights {
    /// Returns the weight of a sample; 0 without an `expansion`, which is at least 1.
    fn weigh(&mut self, read: &SampleReading, expansion: Option<f64>) -> u32 {
        if self.id != read.id {
            (self.id, self.counted, self.lost) = (read.id, 0, 0);
        }
        let events = read.counted.saturating_sub(self.counted).max(1);
        let lost = read.lost.saturating_sub(self.lost);
        (self.counted, self.lost) = (read.counted, read.lost);
        let [before, after] = self.changed;
        let is_current = read.time >= after;
        let ends_period = is_current && std::mem::take(&mut self.is_fresh);
        let one_in = match (is_current && !ends_period, read.time >= before) {
            (true, _) => self.one_in,
            (_, true) => self.one_in.max(self.one_in_before),
            _ => self.one_in_before,
        };
        let weight = match one_in {
            1 => 1,
            // Lost samples stood for as many events; they are missing, and reported as lost.
            _ => (events / (lost + 1)).clamp(1, u32::MAX.into()),
        };
        let weight = expansion.map_or(0, |expansion| {
            ((weight as f64 * expansion).round() as u64).clamp(1, u32::MAX.into())
        });
        let unmeasured = u64::from(weight == 0);
        self.tally = self.tally.plus(Tally { events, samples: 1, unmeasured, weight });
        weight as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weigh(cpu: &mut CpuWeights, time: u64, counted: u64, lost: u64) -> u32 {
        cpu.weigh(&SampleReading { id: 9, time, counted, lost }, Some(1.0))
    }

    #[test]
    fn a_sample_weighs_as_much_as_was_counted_since_the_one_before() {
        let weights = SampleWeights::default();
        {
            let cpus = &mut *weights.cpus.borrow_mut();
            let cpu = at(cpus, 3);
            assert_eq!([weigh(cpu, 1, 1, 0), weigh(cpu, 2, 2, 0)], [1, 1]);
        }
        weights.thin(3, 7, [10, 10]);
        let cpus = &mut *weights.cpus.borrow_mut();
        let cpu = at(cpus, 3);
        // Written before the change, read after it.
        assert_eq!(weigh(cpu, 9, 3, 0), 1);
        // The kernel samples the first event after a change.
        assert_eq!([weigh(cpu, 11, 4, 0), weigh(cpu, 12, 11, 0)], [1, 7]);
        assert_eq!(cpu.tally, Tally { events: 11, samples: 5, unmeasured: 0, weight: 11 });
    }

    #[test]
    fn the_first_sample_after_a_change_ends_the_period_before() {
        let weights = SampleWeights::default();
        weights.thin(0, 7, [10, 10]);
        weigh(at(&mut weights.cpus.borrow_mut(), 0), 11, 1, 0);
        weights.thin(0, 1, [20, 20]);
        let cpus = &mut *weights.cpus.borrow_mut();
        let cpu = at(cpus, 0);
        assert_eq!([weigh(cpu, 21, 6, 0), weigh(cpu, 22, 7, 0)], [5, 1]);
    }

    #[test]
    fn samples_during_a_change_have_their_weights_from_the_count() {
        let weights = SampleWeights::default();
        weights.thin(0, 7, [10, 50]);
        let weigh_at =
            |time, counted| weigh(at(&mut weights.cpus.borrow_mut(), 0), time, counted, 0);
        assert_eq!(
            [weigh_at(5, 1), weigh_at(11, 2), weigh_at(20, 9), weigh_at(60, 16)],
            [1, 1, 7, 7]
        );
        weights.thin(0, 1, [70, 90]);
        assert_eq!([weigh_at(75, 23), weigh_at(80, 24), weigh_at(95, 25)], [7, 1, 1]);
    }

    #[test]
    fn an_event_without_a_record_is_not_attributed_to_the_next_one() {
        let cpu = &mut CpuWeights::default();
        assert_eq!([weigh(cpu, 1, 1, 0), weigh(cpu, 2, 5, 0)], [1, 1]);
    }

    #[test]
    fn lost_samples_take_their_share_of_the_events_with_them() {
        let weights = SampleWeights::default();
        weights.thin(0, 7, [10, 10]);
        let cpus = &mut *weights.cpus.borrow_mut();
        let cpu = at(cpus, 0);
        assert_eq!([weigh(cpu, 11, 1, 0), weigh(cpu, 12, 8, 0)], [1, 7]);
        assert_eq!(weigh(cpu, 13, 8 + 4 * 7, 3), 7);
    }

    #[test]
    fn an_event_that_was_opened_again_counts_from_zero() {
        let weights = SampleWeights::default();
        weights.thin(0, 7, [10, 10]);
        let cpus = &mut *weights.cpus.borrow_mut();
        let cpu = at(cpus, 0);
        weigh(cpu, 11, 100, 0);
        assert_eq!(
            cpu.weigh(&SampleReading { id: 10, time: 12, counted: 7, lost: 0 }, Some(1.0)),
            7
        );
    }

    #[test]
    fn a_sample_of_a_slice_also_stands_for_the_time_without_events() {
        let cpu = &mut CpuWeights { one_in: 7, ..CpuWeights::default() };
        let read = |time, counted| SampleReading { id: 9, time, counted, lost: 0 };
        assert_eq!(
            [cpu.weigh(&read(1, 7), Some(10.0)), cpu.weigh(&read(2, 14), Some(10.5))],
            [70, 74]
        );
        assert_eq!(cpu.weigh(&read(3, 21), None), 0);
        assert_eq!(cpu.tally, Tally { events: 21, samples: 3, unmeasured: 1, weight: 144 });
        assert_eq!(cpu.tally.thinned(), 142);
        assert_eq!(cpu.weigh(&read(4, 28), Some(1e300)), u32::MAX);
    }
}
