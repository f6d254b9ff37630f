//! Rows of pairs that programs in the kernel have filled: the sum of the values of all CPUs.

use crate::bpf::bucket;
use crate::bpf::key::KeyShape;
use crate::bpf::pair::layout::{PairLayout, PairRowContent, ROW_BYTES};
use crate::source::counted_row::{KeyValue, word};

/// A row of the results of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairRow<'a> {
    /// Delays.
    Delays(DelayRow<'a>),
    /// A count.
    Count {
        /// Its number.
        number: usize,
        /// Its key; None for the events whose key had no room.
        key: Option<&'a [KeyValue<'a>]>,
        /// Number of events.
        count: u64,
    },
}

/// Delays of one key; further rows may have more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayRow<'a> {
    /// The key; None for delays that had no room.
    pub key: Option<&'a [KeyValue<'a>]>,
    /// Their number.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u128,
    /// The least one.
    pub least_ns: u64,
    /// The greatest one.
    pub greatest_ns: u64,
    /// Their numbers by bucket: the shortest delay of the bucket, and its number of delays.
    pub buckets: &'a [(u64, u64)],
}

/// A start without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenStart<'a> {
    /// Its key.
    pub key: &'a [KeyValue<'a>],
    /// Its time (`CLOCK_MONOTONIC`).
    pub time_ns: u64,
    /// The values that it keeps.
    pub kept: &'a [KeyValue<'a>],
}

/// The sum of the values of a row over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowSum {
    count: u64,
    sum: u128,
    /// The complement of the least delay.
    least: u64,
    greatest: u64,
}

impl RowSum {
    fn of(values: &[u8]) -> RowSum {
        let rows = values.chunks_exact(ROW_BYTES);
        rows.fold(RowSum::default(), |all, row| RowSum {
            count: all.count + word(row, 0),
            sum: all.sum + (u128::from(word(row, 2)) << 64 | u128::from(word(row, 1))),
            least: all.least.max(word(row, 3)),
            greatest: all.greatest.max(word(row, 4)),
        })
    }

    fn row<'a>(&self, key: Option<&'a [KeyValue<'a>]>, buckets: &'a [(u64, u64)]) -> PairRow<'a> {
        PairRow::Delays(DelayRow {
            key,
            count: self.count,
            sum_ns: self.sum,
            least_ns: !self.least,
            greatest_ns: self.greatest,
            buckets,
        })
    }
}

