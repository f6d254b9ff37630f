//! Exponential buckets: those of a native histogram of Prometheus, and the classic buckets that
//! they add up to.

use std::collections::BTreeMap;

/// Schema of the native histograms: 16 buckets for each power of two, a resolution of 4.4 %.
pub(super) const SCHEMA: i32 = 4;

/// Buckets for each power of two.
const STEPS: i32 = 1 << SCHEMA;

/// Powers of two whose classic buckets are exported: seconds from 119 ns to 64 s, and plain values.
pub(super) const SECONDS: (i32, i32) = (-23, 6);
pub(super) const PLAIN: (i32, i32) = (0, 40);

/// Counts by the index of a native bucket. Bucket `i` holds the values above `2^((i-1)/16)` and up
/// to `2^(i/16)`.
#[derive(Clone, Debug, Default)]
pub(super) struct ExponentialBuckets {
    counts: BTreeMap<i32, u64>,
    zero: u64,
}

/// Buckets of a native histogram as Prometheus transfers them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NativeSpans {
    /// Gap to the span before, and number of buckets.
    pub(super) spans: Vec<(i32, u32)>,
    /// Difference of each count to the one before.
    pub(super) deltas: Vec<i64>,
    /// Values of 0 and below.
    pub(super) zero: u64,
}

impl ExponentialBuckets {
    /// Counts a value.
    pub(super) fn add(&mut self, value: f64, count: u64) {
        if value <= 0.0 {
            self.zero += count;
            return;
        }
        let index = (value.log2() * f64::from(STEPS)).ceil();
        *self.counts.entry(index as i32).or_default() += count;
    }

    /// Returns the highest value and the count of each classic bucket, the last one open.
    pub(super) fn classic(&self, (first, last): (i32, i32), out: &mut Vec<(f64, u64)>) {
        out.clear();
        out.extend((first..=last).map(|power| (f64::from(power).exp2(), 0)));
        out.push((f64::INFINITY, 0));
        let mut add = |at: usize, count| {
            if let Some(bucket) = out.get_mut(at) {
                bucket.1 += count;
            }
        };
        add(0, self.zero);
        for (index, count) in &self.counts {
            // The native buckets of a power of two end where its classic bucket ends.
            let power = (index + STEPS - 1).div_euclid(STEPS);
            add((power.clamp(first, last + 1) - first) as usize, *count);
        }
    }

    /// Returns the number of values of 0 and below.
    pub(super) fn zeros(&self) -> u64 {
        self.zero
    }

    /// Returns the index of the first bucket and the counts from it up to the last, without gaps.
    pub(super) fn dense(&self) -> Option<(i32, Vec<u64>)> {
        let (first, last) = (*self.counts.keys().next()?, *self.counts.keys().next_back()?);
        let each = (first..=last).map(|index| self.counts.get(&index).copied().unwrap_or(0));
        Some((first, each.collect()))
    }

    /// Returns the native buckets.
    pub(super) fn native(&self) -> NativeSpans {
        let mut native = NativeSpans { zero: self.zero, ..NativeSpans::default() };
        let (mut end, mut before) = (0, 0);
        for (index, count) in &self.counts {
            match native.spans.last_mut() {
                Some((_, length)) if *index == end => *length += 1,
                _ => native.spans.push((index - end, 1)),
            }
            end = index + 1;
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            native.deltas.push(count - before);
            before = count;
        }
        native
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_buckets_are_sums_of_native_ones() {
        let mut buckets = ExponentialBuckets::default();
        for (value, count) in [(0.0, 1), (1e-9, 2), (0.25, 3), (0.26, 4), (1.0, 5), (100.0, 6)] {
            buckets.add(value, count);
        }
        let mut classic = Vec::new();
        buckets.classic(SECONDS, &mut classic);
        let filled: Vec<_> = classic.into_iter().filter(|bucket| bucket.1 > 0).collect();
        let least = f64::from(SECONDS.0).exp2();
        assert_eq!(filled, [(least, 3), (0.25, 3), (0.5, 4), (1.0, 5), (f64::INFINITY, 6)]);
    }

    #[test]
    fn spans_and_deltas_give_back_each_count() {
        let mut buckets = ExponentialBuckets::default();
        let values = [(0.001, 7), (0.00101, 2), (0.5, 3), (0.52, 9), (0.52, 1)];
        values.iter().for_each(|(value, count)| buckets.add(*value, *count));
        let native = buckets.native();
        let (mut index, mut count, mut deltas) = (0, 0, native.deltas.iter());
        let mut found = Vec::new();
        for (gap, length) in &native.spans {
            index += gap;
            for _ in 0..*length {
                count += deltas.next().unwrap();
                found.push((index, count as u64));
                index += 1;
            }
        }
        let expected: Vec<(i32, u64)> = buckets.counts.into_iter().collect();
        assert_eq!(found, expected);
        assert_eq!(found.iter().map(|(_, count)| count).sum::<u64>(), 22);
        assert!(native.spans.len() < found.len() + 1);
    }

    #[test]
    fn a_value_lies_within_its_bucket() {
        for value in [1e-7, 3.3e-5, 0.0625, 1.0, 1.001, 17.5] {
            let mut buckets = ExponentialBuckets::default();
            buckets.add(value, 1);
            let index = f64::from(*buckets.counts.keys().next().unwrap());
            let bound = |index: f64| (index / f64::from(STEPS)).exp2();
            assert!(bound(index - 1.0) < value && value <= bound(index), "{value}");
        }
    }
}
