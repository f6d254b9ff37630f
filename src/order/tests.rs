//! The order against its contract: by hand for each rule, then at random.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A merged record: ring, the record's own time, the mended time.
type Merged = (usize, u64, u64);

/// Merges whole rings as their owner would, in passes with rising limits.
fn merge(rings: &[Vec<u64>], limits: &[u64], step_ns: u64) -> (Vec<(u64, Merged)>, LateRecords) {
    let mut left: Vec<VecDeque<u64>> =
        rings.iter().map(|ring| ring.iter().copied().collect()).collect();
    let mut order = Order::with_step(rings.len(), step_ns);
    let mut records = Vec::new();
    for (ring, records) in left.iter().enumerate() {
        if let Some(&time) = records.front() {
            order.offer(ring, time);
        }
    }
    for &limit in limits {
        while let Some(next) = order.take(limit) {
            let own = left[next.ring].pop_front().expect("the ring of a head has a record");
            records.push((limit, (next.ring, own, next.time)));
            if let Some(&time) = left[next.ring].front() {
                order.offer(next.ring, time);
            }
        }
    }
    (records, order.counts())
}

fn merge_all(rings: &[Vec<u64>], limit: u64) -> Vec<Merged> {
    merge(rings, &[limit], STEP_NS).0.into_iter().map(|(_, record)| record).collect()
}

#[test]
fn records_merge_by_time_and_then_by_ring() {
    let merged = merge_all(&[vec![12, 17, 21], vec![11, 12, 30], vec![]], 100);
    let expected = [(1, 11), (0, 12), (1, 12), (0, 17), (0, 21), (1, 30)];
    assert_eq!(merged, expected.map(|(ring, time)| (ring, time, time)));
}

#[test]
fn records_later_than_the_limit_wait_for_the_next_pass() {
    let mut order = Order::new(2);
    order.offer(0, 12);
    order.offer(1, 21);
    assert_eq!(order.take(20), Some(NextRecord { ring: 0, time: 12 }));
    assert_eq!(order.take(20), None);
    assert_eq!(order.len(), 1);
    assert_eq!(order.take(21), Some(NextRecord { ring: 1, time: 21 }));
    assert_eq!(order.take(u64::MAX), None);
    assert!(order.is_empty());
}

#[test]
fn a_ring_that_was_empty_joins_with_its_next_record() {
    let mut order = Order::new(3);
    order.offer(2, 50);
    order.offer(1, 40);
    assert_eq!(order.take(100).map(|next| next.ring), Some(1));
    // Ring 1 has nothing more; ring 0 gets its first record now, and ring 1 one later.
    order.offer(0, 45);
    order.offer(1, 60);
    let rest: Vec<usize> = std::iter::from_fn(|| order.take(100)).map(|next| next.ring).collect();
    assert_eq!(rest, [0, 2, 1]);
}

#[test]
fn a_small_step_back_is_lifted_and_counted() {
    // An interrupt's records stand before the one that it interrupted.
    let merged = merge_all(&[vec![10, 14, 13, 20], vec![15]], 100);
    assert_eq!(merged, [(0, 10, 10), (0, 14, 14), (0, 13, 14), (1, 15, 15), (0, 20, 20)]);
    let (_, counts) = merge(&[vec![10, 14, 13, 20], vec![15]], &[100], STEP_NS);
    assert_eq!(counts, LateRecords { lifted: 1, disordered: 0 });
}

#[test]
fn a_step_beyond_the_bound_is_counted_as_disorder() {
    let (merged, counts) = merge(&[vec![5_000, 4_000, 3_999, 6_000]], &[u64::MAX], 1_000);
    assert_eq!(counts, LateRecords { lifted: 1, disordered: 1 });
    let times: Vec<u64> = merged.iter().map(|(_, (_, _, time))| *time).collect();
    assert_eq!(times, [5_000, 5_000, 5_000, 6_000]);
}

#[test]
fn a_record_of_another_ring_that_comes_late_is_lifted_too() {
    let mut order = Order::new(2);
    order.offer(0, 1_000);
    assert_eq!(order.take(1_000), Some(NextRecord { ring: 0, time: 1_000 }));
    order.offer(1, 990);
    assert_eq!(order.take(1_000), Some(NextRecord { ring: 1, time: 1_000 }));
    assert_eq!(order.counts(), LateRecords { lifted: 1, disordered: 0 });
}

#[test]
fn zero_and_the_maximum_are_valid_times() {
    assert_eq!(
        merge_all(&[vec![u64::MAX], vec![0]], u64::MAX),
        [(1, 0, 0), (0, u64::MAX, u64::MAX)]
    );
}