/// Passes the row of a key of the table to `each`; `values` has the values of all CPUs. A key
/// without events was created by a program that has not added to it yet; it has no row.
pub(super) fn read_row(
    layout: &PairLayout,
    key: &[u8],
    values: &[u8],
    each: &mut dyn FnMut(&PairRow<'_>),
) {
    let sum = RowSum::of(values);
    if sum.count == 0 {
        return;
    }
    let rest = key.get(8..).unwrap_or_default();
    match PairLayout::content(word(key, 0)) {
        PairRowContent::Delays(number) => {
            let buckets = [(bucket::shortest(number), sum.count)];
            each(&sum.row(Some(&parts(&layout.row, rest)), &buckets));
        }
        PairRowContent::Count(number) => {
            let Some(shape) = layout.counts.get(number) else { return };
            let key = parts(shape, rest);
            each(&PairRow::Count { number, key: Some(&key), count: sum.count });
        }
    }
}

/// Passes the rows of a rest: `values` has the values of all CPUs of each of its rows, `buckets`
/// the numbers of delays by bucket.
pub(super) fn read_rest(values: &[Vec<u8>], buckets: &[u64], each: &mut dyn FnMut(&PairRow<'_>)) {
    for (at, values) in values.iter().enumerate() {
        let sum = RowSum::of(values);
        if sum.count == 0 {
            continue;
        }
        match at.checked_sub(1) {
            None => {
                let filled = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
                let filled: Vec<_> =
                    filled.map(|(at, count)| (bucket::shortest(at), *count)).collect();
                each(&sum.row(None, &filled));
            }
            Some(number) => each(&PairRow::Count { number, key: None, count: sum.count }),
        }
    }
}

/// Passes a start to `each`, unless it has ended.
pub(super) fn read_start(
    layout: &PairLayout,
    key: &[u8],
    value: &[u8],
    each: &mut dyn FnMut(&OpenStart<'_>),
) {
    let time_ns = word(value, 0);
    if time_ns > 0 {
        let kept = parts(&layout.kept, value.get(8..).unwrap_or_default());
        each(&OpenStart { key: &parts(&layout.pair, key), time_ns, kept: &kept });
    }
}

fn parts<'a>(shape: &KeyShape, bytes: &'a [u8]) -> Vec<KeyValue<'a>> {
    KeyValue::read_all(bytes, shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::key::PartShape;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn layout() -> PairLayout {
        let number = PartShape::INTEGER;
        PairLayout {
            pair: KeyShape { parts: vec![number] },
            kept: KeyShape { parts: vec![number] },
            row: KeyShape { parts: vec![number] },
            counts: vec![KeyShape { parts: vec![number; 2] }],
            in_place: true,
        }
    }

    #[test]
    fn a_row_is_the_sum_of_the_cpus() {
        let values = [[2, u64::MAX, 0, !300, 301], [0; 5], [1, 2, 1, !299, 299]].concat();
        let mut found = 0;
        read_row(&layout(), &bytes(&[277, 39, 0]), &bytes(&values), &mut |row| {
            let delays = DelayRow {
                key: Some(&[KeyValue::Integer(39)]),
                count: 3,
                sum_ns: (2 << 64) + 1,
                least_ns: 299,
                greatest_ns: 301,
                buckets: &[(298, 3)],
            };
            assert_eq!(*row, PairRow::Delays(delays));
            found += 1;
        });
        assert_eq!(found, 1);
    }

    #[test]
    fn a_count_has_its_number_and_key() {
        let (key, values) = (bytes(&[1 << 16, 39, u64::MAX]), bytes(&[7, 0, 0, 0, 0]));
        let mut found = 0;
        read_row(&layout(), &key, &values, &mut |row| {
            let key = &[KeyValue::Integer(39), KeyValue::Integer(u64::MAX)][..];
            assert_eq!(*row, PairRow::Count { number: 0, key: Some(key), count: 7 });
            found += 1;
        });
        read_row(&layout(), &key, &bytes(&[0; 5]), &mut |row| panic!("{row:?}"));
        assert_eq!(found, 1);
    }

    #[test]
    fn a_rest_has_the_buckets_of_its_delays() {
        let delays = bytes(&[2, 900, 0, !400, 500]);
        let mut buckets = vec![0u64; bucket::BUCKETS];
        (buckets[bucket::bucket_of(400)], buckets[bucket::bucket_of(500)]) = (1, 1);
        let mut rows = Vec::new();
        let values = [delays, bytes(&[4, 0, 0, 0, 0])];
        read_rest(&values, &buckets, &mut |row| match row {
            PairRow::Delays(row) => rows.push((row.count, row.buckets.to_vec())),
            PairRow::Count { number, count, .. } => rows.push((*count, vec![(*number as u64, 0)])),
        });
        assert_eq!(rows, [(2, vec![(400, 1), (500, 1)]), (4, vec![(0, 0)])]);
        read_rest(&[vec![0; 40]], &[], &mut |row| panic!("{row:?}"));
    }

    #[test]
    fn a_start_that_has_ended_is_not_open() {
        let key = bytes(&[1234]);
        let mut times = Vec::new();
        for time in [0, 5] {
            read_start(&layout(), &key, &bytes(&[time, 39]), &mut |start| {
                assert_eq!(start.key, [KeyValue::Integer(1234)]);
                assert_eq!(start.kept, [KeyValue::Integer(39)]);
                times.push(start.time_ns);
            });
        }
        assert_eq!(times, [5]);
    }
}
