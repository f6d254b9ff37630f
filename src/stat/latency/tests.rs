//! Tests of latencies by key.

use super::*;
use proptest::prelude::*;

fn number(n: u32) -> [Word; 1] {
    [Word::number(f64::from(n))]
}

#[test]
fn count_total_min_and_max_are_exact() {
    let mut latency = Latency::new(1, 1 << 20);
    for ns in [2300.0, 900.0, 4_100_000.0] {
        latency.add(&number(1), ns);
    }
    let (_, timing) = latency.rows().next().unwrap();
    assert_eq!((timing.count(), timing.total().value()), (3, 4_103_200.0));
    assert_eq!((timing.min(), timing.max()), (900.0, 4_100_000.0));
    assert_eq!(timing.avg(), 4_103_200.0 / 3.0);
}

#[test]
fn negative_values_are_counted_as_disordered_not_recorded() {
    let mut latency = Latency::new(1, 1 << 20);
    latency.add(&number(1), -1.0);
    latency.add(&number(1), f64::NAN);
    latency.add(&number(1), f64::INFINITY);
    assert_eq!(latency.rows().count(), 0);
    assert_eq!(latency.losses().disordered, 3);
}

#[test]
fn values_beyond_the_range_keep_their_max_and_are_counted() {
    let mut latency = Latency::new(1, 1 << 20);
    latency.add(&number(1), 1e15);
    latency.add(&number(1), 1e300);
    latency.add(&number(2), 1e15);
    let (_, timing) = latency.rows().nth(1).unwrap();
    assert_eq!((timing.max(), timing.total().value()), (1e15, 1e15));
    assert!(timing.percentile(50.0) >= LONGEST_NS);
    assert_eq!(latency.losses().clamped, 3);
}

#[test]
fn an_interval_uses_memory_only_for_its_own_latencies() {
    let mut latency = Latency::new(1, 1 << 20);
    let mut interval = |ns: f64| {
        (0..20).for_each(|i| latency.add(&number(i), ns));
        let bytes = latency.bytes;
        latency.clear();
        assert_eq!((latency.rows().count(), latency.bytes), (0, 0));
        bytes
    };
    let short = interval(1e3);
    assert!(interval(1e9) > 2 * short);
    assert_eq!(interval(1e3), short);
}

#[test]
fn a_growing_histogram_is_bounded_in_bytes() {
    let mut latency = Latency::new(1, 30_000);
    for i in 0..10 {
        latency.add(&number(i), 100.0 * f64::from(i));
        latency.add(&number(i), 1e12);
        assert!(latency.bytes <= latency.room.bytes(), "{} bytes", latency.bytes);
    }
    assert!(latency.losses().evicted > 0);
}

proptest! {
    #[test]
    fn percentiles_are_within_one_percent(
        mut values in prop::collection::vec(0u64..10_000_000_000, 1..400),
    ) {
        let mut latency = Latency::new(0, 1 << 20);
        values.iter().for_each(|ns| latency.add(&[], *ns as f64));
        values.sort_unstable();
        let (_, timing) = latency.rows().next().unwrap();
        for percent in [50.0, 95.0, 99.0] {
            let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
            let exact = values[rank.max(1) - 1] as f64;
            let found = timing.percentile(percent);
            prop_assert!(
                (found - exact).abs() <= exact * 0.01 + 1.0,
                "p{percent}: {found}, not {exact}"
            );
        }
    }

    #[test]
    fn nothing_is_lost_at_any_bound(
        adds in prop::collection::vec((0u32..30, 0u32..1_000_000), 0..300),
        bound in 0usize..60_000,
    ) {
        let mut latency = Latency::new(1, bound);
        adds.iter().for_each(|(key, ns)| latency.add(&number(*key), f64::from(*ns)));
        let timings =
            latency.rows().map(|row| row.1).chain(latency.folded().map(|folded| folded.1));
        let (mut count, mut total) = (0, 0.0);
        timings.for_each(|timing| {
            (count, total) = (count + timing.count(), total + timing.total().value());
        });
        prop_assert_eq!(count, adds.len() as u64);
        prop_assert_eq!(total, adds.iter().map(|add| f64::from(add.1)).sum::<f64>());
    }
}

#[test]
fn a_bucket_has_the_bounds_of_the_histogram() {
    let histogram = empty_histogram();
    for value in [0u64, 1, 255, 256, 257, 300, 511, 512, 1000, 123_456_789, (1 << 44) - 1] {
        let bounds = (histogram.lowest_equivalent(value), histogram.highest_equivalent(value));
        let (low, high) = bucket_of(value as f64);
        assert_eq!((low.cast_unsigned(), high.cast_unsigned()), bounds, "{value}");
        assert_eq!(bucket_of(histogram.median_equivalent(value) as f64), (low, high));
    }
}

#[test]
fn a_weighted_latency_counts_as_many_and_has_an_error() {
    let weight = Rc::new(EventWeight::default());
    weight.vary();
    let mut latency = Latency::new(1, 1 << 20).with_weight(EventWeight::of_aggregate(&weight));
    latency.add(&number(1), 100.0);
    assert_eq!(latency.errors(latency.rows().next().unwrap().1), Some((0.0, 0.0)));
    weight.set(9.0);
    latency.add(&number(1), 1000.0);
    let (_, timing) = latency.rows().next().unwrap();
    assert_eq!((timing.count(), timing.total().value()), (10, 9100.0));
    assert_eq!(latency.errors(timing), Some((error_of(72.0), error_of(72e6))));
    assert!((990.0..=1000.0).contains(&timing.percentile(50.0)), "{}", timing.percentile(50.0));
}

#[test]
fn delays_of_the_kernel_have_the_percentiles_of_delays_that_are_added() {
    let delays: Vec<u64> = (0..4000).map(|n| n * n * 37 % 9_000_001).collect();
    let (mut measured, mut added) = (Latency::new(1, 1 << 20), Latency::new(1, 1 << 20));
    for ns in &delays {
        added.add(&number(1), *ns as f64);
        let (shortest, _) = bucket_of(*ns as f64);
        let one = MeasuredDelays {
            count: 1,
            sum_ns: u128::from(*ns),
            least_ns: *ns,
            greatest_ns: *ns,
            buckets: &[(shortest.cast_unsigned(), 1)],
        };
        measured.add_measured(Some(&number(1)), &one);
    }
    let [(_, measured), (_, added)] = [&measured, &added].map(|all| all.rows().next().unwrap());
    assert_eq!(measured.count(), added.count());
    assert_eq!(measured.total().cell(), added.total().cell());
    assert_eq!((measured.min(), measured.max()), (added.min(), added.max()));
    for percent in [0.0, 1.0, 50.0, 95.0, 99.0, 100.0] {
        assert_eq!(measured.percentile(percent), added.percentile(percent), "{percent}");
    }
    assert!(measured.buckets().eq(added.buckets()));
}

#[test]
fn delays_of_the_kernel_without_a_key_are_folded() {
    let mut latency = Latency::new(1, 1 << 20);
    let (least_ns, greatest_ns) = (10, 20);
    let all = MeasuredDelays { count: 2, sum_ns: 30, least_ns, greatest_ns, buckets: &[(10, 2)] };
    latency.add_measured(None, &all);
    assert_eq!(latency.losses().evicted, 2);
    let (keys, timing) = latency.folded().unwrap();
    assert_eq!((keys, timing.count(), timing.max()), (2, 2, 20.0));
}
