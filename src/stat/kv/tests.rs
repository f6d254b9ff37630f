//! Tests of a table of counts and sums at any bound.

use super::*;
use crate::base::report::cell::Cell;
use crate::stat::leaf::Leaf as _;
use crate::stat::weight::{EventWeight, error_of};
use crate::stat::word::WordContent;
use proptest::prelude::*;

fn kv(sums: usize, first: Vec<usize>, bound: usize) -> Kv {
    Kv::new(KvOptions { keys: 1, sums, first, named: true, bound })
}

fn number(n: u32) -> [Word; 1] {
    [Word::number(f64::from(n))]
}

#[test]
fn a_name_is_kept_for_one_unused_interval() {
    let mut kv = kv(1, vec![], 1 << 20);
    kv.add(&number(1), 0, &[10.0]);
    kv.name(&number(1), 9);
    kv.clear();
    assert_eq!(kv.rows().count(), 0);
    assert!(!kv.add(&number(1), 0, &[2.0]), "the name is still known");
    let row = kv.rows().next().unwrap();
    assert_eq!((row.count, row.sums[0].cell(), row.name), (1, Cell::whole(2), Some(9)));
    kv.clear();
    kv.clear();
    assert!(kv.add(&number(1), 0, &[2.0]), "the name was evicted");
}

#[test]
fn later_parts_of_a_wide_value_are_summed_and_not_counted() {
    let mut kv = kv(2, vec![], 1 << 20);
    let high = (1u64 << 63) as f64;
    let first = 1 << FIRST_SHIFT;
    kv.take(&[high, 7.0], first);
    kv.take(&[1.0, 7.0], first | MORE);
    let row = kv.rows().next().unwrap();
    assert_eq!((row.count, row.sums[1].cell()), (1, Cell::whole((1 << 63) + 1)));
    assert_eq!((kv.samples(), row.sums[0].cell()), (1, Cell::whole(0)));
}

#[test]
fn counts_and_sums_by_key() {
    let mut kv = kv(2, vec![], 1 << 20);
    assert!(kv.add(&number(1), 0, &[10.0, 1.0]));
    kv.name(&number(1), 9);
    assert!(!kv.add(&number(1), 1, &[5.0]));
    let row = kv.rows().next().unwrap();
    assert_eq!(
        (row.count, row.sums[0].cell(), row.sums[1].cell()),
        (2, Cell::whole(10), Cell::whole(6))
    );
    assert_eq!((row.name, kv.samples()), (Some(9), 2));
    kv.clear();
    assert_eq!((kv.rows().count(), kv.samples()), (0, 0));
}

#[test]
fn values_past_the_last_sum_are_ignored() {
    let mut kv = kv(1, vec![], 1 << 20);
    kv.add(&number(1), 1, &[5.0]);
    kv.add(&number(2), 0, &[5.0, 6.0]);
    assert!(kv.rows().all(|row| row.sums[0].cell() == Cell::whole(0)));
}

#[test]
fn the_first_sum_decides_what_stays_at_the_bound() {
    let mut kv = kv(2, vec![1], 4 * 100);
    let capacity = kv.capacity as u32;
    for i in 0..=capacity {
        kv.add(&number(i), 0, &[f64::from(capacity - i), f64::from(i)]);
    }
    assert!(kv.keys.find(&number(0)).is_none());
    assert!(kv.keys.find(&number(capacity - 1)).is_some());
    assert_eq!(kv.evicted(), u64::from(capacity.div_ceil(2)));
}

#[test]
fn rows_whose_keys_become_equal_are_one() {
    let mut kv = kv(1, vec![], 1 << 20);
    for i in 0..6 {
        kv.add(&number(i), 0, &[f64::from(i)]);
    }
    let odd = kv.rekeyed(|_, word| match word.part() {
        WordContent::Number(n) => Word::number(n % 2.0),
        WordContent::String(_) => word,
    });
    let rows = odd.rows().map(|row| (row.key[0], row.count, row.sums[0].cell()));
    let expected = [0.0, 1.0].map(Word::number).into_iter().zip([3, 3]).zip([6, 9]);
    let expected: Vec<_> =
        expected.map(|((key, count), sum)| (key, count, Cell::whole(sum))).collect();
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!((odd.samples(), kv.rows().count()), (6, 6));
}

#[test]
fn a_merge_adds_rows_and_folded_rows() {
    let (mut total, mut part) = (kv(1, vec![], 1 << 20), kv(1, vec![], 1));
    for round in 0..2 {
        for i in 0..3 {
            part.add(&number(i), 0, &[f64::from(round)]);
        }
        total.merge(&part);
        part.clear();
    }
    let rows: u64 = total.rows().map(|row| row.count).sum();
    assert_eq!(rows + total.folded().count, 6);
    assert_eq!(total.folded().keys, part.evicted());
}

proptest! {
    #[test]
    fn nothing_is_lost_at_any_bound(
        adds in prop::collection::vec((0u32..50, -1_000_000i64..1_000_000), 0..500),
        bound in 0usize..4000,
        named in any::<bool>(),
    ) {
        let mut kv = Kv::new(KvOptions { keys: 1, sums: 1, first: vec![], named, bound });
        for (key, value) in &adds {
            kv.add(&number(*key), 0, &[*value as f64]);
        }
        let mut total = kv.folded().sums[0];
        kv.rows().for_each(|row| total.merge(&row.sums[0]));
        let count = kv.folded().count + kv.rows().map(|row| row.count).sum::<u64>();
        prop_assert_eq!(total.cell(), Cell::whole(adds.iter().map(|a| i128::from(a.1)).sum()));
        prop_assert_eq!(count, adds.len() as u64);
        prop_assert!(kv.rows().count() <= kv.capacity);
    }
}

