//! Histograms of values, by powers of two or in equal steps; one, or one per key.
//!
//! A power-of-two histogram is drawn with one bucket from 0 up to the first that is not empty, then
//! bucket by bucket to the last: `0 -> 255`, `256 -> 511`, `512 -> 1023`. Zero and one share the
//! first bucket. Values outside are counted in a bucket of their own whose bound is `i64::MIN` or
//! `i64::MAX`: open.

use super::{
    Aggregate,
    budget::{Budget, BudgetGrant},
    keys::{Keys, first_half, gather},
    leaf::Leaf,
    strings::Marks,
    word::{Word, words},
};
use crate::base::report::draw::Bucket;
use crate::stat::weight::Variance;
use estimate::HistEstimate;
use std::cmp::Ordering;
use std::rc::Rc;

mod estimate;

/// The bounds of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Powers of two from 0 to 2^63, and one bucket for negative values.
    Log2,
    /// Buckets of width `step` from `min`, as many as needed to reach `max` (exclusive), and one at
    /// each end for values outside.
    Linear {
        /// Beginning of the first bucket.
        min: i64,
        /// Width of a bucket; at least 1.
        step: i64,
        /// End of the last bucket.
        max: i64,
    },
}

/// Maximum number of buckets of a linear histogram.
pub const MOST_BUCKETS: i64 = 4096;

/// Non-negative buckets of [`Scale::Log2`]: 0..=1, 2..=3, … up to `i64::MAX`.
const POWERS: usize = 63;

impl Scale {
    /// Returns a linear scale.
    ///
    /// # Errors
    /// Returns the reason if `step` is below 1, `max` is not greater than `min`, `max - min`
    /// overflows, or there would be more than [`MOST_BUCKETS`] buckets.
    pub fn linear(min: i64, step: i64, max: i64) -> Result<Scale, &'static str> {
        if step < 1 {
            return Err("`step` must be at least 1");
        }
        let width = max.checked_sub(min).filter(|width| *width > 0);
        let width = width.ok_or("`max` must be greater than `min`")?;
        if width / step > MOST_BUCKETS {
            return Err("more than 4096 buckets; use a larger `step`");
        }
        Ok(Scale::Linear { min, step, max })
    }

    /// Returns the number of buckets, including the open ones: the first holds values below, the
    /// last values above.
    fn buckets(self) -> usize {
        match self {
            Scale::Log2 => POWERS + 2,
            Scale::Linear { min, step, max } => ((max - min + step - 1) / step) as usize + 2,
        }
    }

    #[inline]
    fn bucket(self, value: f64) -> usize {
        match self {
            Scale::Log2 if value < 0.0 => 0,
            Scale::Log2 => {
                let value = (value as u64).min(i64::MAX as u64);
                64 - (value | 1).leading_zeros() as usize
            }
            Scale::Linear { min, step, max } => {
                if value < min as f64 {
                    0
                } else if value >= max as f64 {
                    self.buckets() - 1
                } else {
                    ((value as i64).saturating_sub(min) / step) as usize + 1
                }
            }
        }
    }

    /// Returns the bounds of a bucket, both inclusive.
    fn bounds(self, bucket: usize) -> (i64, i64) {
        let last = self.buckets() - 1;
        match self {
            Scale::Log2 if bucket == 0 => (i64::MIN, -1),
            Scale::Log2 if bucket == 1 => (0, 1),
            Scale::Log2 if bucket >= POWERS => (1 << (POWERS - 1), i64::MAX),
            Scale::Log2 => (1 << (bucket - 1), (1 << bucket) - 1),
            Scale::Linear { min, .. } if bucket == 0 => (i64::MIN, min - 1),
            Scale::Linear { max, .. } if bucket == last => (max, i64::MAX),
            Scale::Linear { min, step, max } => {
                let low = min + (bucket as i64 - 1) * step;
                (low, low.saturating_add(step - 1).min(max - 1))
            }
        }
    }

    /// Returns the buckets to draw for `counts`.
    fn drawn(self, counts: &[u64]) -> Vec<Bucket> {
        let bucket = |i: usize| {
            let (low, high) = self.bounds(i);
            Bucket { low, high, count: counts.get(i).copied().unwrap_or(0) }
        };
        let last = self.buckets() - 1;
        let filled = |i: &usize| counts.get(*i).is_some_and(|count| *count > 0);
        let mut drawn: Vec<Bucket> = Some(0).filter(filled).map(bucket).into_iter().collect();
        if let (Some(first), Some(end)) = ((1..last).find(filled), (1..last).rfind(filled)) {
            if self == Scale::Log2 && first > 1 {
                drawn.push(Bucket { low: 0, high: self.bounds(first).0 - 1, count: 0 });
            }
            drawn.extend((first..=end).map(bucket));
        }
        drawn.extend(Some(last).filter(filled).map(bucket));
        drawn
    }
}

