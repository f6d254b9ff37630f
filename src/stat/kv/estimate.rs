//! Estimates of a table whose records stand for several events: it adds weights instead of 1, and
//! sums the variance of each count and sum.

use super::super::keys::gather;
use super::super::sum::Sum;
use super::super::weight::{EventWeight, Variance};
use super::Kv;
use std::rc::Rc;

/// The variances of a table's rows.
pub(super) struct KvEstimate {
    weight: Rc<EventWeight>,
    /// Number of sums in a row.
    width: usize,
    /// Variance of the count, then of the sums, row by row.
    rows: Vec<Variance>,
    /// Those of the folded keys.
    folded: Vec<Variance>,
}

impl KvEstimate {
    pub(super) fn new(weight: Rc<EventWeight>, width: usize) -> KvEstimate {
        KvEstimate { weight, width, rows: Vec::new(), folded: vec![Variance::default(); width + 1] }
    }

    /// Returns an estimate of a table without rows.
    pub(super) fn empty(&self) -> KvEstimate {
        KvEstimate::new(self.weight.clone(), self.width)
    }

    /// Returns the bytes of a row.
    pub(super) fn row_bytes(width: usize) -> usize {
        (width + 1) * size_of::<Variance>()
    }

    /// Returns the weight of the event that is being added.
    pub(super) fn weight(&self) -> f64 {
        self.weight.get()
    }

    /// Returns the variances of a row: of its count, then of its sums.
    pub(super) fn row(&self, row: usize) -> KvVariances<'_> {
        let width = self.width + 1;
        let of = self.rows.get(row * width..(row + 1) * width).unwrap_or_default();
        KvVariances { of, weight: Some(&self.weight) }
    }

    /// Returns those of the folded keys.
    pub(super) fn folded(&self) -> KvVariances<'_> {
        KvVariances { of: &self.folded, weight: Some(&self.weight) }
    }

    fn row_mut(&mut self, row: usize) -> &mut [Variance] {
        let width = self.width + 1;
        if self.rows.len() < (row + 1) * width {
            self.rows.resize((row + 1) * width, Variance::default());
        }
        &mut self.rows[row * width..(row + 1) * width]
    }

    /// Adds the variances of values that are added to the sums from `first` on, and that of a count
    /// if the event `is_counted`.
    pub(super) fn add(&mut self, row: usize, first: usize, values: &[f64], is_counted: bool) {
        let weight = self.weight.clone();
        let row = self.row_mut(row);
        if is_counted {
            row[0].add(&weight, 1.0);
        }
        let sums = row.iter_mut().skip(1 + first);
        sums.zip(values).for_each(|(sum, value)| sum.add(&weight, *value));
    }

    /// Adds the variances of `count` events, whose values have these sums, to a row, or to those of
    /// the folded keys.
    fn add_events(&mut self, row: Option<usize>, count: u64, sums: &[Sum]) {
        let weight = self.weight.clone();
        let variances = match row {
            Some(row) => self.row_mut(row),
            None => &mut self.folded[..],
        };
        let sums = sums.iter().map(Sum::value);
        let values = std::iter::once(count as f64).chain(sums);
        variances.iter_mut().zip(values).for_each(|(variance, value)| variance.add(&weight, value));
    }

    /// Adds the variances of a row of another table.
    pub(super) fn merge_row(&mut self, row: usize, variances: KvVariances<'_>) {
        self.row_mut(row)
            .iter_mut()
            .zip(variances.values())
            .for_each(|(into, add)| into.merge(add));
    }

    /// Adds the variances of a row to those of the folded keys.
    pub(super) fn fold_row(&mut self, row: usize) {
        let variances = self.rows.iter().skip(row * (self.width + 1));
        let add = |(into, add): (&mut Variance, _)| into.merge_same_time(add, &self.weight);
        self.folded.iter_mut().zip(variances).for_each(add);
    }

    /// Adds the variances of another table's folded keys.
    pub(super) fn merge_folded(&mut self, other: &KvEstimate) {
        let variances = other.folded().values();
        self.folded.iter_mut().zip(variances).for_each(|(into, add)| into.merge(add));
    }

    /// Keeps these of `rows` rows, in this order.
    pub(super) fn keep(&mut self, rows: usize, survivors: &[u32]) {
        self.rows.resize(rows * (self.width + 1), Variance::default());
        gather(&mut self.rows, self.width + 1, survivors);
    }

    /// Sets all variances to zero.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.folded.fill(Variance::default());
    }
}

/// The variances of a row: of the count, then of the sums; none if they are exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvVariances<'a> {
    of: &'a [Variance],
    weight: Option<&'a EventWeight>,
}

impl<'a> KvVariances<'a> {
    /// Returns the variance of the count, or from 1 on that of a sum; None if it is exact.
    pub fn get(&self, at: usize) -> Option<f64> {
        let (of, weight) = (self.of.get(at)?, self.weight?);
        Some(of.value(weight) + of.unseen(self.of.first()?, weight))
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Returns all of them.
    pub fn values(self) -> impl Iterator<Item = f64> + use<'a> {
        (0..self.of.len()).filter_map(move |at| self.get(at))
    }
}

impl Kv {
    /// Returns the variances of the folded keys.
    pub fn folded_variances(&self) -> KvVariances<'_> {
        self.estimate.as_ref().map(|estimate| estimate.folded()).unwrap_or_default()
    }

    /// Adds the weight of each event instead of 1, if there is one.
    pub fn with_weight(self, weight: Option<Rc<EventWeight>>) -> Kv {
        let Some(weight) = weight else { return self };
        let row_bytes = self.row_bytes + KvEstimate::row_bytes(self.shape.sums);
        let capacity = (self.room.bytes() / row_bytes).max(2);
        let estimate = Some(Box::new(KvEstimate::new(weight, self.shape.sums)));
        Kv { row_bytes, capacity, estimate, ..self }
    }

    /// Adds the weight of the event, and as many times `values`.
    #[cold]
    #[inline(never)]
    pub(super) fn estimate_at(
        &mut self,
        row: usize,
        first: usize,
        values: &[f64],
        is_counted: bool,
    ) {
        let Some(estimate) = &mut self.estimate else { return };
        let weight = estimate.weight();
        estimate.add(row, first, values, is_counted);
        if let Some(count) = self.counts.get_mut(row).filter(|_| is_counted) {
            *count += weight as u64;
        }
        let sums = self.sums.iter_mut().skip(row * self.shape.sums + first);
        sums.zip(values).for_each(|(sum, value)| sum.add(value * weight));
    }

    /// Returns the number of events that `count` events of the current weight stand for, and the
    /// sums of those, and adds their variances to a row, or to those of the folded keys. None if
    /// counts are exact.
    pub(super) fn estimate_row(
        &mut self,
        row: Option<usize>,
        count: u64,
        sums: &[Sum],
    ) -> Option<(u64, Vec<Sum>)> {
        let estimate = self.estimate.as_mut()?;
        let weight = estimate.weight();
        estimate.add_events(row, count, sums);
        let of_all = |sum: &Sum| if weight == 1.0 { *sum } else { sum.times(weight) };
        Some(((count as f64 * weight).round() as u64, sums.iter().map(of_all).collect()))
    }

    /// Returns whether counts and sums are estimates.
    pub fn is_estimated(&self) -> bool {
        self.estimate.is_some()
    }
}
