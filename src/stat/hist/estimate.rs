//! Estimates of histograms whose records stand for several events: they count weights instead of 1,
//! and sum the variance of each count.

use super::Histograms;
use crate::base::report::draw::Bucket;
use crate::stat::weight::{EventWeight, error_of, variance_of};
use std::rc::Rc;

/// The variances of the counts of a table whose records stand for several events.
pub(super) struct HistEstimate {
    pub(super) weight: Rc<EventWeight>,
    /// One for each of the counts.
    pub(super) variances: Vec<f64>,
    folded: Vec<f64>,
}

impl HistEstimate {
    /// Adds the variances of a row to those of the folded keys.
    pub(super) fn fold_row(&mut self, row: usize, stride: usize) {
        let variances = self.variances.iter().skip(row * stride);
        self.folded.iter_mut().zip(variances).for_each(|(into, add)| *into += add);
    }

    /// Adds the variances of row `from` of another table.
    pub(super) fn merge_row(&mut self, row: usize, other: &Self, from: usize, stride: usize) {
        let into = self.variances.iter_mut().skip(row * stride);
        let from = other.variances.iter().skip(from * stride).take(stride);
        into.zip(from).for_each(|(into, add)| *into += add);
    }

    /// Adds the variances of another table's folded keys.
    pub(super) fn merge_folded(&mut self, other: &Self) {
        self.folded.iter_mut().zip(&other.folded).for_each(|(into, add)| *into += add);
    }

    /// Removes all variances.
    pub(super) fn clear(&mut self) {
        self.variances.clear();
        self.folded.fill(0.0);
    }
}

impl Histograms {
    /// Adds the weight of each event instead of 1, if there is one.
    pub fn with_weight(self, weight: Option<Rc<EventWeight>>) -> Histograms {
        let Some(weight) = weight else { return self };
        let row_bytes = self.row_bytes + self.stride * size_of::<f64>();
        let capacity = (self.room.bytes() / row_bytes).max(2);
        let folded = vec![0.0; self.stride];
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
            *variance += variance_of(weight);
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
        let of_bucket = |bucket: &Bucket| variances.get(self.scale.bucket(bucket.low as f64));
        Some(drawn.iter().map(|b| error_of(of_bucket(b).copied().unwrap_or(0.0))).collect())
    }

    /// Returns the variance of the number of values of each key, in the order of
    /// [`Histograms::rows`], and that of the folded keys; None if counts are exact.
    pub fn variances(&self) -> Option<(Vec<f64>, f64)> {
        let estimate = self.estimate.as_ref()?;
        let of_rows = estimate.variances.chunks(self.stride).map(|row| row.iter().sum());
        Some((of_rows.collect(), estimate.folded.iter().sum()))
    }
}
