//! Delays that the kernel has measured and counted by bucket.

use super::{LONGEST_NS, Latency, Timing, empty_histogram};
use crate::stat::sum::Sum;
use crate::stat::word::Word;

/// Delays that the kernel has measured.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredDelays<'a> {
    /// Their number.
    pub count: u64,
    /// Their sum.
    pub sum_ns: u128,
    /// The least one.
    pub least_ns: u64,
    /// The greatest one.
    pub greatest_ns: u64,
    /// A value of each bucket, and its number of delays.
    pub buckets: &'a [(u64, u64)],
}

impl Latency {
    /// Adds delays that the kernel has measured; without a key, to the row of folded keys.
    pub fn add_measured(&mut self, key: Option<&[Word]>, delays: &MeasuredDelays<'_>) {
        let row = key.map(|key| self.row_of(key));
        let timing = match row {
            Some(row) => self.timings.get_mut(row),
            None => {
                self.folded_keys += delays.count;
                self.losses.evicted += delays.count;
                Some(self.folded.get_or_insert_with(|| Timing::new(empty_histogram())))
            }
        };
        let Some(timing) = timing else { return };
        let before = timing.histogram.distinct_values();
        timing.count += delays.count;
        timing.total.merge(&Sum::whole(delays.sum_ns.cast_signed()));
        timing.min = timing.min.min(delays.least_ns as f64);
        timing.max = timing.max.max(delays.greatest_ns as f64);
        for (ns, count) in delays.buckets {
            // Cannot fail: the histogram resizes itself, up to this limit.
            let ns = (*ns).min(LONGEST_NS as u64);
            let _ = timing.histogram.record_n(ns, u32::try_from(*count).unwrap_or(u32::MAX));
        }
        let grown = timing.histogram.distinct_values() - before;
        if row.is_some() && grown > 0 {
            self.bytes += grown * size_of::<u32>();
            self.fold_if_full();
        }
    }

    /// Counts delays that the kernel did not record unchanged.
    pub fn add_losses(&mut self, disordered: u64, clamped: u64) {
        self.losses.disordered += disordered;
        self.losses.clamped += clamped;
    }
}
