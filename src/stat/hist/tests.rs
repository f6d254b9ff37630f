//! Buckets of both scales, and bounds of the table.

use super::*;
use crate::stat::weight::{EventWeight, error_of};
use proptest::prelude::*;

fn drawn(scale: Scale, values: &[f64]) -> Vec<(i64, i64, u64)> {
    let mut hist = Histograms::new(scale, 0, 0);
    values.iter().for_each(|value| hist.add(&[], *value));
    let buckets = hist.rows().next().map(|row| row.1).unwrap_or_default();
    buckets.into_iter().map(|bucket| (bucket.low, bucket.high, bucket.count)).collect()
}

#[test]
fn one_bucket_spans_zero_to_the_first_used_bucket() {
    let expected = [(0, 511, 0), (512, 1023, 2), (1024, 2047, 0), (2048, 4095, 1)];
    assert_eq!(drawn(Scale::Log2, &[800.0, 900.0, 2300.0]), expected);
    assert_eq!(drawn(Scale::Log2, &[4_100_000.0]), [(0, 2_097_151, 0), (2_097_152, 4_194_303, 1)]);
    assert_eq!(drawn(Scale::Log2, &[450.0])[..1], [(0, 255, 0)]);
}

#[test]
fn zero_and_one_share_the_first_bucket() {
    assert_eq!(drawn(Scale::Log2, &[0.0, 1.0, 1.9, 2.0, 4.0]), [(0, 1, 3), (2, 3, 1), (4, 7, 1)]);
    assert_eq!(drawn(Scale::Log2, &[]), []);
}

#[test]
fn powers_of_two_cover_every_double() {
    assert_eq!(drawn(Scale::Log2, &[-1.0]), [(i64::MIN, -1, 1)]);
    let top = (1 << 62, i64::MAX, 2);
    assert_eq!(drawn(Scale::Log2, &[2f64.powi(62), 1e300])[1..], [top]);
    for power in 1..63 {
        let low = 1i64 << power;
        assert_eq!(drawn(Scale::Log2, &[low as f64])[1].0, low);
    }
}

#[test]
fn steps_have_an_open_bucket_at_each_end() {
    let scale = Scale::linear(10, 10, 35).unwrap();
    let values = [9.9, -5.0, 10.0, 19.5, 30.0, 34.9, 35.0, 1e12];
    let expected = [(i64::MIN, 9, 2), (10, 19, 2), (20, 29, 0), (30, 34, 2), (35, i64::MAX, 2)];
    assert_eq!(drawn(scale, &values), expected);
    assert_eq!(drawn(scale, &[25.0]), [(20, 29, 1)]);
}

#[test]
fn an_invalid_scale_is_refused() {
    assert!(Scale::linear(0, 0, 10).is_err());
    assert!(Scale::linear(10, 1, 10).is_err());
    assert!(Scale::linear(i64::MIN, 1, i64::MAX).is_err());
    assert!(Scale::linear(0, 1, 1 << 40).is_err());
}

proptest! {
    #[test]
    fn every_value_lies_in_its_bucket(
        value in any::<i64>(),
        min in -1000i64..1000,
        step in 1i64..50,
    ) {
        let value = value >> (value & 63);
        for scale in [Scale::Log2, Scale::linear(min, step, min + 777).unwrap()] {
            let (low, high) = scale.bounds(scale.bucket(value as f64));
            let value = value as f64;
            prop_assert!(
                low as f64 <= value && value <= high as f64 + 1.0,
                "{value} in {low}..={high}"
            );
        }
    }

    #[test]
    fn nothing_is_lost_at_any_bound(
        adds in prop::collection::vec((0u32..40, -10f64..1000.0), 0..300),
        bound in 0usize..10_000,
    ) {
        let mut hist = Histograms::new(Scale::linear(0, 7, 500).unwrap(), 1, bound);
        adds.iter().for_each(|(key, value)| hist.add(&[Word::number(f64::from(*key))], *value));
        let folded = hist.folded().map(|folded| folded.1);
        let buckets = hist.rows().map(|row| row.1).chain(folded).flatten();
        prop_assert_eq!(buckets.map(|bucket| bucket.count).sum::<u64>(), adds.len() as u64);
    }
}

