//! Estimates of histograms whose records stand for several events: they count weights instead of 1,
//! and sum the variance of each count.

use super::Histograms;
use crate::base::report::draw::Bucket;
use crate::stat::weight::{EventWeight, Variance, error_of, sum_of_same_time};
use std::rc::Rc;

/// The variances of the counts of a table whose records stand for several events.
pub(super) struct HistEstimate {
    pub(super) weight: Rc<EventWeight>,
    /// One for each of the counts.
    pub(super) variances: Vec<Variance>,
    folded: Vec<Variance>,
}

impl HistEstimate {
    /// Adds the variances of a row to those of the folded keys.
    pub(super) fn fold_row(&mut self, row: usize, stride: usize) {
        let variances = self.variances.iter().skip(row * stride);
        let add = |(into, add): (&mut Variance, _)| into.merge_same_time(add, &self.weight);
        self.folded.iter_mut().zip(variances).for_each(add);
    }

    /// Adds the variances of row `from` of another table.
    pub(super) fn merge_row(&mut self, row: usize, other: &Self, from: usize, stride: usize) {
        let into = self.variances.iter_mut().skip(row * stride);
        let from = other.variances.iter().skip(from * stride).take(stride);
        into.zip(from).for_each(|(into, add)| into.merge(add.value(&other.weight)));
    }

    /// Adds the variances of another table's folded keys.
    pub(super) fn merge_folded(&mut self, other: &Self) {
        let add = |(into, add): (&mut Variance, &Variance)| into.merge(add.value(&other.weight));
        self.folded.iter_mut().zip(&other.folded).for_each(add);
    }

    /// Removes all variances.
    pub(super) fn clear(&mut self) {
        self.variances.clear();
        self.folded.fill(Variance::default());
    }
}

impl Histograms {
    /// Adds the weight of each event instead of 1, if there is one.
    pub fn with_weight(self, weight: Option<Rc<EventWeight>>) -> Histograms {
        let Some(weight) = weight else { return self };
        let row_bytes = self.row_bytes + self.stride * size_of::<Variance>();
        let capacity = (self.room.bytes() / row_bytes).max(2);
        let folded = vec![Variance::default(); self.stride];
        let estimate = Some(Box::new(HistEstimate { weight, variances: Vec::new(), folded }));
        Histograms { row_bytes, capacity, estimate, ..self }
    }

    /// Counts `value` as often as the weight of the event says.
    #[cold]
    #[inline(never)]
    pub(super) fn estimate_at(&mut self, row: usize, value: f64) {
        let Some(estimate) = &mut self.estimate else { return };
        let weight = estimate.weight.get();
        let at = row * self.stride + self.scale.bucket(value);
        if let (Some(count), Some(variance)) =
            (self.counts.get_mut(at), estimate.variances.get_mut(at))
        {
            *count += weight as u64;
            variance.add(&estimate.weight, 1.0);
        }
        if let Some(sum) = self.sums.get_mut(row) {
            *sum += value * weight;
        }
    }

    /// Returns the errors of the counts of drawn buckets of a row, or of the folded keys; None if
    /// counts are exact.
    pub fn errors(&self, row: Option<usize>, drawn: &[Bucket]) -> Option<Vec<f64>> {
        let estimate = self.estimate.as_ref()?;
        let variances = match row {
            Some(row) => estimate.variances.get(row * self.stride..(row + 1) * self.stride)?,
            None => &estimate.folded[..],
        };
        let error = |bucket: &Bucket| {
            let variance = variances.get(self.scale.bucket(bucket.low as f64));
            error_of(variance.map_or(0.0, |variance| variance.value(&estimate.weight)))
        };
        Some(drawn.iter().map(error).collect())
    }

    /// Returns the variance of the number of values of each key, in the order of
    /// [`Histograms::rows`], and that of the folded keys; None if counts are exact.
    pub fn variances(&self) -> Option<(Vec<f64>, f64)> {
        let estimate = self.estimate.as_ref()?;
        let weight = &*estimate.weight;
        let sum =
            |row: &[Variance]| sum_of_same_time(row.iter().map(|one| one.value(weight)), weight);
        Some((estimate.variances.chunks(self.stride).map(sum).collect(), sum(&estimate.folded)))
    }
}