/// Returns a table that estimates, and its weight.
fn estimated(sums: usize, bound: usize) -> (Kv, Rc<EventWeight>) {
    let weight = Rc::new(EventWeight::default());
    weight.vary();
    (kv(sums, vec![], bound).with_weight(EventWeight::of_aggregate(&weight)), weight)
}

fn all(variances: KvVariances<'_>) -> Vec<f64> {
    variances.values().collect()
}

#[test]
fn a_weighted_event_counts_as_many_and_adds_its_variance() {
    let (mut kv, weight) = estimated(2, 1 << 20);
    kv.take(&[10.0, 7.0], 0);
    weight.set(5.0);
    kv.take(&[3.0, 7.0], 0);
    kv.take(&[2.0, 7.0], 1 << FIRST_SHIFT | MORE);
    let row = kv.rows().next().unwrap();
    assert_eq!(
        (row.count, row.sums[0].cell(), row.sums[1].cell()),
        (6, Cell::whole(25), Cell::whole(10))
    );
    assert_eq!(all(row.variances), [20.0, 9.0 * 20.0, 4.0 * 20.0]);
    assert_eq!(kv.samples(), 6);
    kv.clear();
    weight.set(1.0);
    kv.add(&number(7), 0, &[1.0]);
    let row = kv.rows().next().unwrap();
    assert_eq!((row.count, all(row.variances)), (1, vec![0.0; 3]), "an interval has its own");
}

#[test]
fn variances_follow_their_rows_through_merges_and_the_bound() {
    let (mut kv, weight) = estimated(1, 500);
    let rows = 200;
    for n in 0..rows {
        weight.set(f64::from(n % 5 + 1));
        kv.add(&number(n), 0, &[f64::from(n)]);
    }
    let mut total = kv.same_shape();
    total.merge(&kv);
    for table in [&kv, &total] {
        for row in table.rows() {
            let WordContent::Number(n) = row.key[0].part() else { panic!("keys are numbers") };
            let weight = n % 5.0 + 1.0;
            assert_eq!(
                all(row.variances),
                [weight * (weight - 1.0), n * n * weight * (weight - 1.0)]
            );
        }
        let of_rows: f64 = table.rows().map(|row| row.variances.get(0).unwrap()).sum();
        // Weights 1 to 5 have the variances 0, 2, 6, 12 and 20.
        assert_eq!(of_rows + table.folded_variances().get(0).unwrap(), f64::from(rows / 5 * 40));
    }
    assert!(kv.folded().keys > 0);
    let joined = kv.rekeyed(|_, _| Word::ZERO);
    let sum: f64 = kv.rows().map(|row| row.variances.get(0).unwrap()).sum();
    assert_eq!(joined.rows().next().unwrap().variances.get(0).unwrap(), sum);
}

#[test]
fn a_row_of_events_stands_for_the_weight_of_each() {
    let (mut kv, weight) = estimated(1, 1 << 20);
    let sums = |sum: i128| [Sum::whole(sum)];
    kv.add_row(Some(&number(7)), 100, &sums(300), None);
    // Two slices of 10 ms, each of which stands for 25.
    for (count, sum) in [(10, 41), (12, 48)] {
        weight.begin_slice(25e6, 0.1, 2.5);
        weight.set(2.5);
        kv.add_row(Some(&number(7)), count, &sums(sum), None);
        kv.add_row(None, 2, &sums(4), None);
    }
    let row = kv.rows().next().unwrap();
    assert_eq!((row.count, row.sums[0].cell()), (155, Cell::whole(523)));
    // They differ by 5 events, and a tenth of their 55 events may be missing.
    let deviation = row.variances.get(0).unwrap().sqrt();
    let (slowed, slices) = (0.1 * 55.0 / 1.96, 12.706 / 1.96 * 5.0);
    assert!((deviation - slowed - slices).abs() < 0.1, "{deviation}");
    assert_eq!((kv.folded().count, kv.folded().keys, kv.evicted()), (10, 4, 4));
    assert!(kv.folded_variances().get(0).unwrap() > 0.0);
}

#[test]
fn a_row_that_slices_have_not_seen_has_an_error() {
    let (mut kv, weight) = estimated(1, 1 << 20);
    for key in [1, 2] {
        kv.add_row(Some(&number(key)), 4, &[Sum::whole(20)], None);
    }
    assert_eq!(all(kv.rows().next().unwrap().variances), [0.0, 0.0], "no slice yet");
    weight.begin_slice(25e6, 0.0, 50.0);
    weight.set(50.0);
    kv.add_row(Some(&number(2)), 1, &[Sum::whole(5)], None);
    let errors = |row: KvRow<'_>| row.variances.values().map(error_of).collect::<Vec<_>>();
    let rows: Vec<_> = kv.rows().map(errors).collect();
    assert!((rows[0][0] - 150.0).abs() < 1e-6, "three events of the slice: {rows:?}");
    assert!((rows[0][1] - 750.0).abs() < 1e-6, "with the mean value: {rows:?}");
    weight.set(1.0);
    weight.end_slices();
    kv.clear();
    weight.begin_interval();
    kv.add_row(Some(&number(1)), 4, &[Sum::whole(20)], None);
    assert_eq!(all(kv.rows().next().unwrap().variances), [0.0, 0.0], "an interval of its own");
}