#[test]
fn sums_follow_their_rows_and_are_merged() {
    let key = |key: u32| [Word::number(f64::from(key))];
    let mut hist = Histograms::new(Scale::Log2, 1, 0);
    for i in 0..40 {
        hist.add(&key(i), f64::from(i) + 0.5);
        hist.add(&key(i), 1.0);
    }
    let (sums, folded) = hist.sums();
    assert!(hist.folded().is_some());
    let rows: Vec<(Vec<Word>, f64)> =
        hist.rows().zip(sums).map(|((key, _), sum)| (key.to_vec(), *sum)).collect();
    assert!(
        rows.iter()
            .all(|(row, sum)| (0..40).any(|i| { row[..] == key(i) && *sum == f64::from(i) + 1.5 }))
    );
    let all = (0..40).map(|i| f64::from(i) + 1.5).sum::<f64>();
    assert_eq!(rows.iter().map(|(_, sum)| sum).sum::<f64>() + folded, all);
    let mut total = hist.same_shape();
    total.merge(&hist);
    total.merge(&hist);
    let (sums, folded) = total.sums();
    assert_eq!(sums.iter().sum::<f64>() + folded, 2.0 * all);
}

#[test]
fn a_weighted_value_counts_as_many_and_has_an_error() {
    let weight = Rc::new(EventWeight::default());
    weight.vary();
    let new = Histograms::new(Scale::Log2, 1, 1 << 20);
    let mut hist = new.with_weight(EventWeight::of_aggregate(&weight));
    hist.add(&[Word::ZERO], 5.0);
    weight.set(3.0);
    hist.add(&[Word::ZERO], 9.0);
    hist.add(&[Word::ZERO], 10.0);
    let mut total = hist.same_shape();
    total.merge(&hist);
    total.merge(&hist);
    for (table, times) in [(&hist, 1), (&total, 2)] {
        let (_, buckets) = table.rows().next().unwrap();
        let counts: Vec<u64> = buckets.iter().map(|bucket| bucket.count).collect();
        assert_eq!(counts, [0, times, 6 * times]);
        let errors = table.errors(Some(0), &buckets).unwrap();
        assert_eq!(errors, [0.0, 0.0, error_of(12.0 * times as f64)]);
        assert_eq!(table.sums().0, [62.0 * times as f64]);
        assert_eq!(table.variances().unwrap(), (vec![12.0 * times as f64], 0.0));
    }
}

#[test]
fn values_of_the_kernel_are_added_by_bucket() {
    let (mut counted, mut added) =
        (Histograms::new(Scale::Log2, 1, 1 << 20), Histograms::new(Scale::Log2, 1, 1 << 20));
    let key = [Word::number(1.0)];
    counted.add_counted(Some(&key), &[(0, 2), (300, 3), (1 << 44, 1)], 1.0);
    for value in [0.0, 0.0, 300.0, 300.0, 300.0, (1u64 << 44) as f64] {
        added.add(&key, value);
    }
    let buckets = |of: &Histograms| of.rows().map(|(_, buckets)| buckets).collect::<Vec<_>>();
    assert_eq!(buckets(&counted), buckets(&added));
    counted.add_counted(None, &[(300, 4)], 1200.0);
    assert_eq!((counted.losses().evicted, counted.folded().map(|(keys, _)| keys)), (4, Some(4)));
}

#[test]
fn a_value_that_is_not_finite_is_counted_as_disordered() {
    let mut hist = Histograms::new(Scale::Log2, 0, 0);
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.0] {
        hist.add(&[], value);
    }
    assert_eq!(hist.losses().disordered, 3);
}