/// Histograms by key.
pub struct Histograms {
    scale: Scale,
    stride: usize,
    /// Bytes of a row; `capacity` is the number of rows that fit.
    row_bytes: usize,
    capacity: usize,
    room: BudgetGrant,
    keys: Keys,
    counts: Vec<u64>,
    sums: Vec<f64>,
    folded: Vec<u64>,
    folded_sum: f64,
    folded_keys: u64,
    losses: HistLosses,
    survivors: Vec<u32>,
    /// None if each record stands for one event.
    estimate: Option<Box<HistEstimate>>,
}

/// Values that were not recorded unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistLosses {
    /// Keys folded because of the bound.
    pub evicted: u64,
    /// NaN, which does not have a bucket.
    pub disordered: u64,
}

impl Histograms {
    /// Returns an empty table of histograms keyed by `keys` words (at most 8; 0 for a single
    /// histogram) that takes about `bound` bytes.
    pub fn new(scale: Scale, keys: usize, bound: usize) -> Histograms {
        let keys = Keys::new(keys);
        let stride = scale.buckets();
        let row_bytes = keys.bytes_per_key() + (stride + 1) * size_of::<u64>();
        Histograms {
            scale,
            stride,
            row_bytes,
            capacity: (bound / row_bytes).max(2),
            room: BudgetGrant::new(bound),
            keys,
            counts: Vec::new(),
            sums: Vec::new(),
            folded: vec![0; stride],
            folded_sum: 0.0,
            folded_keys: 0,
            losses: HistLosses::default(),
            survivors: Vec::new(),
            estimate: None,
        }
    }

    /// Takes its memory from a budget.
    pub fn with_budget(self, budget: &Rc<Budget>) -> Histograms {
        let room = self.room.with_budget(budget);
        Histograms { capacity: 0, room, ..self }
    }

    /// Counts `value` for `key`.
    #[inline(always)]
    pub fn add(&mut self, key: &[Word], value: f64) {
        if !value.is_finite() {
            self.losses.disordered += 1;
            return;
        }
        let row = self.row(key);
        if self.estimate.is_some() {
            return self.estimate_at(row, value);
        }
        if let Some(count) = self.counts.get_mut(row * self.stride + self.scale.bucket(value)) {
            *count += 1;
        }
        if let Some(sum) = self.sums.get_mut(row) {
            *sum += value;
        }
    }

    /// Returns whether its buckets are powers of two: each contains whole buckets of the kernel.
    pub fn is_log2(&self) -> bool {
        matches!(self.scale, Scale::Log2)
    }

    /// Adds values that the kernel has counted by bucket, a value of each with its count, and their
    /// sum; without a key, to the folded keys.
    pub fn add_counted(&mut self, key: Option<&[Word]>, buckets: &[(u64, u64)], sum: f64) {
        let row = key.map(|key| self.row(key));
        for (value, count) in buckets {
            let bucket = self.scale.bucket(*value as f64);
            let place = match row {
                Some(row) => self.counts.get_mut(row * self.stride + bucket),
                None => self.folded.get_mut(bucket),
            };
            place.into_iter().for_each(|place| *place += count);
        }
        match row.and_then(|row| self.sums.get_mut(row)) {
            Some(into) => *into += sum,
            None => {
                let count: u64 = buckets.iter().map(|(_, count)| count).sum();
                self.folded_keys += count;
                self.losses.evicted += count;
                self.folded_sum += sum;
            }
        }
    }

