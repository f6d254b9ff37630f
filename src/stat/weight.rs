//! The weight of the event that is being handled, and the errors of what was estimated from
//! weights.
//!
//! With `--budget`, a record may stand for several events: its weight. An aggregate then adds the
//! weight instead of 1 (the Horvitz-Thompson estimator), and sums the variance of each estimate: a
//! record of weight w, kept with probability 1/w, adds w(w - 1) to the variance of a count, and v²
//! times that to the variance of a sum of v. Records of weight 1 add nothing, so an estimate that
//! only such records contribute to is exact.

use std::cell::Cell;
use std::rc::Rc;

/// Half the width of the 95 % confidence interval, in standard deviations.
const CONFIDENCE: f64 = 1.959_964;

/// The weight of the event that is being handled, which aggregates of a run share.
#[derive(Debug)]
pub struct EventWeight {
    now: Cell<f64>,
    varies: Cell<bool>,
}

impl Default for EventWeight {
    fn default() -> EventWeight {
        EventWeight { now: Cell::new(1.0), varies: Cell::new(false) }
    }
}

impl EventWeight {
    /// Declares that records of this run may have a weight other than 1.
    pub fn vary(&self) {
        self.varies.set(true);
    }

    /// Returns whether records of this run may have a weight other than 1.
    pub fn varies(&self) -> bool {
        self.varies.get()
    }

    /// Returns the current weight: a whole number, at least 1.
    pub fn get(&self) -> f64 {
        self.now.get()
    }

    /// Sets the current weight. The drivers of a run store it through [`EventWeight::address`].
    pub fn set(&self, weight: f64) {
        self.now.set(weight);
    }

    /// Returns where the current weight is stored.
    pub fn address(&self) -> *const f64 {
        self.now.as_ptr()
    }

    /// Returns the weight for a new aggregate; None if all weights are 1.
    pub fn of_aggregate(weight: &Rc<EventWeight>) -> Option<Rc<EventWeight>> {
        weight.varies().then(|| weight.clone())
    }
}

/// Returns the variance that a record of this weight adds to an estimated count.
#[inline]
pub fn variance_of(weight: f64) -> f64 {
    weight * (weight - 1.0)
}

/// Returns half the width of the 95 % confidence interval of an estimate.
pub fn error_of(variance: f64) -> f64 {
    CONFIDENCE * variance.max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
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
}
