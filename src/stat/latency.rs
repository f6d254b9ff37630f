//! Latencies by key: count, total, minimum and maximum are exact, percentiles within 1 %.
//!
//! Each key has an HDR histogram (Tene: hdrhistogram.org) of two significant digits with 32-bit
//! counts, from 2 KiB for microseconds to 19 KiB for hours. A histogram grows when a longer value
//! is added, which is the only allocation. Histograms of a finished interval are freed: if they
//! were reused for other keys, each would grow in time to the size of the longest latency.

use super::{
    Aggregate,
    budget::{Budget, BudgetGrant},
    keys::{Keys, first_half, gather},
    leaf::Leaf,
    strings::Marks,
    sum::Sum,
    weight::{EventWeight, Variance, error_of},
    word::{Word, words},
};
use hdrhistogram::Histogram;
use std::cmp::Ordering;
use std::rc::Rc;

mod measured;

pub use measured::MeasuredDelays;

/// Longer values (4.9 hours) count as this one in percentiles, but not in total and max.
const LONGEST_NS: f64 = (1u64 << 44) as f64;

/// Latencies in nanoseconds, by key.
pub struct Latency {
    keys: Keys,
    timings: Vec<Timing>,
    folded: Option<Timing>,
    folded_keys: u64,
    bytes: usize,
    room: BudgetGrant,
    losses: LatencyLosses,
    survivors: Vec<u32>,
    epoch: u32,
    /// None if each record stands for one event.
    weight: Option<Rc<EventWeight>>,
}

/// Values that were not recorded unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyLosses {
    /// Keys folded because of the bound.
    pub evicted: u64,
    /// Negative values, infinities and NaN, which are not recorded because they cannot be the
    /// distance of two events.
    pub disordered: u64,
    /// Values too long for the percentiles.
    pub clamped: u64,
}

/// The latencies of one key.
#[derive(Clone, Debug)]
pub struct Timing {
    count: u64,
    total: Sum,
    min: f64,
    max: f64,
    /// Variances of the count and of the total.
    variances: (Variance, Variance),
    histogram: Histogram<u32>,
}

impl Timing {
    fn new(histogram: Histogram<u32>) -> Timing {
        let (total, variances) = (Sum::default(), Default::default());
        Timing { count: 0, total, min: f64::INFINITY, max: 0.0, variances, histogram }
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns their sum.
    pub fn total(&self) -> Sum {
        self.total
    }

    /// Returns the minimum; 0 if there is none.
    pub fn min(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.min }
    }

    /// Returns the maximum; 0 if there is none.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Returns the total divided by the count; 0 if there is none.
    pub fn avg(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total.value() / self.count as f64 }
    }

    /// Returns the value that `percent` of the latencies do not exceed.
    pub fn percentile(&self, percent: f64) -> f64 {
        (self.histogram.value_at_quantile(percent / 100.0) as f64).clamp(self.min(), self.max)
    }

    /// Returns the buckets of the histogram that are not empty: a value in the middle of each, and
    /// its count.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.histogram.iter_recorded().map(|bucket| {
            let value = self.histogram.median_equivalent(bucket.value_iterated_to());
            (value as f64, bucket.count_at_value().into())
        })
    }

    fn merge(&mut self, other: &Timing, weight: Option<&EventWeight>) {
        self.count += other.count;
        self.total.merge(&other.total);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if let Some(weight) = weight {
            self.variances.0.merge(other.variances.0.value(weight));
            self.variances.1.merge(other.variances.1.value(weight));
        }
        // Cannot fail: the histogram resizes itself, and the values in `other` were clamped.
        let _ = self.histogram.add(&other.histogram);
    }

    fn bytes(&self) -> usize {
        size_of::<Timing>() + self.histogram.distinct_values() * size_of::<u32>()
    }
}

/// Returns the lowest and the highest value of the bucket that a value belongs to. They are the
/// same for all histograms, so that those of several machines add up exactly.
pub fn bucket_of(value: f64) -> (i64, i64) {
    let value = value.clamp(0.0, LONGEST_NS) as u64;
    // Values up to 255 have buckets of their own; from there on, each power of two has 128.
    let width = 1u64 << (value | 0x80).ilog2().saturating_sub(7);
    let low = value & !(width - 1);
    (low.cast_signed(), (low + width - 1).cast_signed())
}

