//! Adds pairs that the kernel has measured to the aggregates of scripts.

use super::Aggregates;
use super::body::KernelTarget;
use super::counted::WITHOUT_STACKS;
use crate::script::evsel::declared_pairs::{DeclaredPairs, PairTarget};
use crate::source::counted_row::CountedRow;
use crate::source::counting::pair_rows::{DelayRow, OpenStart, PairRow};
use crate::stat::latency::MeasuredDelays;
use crate::stat::pending::PendingLosses;
use crate::stat::word::{Word, hash};

impl Aggregates {
    /// Adds a row of pairs that the kernel has measured. The key of a delay has a part for each
    /// column that is there.
    pub(in crate::script) fn add_pairs(&self, pairs: &DeclaredPairs, row: &PairRow<'_>) {
        match row {
            PairRow::Delays(row) => {
                let key = row.key.map(|key| self.words(key));
                self.add_delays(pairs, row, key.as_deref());
            }
            PairRow::Count { number, key, count, sums } => {
                if let Some(table) = pairs.table_of_count(*number) {
                    let row = CountedRow { key: *key, count: *count, name: None, sums };
                    self.add_counted(table, &row, WITHOUT_STACKS);
                }
            }
        }
    }

    /// Returns whether a histogram can contain delays that the kernel has counted by bucket.
    pub(in crate::script) fn counts_delays(&self, histogram: usize) -> bool {
        let target = self.one(histogram);
        target.is_some_and(|one| one.body.kernel_target().is_some())
    }

    fn add_delays(&self, pairs: &DeclaredPairs, row: &DelayRow<'_>, key: Option<&[Word]>) {
        let PairTarget::Delays(times) = pairs.target else { return };
        let Some(declared) = self.one(times) else { return };
        let Some(KernelTarget::Delays(latency)) = declared.body.kernel_target() else { return };
        latency.borrow_mut().add_measured(
            key,
            &MeasuredDelays {
                count: row.count,
                sum_ns: row.sum_ns,
                least_ns: row.least_ns,
                greatest_ns: row.greatest_ns,
                buckets: row.buckets,
            },
        );
        let Some((histogram, columns)) = &pairs.histogram else { return };
        let Some(declared) = self.one(*histogram) else { return };
        let Some(KernelTarget::Histograms(spread)) = declared.body.kernel_target() else { return };
        let place = |column: &usize| {
            let before = pairs.present.get(..*column)?;
            Some(before.iter().filter(|is_present| **is_present).count())
        };
        let key: Option<Vec<Word>> = key.map(|key| {
            columns.iter().filter_map(|column| key.get(place(column)?).copied()).collect()
        });
        spread.borrow_mut().add_counted(key.as_deref(), row.buckets, row.sum_ns as f64);
    }

    /// Adds starts that the kernel took and dropped, and delays that it did not record unchanged.
    pub(in crate::script) fn add_pair_losses(&self, pairs: &DeclaredPairs, of: &PairLosses) {
        if let Some(declared) = pairs.open.and_then(|open| self.one(open))
            && let Some(KernelTarget::Starts(pending)) = declared.body.kernel_target()
        {
            pending.borrow_mut().add_counted(of.starts, of.dropped, of.open);
        }
        if let Some(declared) = self.one(pairs.target_number())
            && let Some(KernelTarget::Delays(latency)) = declared.body.kernel_target()
        {
            latency.borrow_mut().add_losses(of.disordered, of.clamped);
        }
    }

    /// Adds a start without an end, with its time in nanoseconds of the run. If its key has several
    /// parts, its key is a number that is computed from them.
    pub(in crate::script) fn add_open(&self, pairs: &DeclaredPairs, of: &OpenStart<'_>, time: f64) {
        let Some(declared) = pairs.open.and_then(|open| self.one(open)) else { return };
        let Some(KernelTarget::Starts(pending)) = declared.body.kernel_target() else { return };
        let (key, kept) = (self.words(of.key), self.words(of.kept));
        let key = match key[..] {
            [key] => key,
            // A double has 53 bits.
            _ => Word::number((hash(&key) >> 11) as f64),
        };
        pending.borrow_mut().take_over(key, time, &kept);
    }
}

/// Starts that the kernel took and dropped, and delays that it did not record unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairLosses {
    /// Starts.
    pub starts: u64,
    /// Those that were dropped.
    pub dropped: PendingLosses,
    /// Starts that the kernel keeps now.
    pub open: u64,
    /// Delays below 0.
    pub disordered: u64,
    /// Delays that are too long for the buckets.
    pub clamped: u64,
}
