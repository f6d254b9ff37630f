//! Rows of pairs that programs in the kernel have filled: the sum of the values of all CPUs.

use crate::bpf::bucket;
use crate::bpf::count::CountLayout;
use crate::bpf::key::KeyShape;
use crate::bpf::pair::layout::{PairLayout, PairRowContent};
use crate::source::counted_row::{KeyValue, add_sums, word};

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
        /// The sum of each column.
        sums: &'a [i128],
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

/// The sum of the values of a row of delays over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DelaySum {
    count: u64,
    sum: u128,
    /// The complement of the least delay.
    least: u64,
    greatest: u64,
}

impl DelaySum {
    fn of(values: &[u8], row_bytes: usize) -> DelaySum {
        let rows = values.chunks_exact(row_bytes);
        rows.fold(DelaySum::default(), |all, row| DelaySum {
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

/// Passes a row of a count to `each`, unless it has no events; `values` has the values of all CPUs.
fn pass_count(
    (number, layout, row_bytes): (usize, &CountLayout, usize),
    key: Option<&[KeyValue<'_>]>,
    values: &[u8],
    each: &mut dyn FnMut(&PairRow<'_>),
) {
    let (mut count, mut sums) = (0, vec![0; layout.sums]);
    for value in values.chunks_exact(row_bytes) {
        count += word(value, 0);
        add_sums(layout, value, &mut sums);
    }
    if count > 0 {
        each(&PairRow::Count { number, key, count, sums: &sums });
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
    let (rest, row_bytes) = (key.get(8..).unwrap_or_default(), layout.row_bytes());
    match PairLayout::content(word(key, 0)) {
        PairRowContent::Delays(number) => {
            let sum = DelaySum::of(values, row_bytes);
            let buckets = [(bucket::shortest(number), sum.count)];
            if sum.count > 0 {
                each(&sum.row(Some(&parts(&layout.row, rest)), &buckets));
            }
        }
        PairRowContent::Count(number) => {
            let Some(of) = layout.counts.get(number) else { return };
            pass_count((number, of, row_bytes), Some(&parts(&of.key, rest)), values, each);
        }
    }
}

/// Passes the rows of a rest: `values` has the values of all CPUs of each of its rows, `buckets`
/// the numbers of delays by bucket.
pub(super) fn read_rest(
    layout: &PairLayout,
    values: &[Vec<u8>],
    buckets: &[u64],
    each: &mut dyn FnMut(&PairRow<'_>),
) {
    let row_bytes = layout.row_bytes();
    for (at, values) in values.iter().enumerate() {
        match at.checked_sub(1) {
            None => {
                let sum = DelaySum::of(values, row_bytes);
                if sum.count == 0 {
                    continue;
                }
                let filled = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
                let filled: Vec<_> =
                    filled.map(|(at, count)| (bucket::shortest(at), *count)).collect();
                each(&sum.row(None, &filled));
            }
            Some(number) => {
                let Some(of) = layout.counts.get(number) else { return };
                pass_count((number, of, row_bytes), None, values, each);
            }
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
            counts: vec![
                CountLayout { key: KeyShape { parts: vec![number; 2] }, ..CountLayout::default() },
                CountLayout { sums: 3, constants: vec![(0, 1)], ..CountLayout::default() },
            ],
            in_place: true,
            long: None,
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
            assert_eq!(*row, PairRow::Count { number: 0, key: Some(key), count: 7, sums: &[] });
            found += 1;
        });
        read_row(&layout(), &key, &bytes(&[0; 5]), &mut |row| panic!("{row:?}"));
        assert_eq!(found, 1);
    }

    #[test]
    fn a_count_has_the_sums_of_the_cpus() {
        let key = bytes(&[(1 << 16) + 1, 0, 0]);
        let values = bytes(&[[2, 600, 0, u64::MAX - 1, u64::MAX], [1, u64::MAX, 0, 5, 0]].concat());
        let mut found = 0;
        read_row(&layout(), &key, &values, &mut |row| {
            let sums = &[3, i128::from(u64::MAX) + 600, 3][..];
            assert_eq!(*row, PairRow::Count { number: 1, key: Some(&[]), count: 3, sums });
            found += 1;
        });
        assert_eq!(found, 1);
    }

    #[test]
    fn a_rest_has_the_buckets_of_its_delays() {
        let delays = bytes(&[2, 900, 0, !400, 500]);
        let layout = layout();
        let mut buckets = vec![0u64; bucket::BUCKETS];
        (buckets[bucket::bucket_of(400)], buckets[bucket::bucket_of(500)]) = (1, 1);
        let mut rows = Vec::new();
        let values = [delays, bytes(&[4, 0, 0, 0, 0])];
        read_rest(&layout, &values, &buckets, &mut |row| match row {
            PairRow::Delays(row) => rows.push((row.count, row.buckets.to_vec())),
            PairRow::Count { number, count, .. } => rows.push((*count, vec![(*number as u64, 0)])),
        });
        assert_eq!(rows, [(2, vec![(400, 1), (500, 1)]), (4, vec![(0, 0)])]);
        read_rest(&layout, &[vec![0; 40]], &[], &mut |row| panic!("{row:?}"));
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