impl Latency {
    /// Returns an empty table with keys of `keys` words (at most 8) that takes about `bound` bytes.
    pub fn new(keys: usize, bound: usize) -> Latency {
        Latency {
            keys: Keys::new(keys),
            timings: Vec::new(),
            folded: None,
            folded_keys: 0,
            bytes: 0,
            room: BudgetGrant::new(bound),
            losses: LatencyLosses::default(),
            survivors: Vec::new(),
            epoch: 0,
            weight: None,
        }
    }

    /// Adds the weight of each event instead of 1, if there is one.
    pub fn with_weight(self, weight: Option<Rc<EventWeight>>) -> Latency {
        Latency { weight, ..self }
    }

    /// Returns the errors of the count and of the total of a row; None if they are exact.
    pub fn errors(&self, timing: &Timing) -> Option<(f64, f64)> {
        let (weight, (count, total)) = (self.weight.as_ref()?, &timing.variances);
        Some((error_of(count.value(weight)), error_of(total.value(weight))))
    }

    /// Returns the variance of the count of a row; None if it is exact.
    pub fn variance(&self, timing: &Timing) -> Option<f64> {
        Some(timing.variances.0.value(self.weight.as_ref()?))
    }

    /// Returns whether counts and totals are estimates.
    pub fn is_estimated(&self) -> bool {
        self.weight.is_some()
    }

    /// Takes its memory from a budget.
    pub fn with_budget(self, budget: &Rc<Budget>) -> Latency {
        let room = self.room.with_budget(budget);
        Latency { room, ..self }
    }

    /// Records a latency of `ns`.
    #[inline(always)]
    pub fn add(&mut self, key: &[Word], ns: f64) {
        if !(0.0..f64::INFINITY).contains(&ns) {
            self.losses.disordered += 1;
            return;
        }
        let row = self.row_of(key);
        self.add_at(row, ns);
    }

    /// Returns the row of a key, and adds it if there is none. Valid as long as [`Latency::epoch`]
    /// does not change.
    #[inline(always)]
    pub(super) fn row_of(&mut self, key: &[Word]) -> usize {
        match self.keys.find_recent(key) {
            Some(row) => row,
            None => self.new_row(key),
        }
    }

