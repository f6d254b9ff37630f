//! Tests of the errors of estimates.

use super::*;

/// Returns the next number of a linear congruential generator, from 0 to 1.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn estimates_of_thinned_events_are_within_their_errors_as_often_as_stated() {
    let (mut seed, mut within, rounds) = (7, 0, 1000);
    for _ in 0..rounds {
        // 40 events in 1000 are kept, each with one of two probabilities.
        let (mut estimate, mut variance) = (0.0, 0.0);
        for event in 0..4000 {
            let weight = if event % 2 == 0 { 25.0 } else { 10.0 };
            if random(&mut seed) < 1.0 / weight {
                estimate += weight;
                variance += variance_of(weight);
            }
        }
        within += u32::from((estimate - 4000.0f64).abs() <= error_of(variance));
    }
    assert!((930..=970).contains(&within), "{within} of {rounds}");
}

#[test]
fn what_every_record_of_was_kept_has_no_error() {
    assert_eq!((variance_of(1.0), error_of(0.0)), (0.0, 0.0));
    assert_eq!(variance_of(3.0), 6.0);
}

#[test]
fn only_a_run_whose_weights_vary_hands_its_weight_to_aggregates() {
    let weight = Rc::new(EventWeight::default());
    assert!(EventWeight::of_aggregate(&weight).is_none());
    weight.vary();
    weight.set(7.0);
    assert_eq!(EventWeight::of_aggregate(&weight).unwrap().get(), 7.0);
}

/// Returns a number with a given mean and the variance of a Poisson distribution.
fn poisson(state: &mut u64, mean: f64) -> f64 {
    let twelve: f64 = (0..12).map(|_| random(state)).sum();
    (mean + (twelve - 6.0) * mean.sqrt()).round().max(0.0)
}

#[test]
fn estimates_of_slices_are_within_their_errors_as_often_as_stated() {
    // A load of bursts: the rate of a slice varies by a third, and doubles in the course of a run.
    let (one_in_time, one_in, parts) = (10, 8.0, 400);
    for slices in [5, 40] {
        let (mut seed, mut within, rounds) = (slices as u64, 0, 2000);
        for _ in 0..rounds {
            let weight = EventWeight::default();
            let (mut truth, mut estimate, mut variance) = (0.0, 0.0, Variance::default());
            for part in 0..slices * one_in_time {
                let trend = 1.0 + f64::from(part) / f64::from(parts);
                let mean = 300.0 * trend * (0.5 + random(&mut seed));
                let events = poisson(&mut seed, mean);
                truth += events;
                let place = part % one_in_time;
                if place == 0 {
                    weight.begin_slice(10.0, 0.0, 1.0);
                    weight.set(one_in * f64::from(one_in_time));
                    for _ in 0..(events / one_in) as u32 {
                        variance.add(&weight, 1.0);
                        estimate += weight.get();
                    }
                }
            }
            let error = error_of(variance.value(&weight));
            within += u32::from((estimate - truth).abs() <= error);
        }
        let share = f64::from(within) / f64::from(rounds);
        assert!((0.93..=0.99).contains(&share), "{slices} slices: {share}");
    }
}

#[test]
fn slices_without_a_record_count_as_well() {
    let weight = EventWeight::default();
    weight.set(10.0);
    let mut variance = Variance::default();
    for slice in 1..=9 {
        weight.begin_slice(5.0, 0.0, 1.0);
        if slice == 4 || slice == 5 {
            variance.add(&weight, 2.0);
        }
    }
    // Up from 0, equal, and down to 0 again.
    let widened = (student(5.0) / CONFIDENCE).powi(2) * 9.0 / 8.0;
    assert_eq!(variance.value(&weight), 400.0 * widened);
    let mut rare = Variance::default();
    weight.begin_slice(5.0, 0.0, 1.0);
    rare.add(&weight, 1.0);
    weight.begin_slice(5.0, 0.0, 1.0);
    assert!(rare.value(&weight) >= 100.0, "all of it is uncertain");
}

#[test]
fn slices_of_one_rate_have_no_error_whatever_they_stand_for() {
    let weight = EventWeight::default();
    let mut variance = Variance::default();
    for stands_for in [10.0, 5.0, 15.0, 10.0] {
        weight.begin_slice(stands_for, 0.0, 1.0);
        weight.set(stands_for);
        (0..8).for_each(|_| variance.add(&weight, 1.0));
    }
    assert_eq!(variance.value(&weight), 0.0);
    weight.begin_interval();
    let mut next = Variance::default();
    for _ in 0..2 {
        weight.begin_slice(10.0, 0.0, 1.0);
        weight.set(20.0);
        (0..8).for_each(|_| next.add(&weight, 1.0));
    }
    assert_eq!(next.value(&weight), 0.0, "an interval has its own");
}

#[test]
fn errors_of_the_same_time_add_up_in_slices() {
    let weight = EventWeight::default();
    weight.set(3.0);
    let [mut one, mut other] = [Variance::default(); 2];
    one.add(&weight, 1.0);
    other.add(&weight, 1.0);
    let mut sum = one;
    sum.merge_same_time(&other, &weight);
    assert_eq!(sum.value(&weight), 12.0);
    weight.begin_slice(5.0, 0.0, 1.0);
    one.merge_same_time(&other, &weight);
    assert!((one.value(&weight) - 24.0).abs() < 1e-9, "{one:?}");
}

#[test]
fn errors_cover_what_is_missing_while_tasks_are_slower() {
    let weight = EventWeight::default();
    weight.set(10.0);
    let mut variance = Variance::default();
    for _ in 0..20 {
        weight.begin_slice(5.0, 0.08, 1.0);
        (0..10).for_each(|_| variance.add(&weight, 1.0));
    }
    let error = error_of(variance.value(&weight));
    assert!((error - 0.08 * 2000.0).abs() < 1e-6, "{error}");
}

#[test]
fn a_single_slice_shows_nothing_of_its_error() {
    let weight = EventWeight::default();
    weight.set(10.0);
    weight.begin_slice(5.0, 0.0, 1.0);
    let mut variance = Variance::default();
    (0..7).for_each(|_| variance.add(&weight, 1.0));
    assert_eq!(variance.value(&weight), 4900.0);
}

#[test]
fn quantiles_are_those_of_tables() {
    for (freedom, t) in [(1.0, 12.706), (5.0, 2.571), (6.0, 2.447), (10.0, 2.228), (60.0, 2.0)] {
        assert!((student(freedom) / t - 1.0f64).abs() < 2e-3, "{freedom}: {}", student(freedom));
    }
}