/// Rings whose times rise by steps, with a step back here and there.
fn rings() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let step = prop_oneof![8 => 0i64..40, 1 => -30i64..0, 1 => -3_000i64..3_000];
    let ring = prop::collection::vec(step, 0..60).prop_map(|steps| {
        let mut time = 10_000i64;
        steps
            .into_iter()
            .map(|step| {
                time = (time + step).max(0);
                time as u64
            })
            .collect()
    });
    prop::collection::vec(ring, 1..20)
}

fn limits() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0u64..16_000, 0..12).prop_map(|mut limits| {
        limits.sort_unstable();
        limits
    })
}

proptest! {
    #[test]
    fn every_record_is_returned_once_in_ring_order(rings in rings(), mut limits in limits()) {
        limits.push(u64::MAX);
        let (merged, _) = merge(&rings, &limits, 100);
        let mut by_ring = vec![Vec::new(); rings.len()];
        for (_, (ring, own, _)) in merged {
            by_ring[ring].push(own);
        }
        prop_assert_eq!(by_ring, rings);
    }

    #[test]
    fn times_never_decrease_and_never_exceed_the_limit(rings in rings(), limits in limits()) {
        let (merged, _) = merge(&rings, &limits, 100);
        let mut last = 0;
        for (limit, (_, own, time)) in merged {
            prop_assert!(time >= last && time >= own && time <= limit);
            last = time;
        }
    }

    #[test]
    fn only_records_later_than_the_limit_remain(rings in rings(), limit in 0u64..16_000) {
        let (merged, _) = merge(&rings, &[limit], 100);
        let mut read = vec![0; rings.len()];
        for (_, (ring, _, _)) in merged {
            read[ring] += 1;
        }
        for (ring, read) in rings.iter().zip(read) {
            prop_assert!(ring.get(read).is_none_or(|time| *time > limit));
        }
    }

    #[test]
    fn each_corrected_record_is_counted_by_the_length_of_its_step(rings in rings()) {
        let (merged, counts) = merge(&rings, &[u64::MAX], 100);
        let steps = || merged.iter().map(|(_, (_, own, time))| time - own);
        let short = steps().filter(|step| (1..=100).contains(step)).count();
        prop_assert_eq!(counts.lifted, short as u64);
        prop_assert_eq!(counts.disordered, steps().filter(|step| *step > 100).count() as u64);
    }

    #[test]
    fn sorted_rings_merge_as_a_stable_sort_would(mut rings in rings()) {
        for ring in &mut rings {
            ring.sort_unstable();
        }
        let mut sorted: Vec<Merged> = rings
            .iter()
            .enumerate()
            .flat_map(|(ring, times)| times.iter().map(move |time| (ring, *time, *time)))
            .collect();
        sorted.sort_by_key(|(ring, time, _)| (*time, *ring));
        let (merged, counts) = merge(&rings, &[u64::MAX], 100);
        prop_assert_eq!(merged.into_iter().map(|(_, record)| record).collect::<Vec<_>>(), sorted);
        prop_assert_eq!(counts, LateRecords::default());
    }
}

/// Merges as [`merge`] does, but takes the rest of each run without offers.
fn merge_runs(rings: &[Vec<u64>], limits: &[u64]) -> (Vec<(u64, Merged)>, LateRecords) {
    let mut left: Vec<VecDeque<u64>> =
        rings.iter().map(|ring| ring.iter().copied().collect()).collect();
    let mut order = Order::new(rings.len());
    let mut records = Vec::new();
    for (ring, records) in left.iter().enumerate() {
        if let Some(&time) = records.front() {
            order.offer(ring, time);
        }
    }
    for &limit in limits {
        while let Some(NextRecord { ring, time }) = order.take(limit) {
            let own = left[ring].pop_front().expect("the ring of a head has a record");
            records.push((limit, (ring, own, time)));
            let end = order.run_end().min(limit + 1);
            while let Some(&time) = left[ring].front()
                && (order.last()..end).contains(&time)
            {
                left[ring].pop_front();
                order.pass(time);
                records.push((limit, (ring, time, time)));
            }
            if let Some(&time) = left[ring].front() {
                order.offer(ring, time);
            }
        }
    }
    (records, order.counts())
}

proptest! {
    #[test]
    fn runs_without_offers_give_the_same_order(
        rings in prop::collection::vec(prop::collection::vec(0u64..50, 0..20), 1..5),
        limits in prop::collection::vec(0u64..60, 1..4),
    ) {
        let mut limits = limits;
        limits.sort_unstable();
        prop_assert_eq!(merge_runs(&rings, &limits), merge(&rings, &limits, STEP_NS));
    }
}