    /// Returns a number that changes whenever rows are renumbered.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Records a latency, which must not be negative, in a row returned by [`Latency::row_of`].
    #[inline(always)]
    pub(super) fn add_at(&mut self, row: usize, ns: f64) {
        match &self.weight {
            None => self.add_times(row, ns, None),
            Some(weight) => {
                let weight = weight.clone();
                self.add_weighted(row, ns, &weight);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn add_weighted(&mut self, row: usize, ns: f64, weight: &EventWeight) {
        self.add_times(row, ns, Some(weight));
    }

    #[inline(always)]
    fn add_times(&mut self, row: usize, ns: f64, estimated: Option<&EventWeight>) {
        let weight = estimated.map_or(1.0, EventWeight::get);
        let Some(timing) = self.timings.get_mut(row) else { return };
        timing.count += weight as u64;
        timing.total.add(ns * weight);
        timing.min = timing.min.min(ns);
        timing.max = timing.max.max(ns);
        if ns > LONGEST_NS {
            self.losses.clamped += 1;
        }
        let before = timing.histogram.distinct_values();
        // Cannot fail: the histogram resizes itself up to the maximum, and the value is clamped to
        // that.
        let _ = timing.histogram.record_n((ns.min(LONGEST_NS) + 0.5) as u64, weight as u32);
        if let Some(weight) = estimated {
            timing.variances.0.add(weight, 1.0);
            timing.variances.1.add(weight, ns);
        }
        let grown = timing.histogram.distinct_values() - before;
        if grown > 0 {
            self.bytes += grown * size_of::<u32>();
            self.fold_if_full();
        }
    }

    #[cold]
    #[inline(never)]
    fn new_row(&mut self, key: &[Word]) -> usize {
        let timing = Timing::new(empty_histogram());
        self.bytes += timing.bytes() + self.keys.bytes_per_key();
        self.fold_if_full();
        self.timings.push(timing);
        self.keys.insert(key)
    }

    #[cold]
    fn fold_if_full(&mut self) {
        while self.bytes > self.room.bytes() && self.room.grow() {}
        if self.bytes <= self.room.bytes() || self.keys.is_empty() {
            return;
        }
        let mut survivors = std::mem::take(&mut self.survivors);
        first_half(self.keys.len(), &mut survivors, |a, b| self.order(a, b));
        let mut next = survivors.iter().peekable();
        let folded = self.folded.get_or_insert_with(|| Timing::new(empty_histogram()));
        for (row, timing) in self.timings.iter().enumerate() {
            if next.next_if(|survivor| **survivor as usize == row).is_none() {
                folded.merge(timing, self.weight.as_deref());
                self.folded_keys += 1;
                self.losses.evicted += 1;
                self.bytes -= (timing.bytes() + self.keys.bytes_per_key()).min(self.bytes);
            }
        }
        gather(&mut self.timings, 1, &survivors);
        self.keys.keep(&survivors);
        self.epoch = self.epoch.wrapping_add(1);
        self.survivors = survivors;
    }

    /// Compares two rows in drawing order: by total, descending.
    pub fn order(&self, a: usize, b: usize) -> Ordering {
        match (self.timings.get(a), self.timings.get(b)) {
            (Some(a), Some(b)) => b.total.order(&a.total),
            _ => Ordering::Equal,
        }
    }

    /// Returns every key and its latencies, in no particular order.
    pub fn rows(&self) -> impl Iterator<Item = (&[Word], &Timing)> {
        self.keys.iter().zip(&self.timings)
    }

    /// Returns the number of keys that the bound folded since the last [`Aggregate::clear`], and
    /// their latencies.
    pub fn folded(&self) -> Option<(u64, &Timing)> {
        self.folded.as_ref().map(|timing| (self.folded_keys, timing))
    }

    /// Returns the counts of values not recorded unchanged since the table was made.
    pub fn losses(&self) -> LatencyLosses {
        self.losses
    }
}

fn empty_histogram() -> Histogram<u32> {
    // The constructor is documented to accept 0 to 5 digits; the histogram resizes itself from the
    // start.
    Histogram::new(2).expect("2 significant digits are valid")
}

impl Aggregate for Latency {
    fn clear(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.keys.clear();
        self.timings.clear();
        self.bytes = 0;
        self.folded = None;
        self.folded_keys = 0;
    }

    fn merge(&mut self, other: &Self) {
        for (key, from) in other.rows() {
            let row = match self.keys.find(key) {
                Some(row) => row,
                None => self.new_row(key),
            };
            if let Some(timing) = self.timings.get_mut(row) {
                let before = timing.bytes();
                timing.merge(from, other.weight.as_deref());
                self.bytes += timing.bytes() - before;
            }
            self.fold_if_full();
        }
        if let Some(from) = &other.folded {
            let into = self.folded.get_or_insert_with(|| Timing::new(empty_histogram()));
            into.merge(from, other.weight.as_deref());
            self.folded_keys += other.folded_keys;
        }
    }

    fn mark(&self, marks: &mut Marks) {
        self.keys.iter().flatten().for_each(|word| marks.mark_word(*word));
    }

    fn same_shape(&self) -> Self {
        let (room, weight) = (self.room.another(), self.weight.clone());
        Latency { room, weight, ..Latency::new(self.keys.arity(), 0) }
    }
}

impl Leaf for Latency {
    /// Doubles: nanoseconds, then the key. Bit i of the flags is set if word i of the key is a
    /// string.
    #[inline(always)]
    fn take(&mut self, doubles: &[f64], flags: u32) -> u32 {
        if let Some((ns, key)) = doubles.split_first() {
            let mut buffer = Word::BUFFER;
            self.add(words(&mut buffer, key, flags), *ns);
        }
        0
    }
}

#[cfg(test)]
mod tests;