    #[inline(always)]
    fn row(&mut self, key: &[Word]) -> usize {
        match self.keys.find_recent(key) {
            Some(row) => row,
            None => self.new_row(key),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_row(&mut self, key: &[Word]) -> usize {
        if self.keys.len() >= self.capacity && !self.grow() {
            self.fold();
        }
        self.counts.resize(self.counts.len() + self.stride, 0);
        self.sums.push(0.0);
        if let Some(estimate) = &mut self.estimate {
            estimate.variances.resize(self.counts.len(), Variance::default());
        }
        self.keys.insert(key)
    }

    /// Requests memory for more rows and returns whether there is room.
    fn grow(&mut self) -> bool {
        let grown = self.room.grow();
        self.capacity = (self.room.bytes() / self.row_bytes).max(2);
        if grown {
            let more = self.capacity.saturating_sub(self.keys.len());
            self.keys.reserve(more);
            self.counts.reserve_exact(more * self.stride);
            self.sums.reserve_exact(more);
        }
        self.keys.len() < self.capacity
    }

    fn fold(&mut self) {
        let mut survivors = std::mem::take(&mut self.survivors);
        first_half(self.keys.len(), &mut survivors, |a, b| self.order(a, b));
        let mut next = survivors.iter().peekable();
        for row in 0..self.keys.len() {
            if next.next_if(|survivor| **survivor as usize == row).is_none() {
                let counts = self.counts.iter().skip(row * self.stride);
                self.folded.iter_mut().zip(counts).for_each(|(into, count)| *into += count);
                self.folded_sum += self.sum_at(row);
                self.estimate.iter_mut().for_each(|to| to.fold_row(row, self.stride));
                self.folded_keys += 1;
                self.losses.evicted += 1;
            }
        }
        gather(&mut self.counts, self.stride, &survivors);
        gather(&mut self.sums, 1, &survivors);
        if let Some(estimate) = &mut self.estimate {
            gather(&mut estimate.variances, self.stride, &survivors);
        }
        self.keys.keep(&survivors);
        self.survivors = survivors;
    }

    /// Compares two rows in drawing order: by total count, descending.
    pub fn order(&self, a: usize, b: usize) -> Ordering {
        let total = |row| self.counts_at(row).iter().sum::<u64>();
        total(b).cmp(&total(a))
    }

    fn counts_at(&self, row: usize) -> &[u64] {
        self.counts.get(row * self.stride..(row + 1) * self.stride).unwrap_or_default()
    }

    /// Returns every key and its buckets, in no particular order.
    pub fn rows(&self) -> impl Iterator<Item = (&[Word], Vec<Bucket>)> {
        let buckets = |row| self.scale.drawn(self.counts_at(row));
        self.keys.iter().enumerate().map(move |(row, key)| (key, buckets(row)))
    }

    /// Returns the number of keys that the bound folded since the last [`Aggregate::clear`], and
    /// their buckets.
    pub fn folded(&self) -> Option<(u64, Vec<Bucket>)> {
        (self.folded_keys > 0).then(|| (self.folded_keys, self.scale.drawn(&self.folded)))
    }

    /// Returns the sum of the values of each key, in the order of [`Histograms::rows`], and that of
    /// the keys that the bound folded.
    pub fn sums(&self) -> (&[f64], f64) {
        (&self.sums, self.folded_sum)
    }

    /// Returns the number of buckets of each histogram, including the open ones.
    pub fn buckets(&self) -> usize {
        self.stride
    }

    fn sum_at(&self, row: usize) -> f64 {
        self.sums.get(row).copied().unwrap_or(0.0)
    }

    /// Returns the counts of values not recorded unchanged since the table was made.
    pub fn losses(&self) -> HistLosses {
        self.losses
    }
}

impl Aggregate for Histograms {
    fn clear(&mut self) {
        self.keys.clear();
        self.counts.clear();
        self.sums.clear();
        self.folded.fill(0);
        self.folded_sum = 0.0;
        self.folded_keys = 0;
        if let Some(estimate) = &mut self.estimate {
            estimate.clear();
        }
    }

    fn merge(&mut self, other: &Self) {
        for (from, key) in other.keys.iter().enumerate() {
            let row = self.row(key);
            let into = self.counts.iter_mut().skip(row * self.stride);
            into.zip(other.counts_at(from)).for_each(|(into, count)| *into += count);
            if let Some(sum) = self.sums.get_mut(row) {
                *sum += other.sum_at(from);
            }
            if let (Some(to), Some(other)) = (&mut self.estimate, &other.estimate) {
                to.merge_row(row, other, from, self.stride);
            }
        }
        if let (Some(to), Some(other)) = (&mut self.estimate, &other.estimate) {
            to.merge_folded(other);
        }
        self.folded_sum += other.folded_sum;
        self.folded.iter_mut().zip(&other.folded).for_each(|(into, count)| *into += count);
        self.folded_keys += other.folded_keys;
    }

    fn mark(&self, marks: &mut Marks) {
        self.keys.iter().flatten().for_each(|word| marks.mark_word(*word));
    }

    fn same_shape(&self) -> Self {
        let (room, row_bytes) = (self.room.another(), self.row_bytes);
        let weight = self.estimate.as_ref().map(|estimate| estimate.weight.clone());
        let new = Histograms::new(self.scale, self.keys.arity(), 0).with_weight(weight);
        Histograms { capacity: 0, room, row_bytes, ..new }
    }
}

impl Leaf for Histograms {
    /// Doubles: the value, then the key. Bit i of the flags is set if word i of the key is a
    /// string.
    #[inline(always)]
    fn take(&mut self, doubles: &[f64], flags: u32) -> u32 {
        if let Some((value, key)) = doubles.split_first() {
            let mut buffer = Word::BUFFER;
            self.add(words(&mut buffer, key, flags), *value);
        }
        0
    }
}

#[cfg(test)]
mod tests;
