//! The weight of the event that is being handled, and the errors of what was estimated from
//! weights.
//!
//! With `--budget`, a record may stand for several events: its weight. An aggregate then adds the
//! weight instead of 1 (the Horvitz-Thompson estimator), and sums the variance of each estimate: a
//! record of weight w, kept with probability 1/w, adds w(w - 1) to the variance of a count, and v²
//! times that to the variance of a sum of v. Records of weight 1 add nothing, so an estimate that
//! only such records contribute to is exact.
//!
//! Where even counting all events would exceed the budget, events are on in slices of time only,
//! and a record also stands for the time between two slices. Events come in bursts, so their
//! weights say little about the error: what a slice contributes is compared with the slice before
//! ([`Variance`]).

use std::cell::Cell;
use std::rc::Rc;

/// Half the width of the 95 % confidence interval, in standard deviations.
const CONFIDENCE: f64 = 1.959_964;

/// Events that a sample contains none of in one of 20 cases.
const UNSEEN: f64 = 3.0;

/// The weight of the event that is being handled, which aggregates of a run share.
#[derive(Debug)]
pub struct EventWeight {
    now: Cell<f64>,
    varies: Cell<bool>,
    /// Number of the last slice of time, from 1 on; 0 before the first one.
    slice: Cell<u32>,
    /// Number of the first slice of the current interval.
    first: Cell<u32>,
    /// The time that the slice stands for.
    stands_for: Cell<f64>,
    /// The relative error of the correction for tasks that are slower in the slice.
    error: Cell<f64>,
    /// The number of events that one of the slice stands for.
    each: Cell<f64>,
    /// Whether events are on in slices only.
    is_sliced: Cell<bool>,
}

impl Default for EventWeight {
    fn default() -> EventWeight {
        EventWeight {
            now: Cell::new(1.0),
            varies: Cell::new(false),
            slice: Cell::new(0),
            first: Cell::new(1),
            is_sliced: Cell::new(false),
            stands_for: Cell::new(0.0),
            error: Cell::new(0.0),
            each: Cell::new(1.0),
        }
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

    /// Returns the current weight, at least 1: a whole number for records.
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

    /// Begins with the events of a slice that stands for this much time. The correction for slower
    /// tasks has this relative `error`, and `each` event stands for so many.
    pub fn begin_slice(&self, stands_for: f64, error: f64, each: f64) {
        self.each.set(each);
        self.slice.set(self.slice.get().saturating_add(1));
        self.stands_for.set(stands_for);
        self.error.set(error);
        self.is_sliced.set(true);
    }

    /// Ends the time in which events are on in slices only.
    pub fn end_slices(&self) {
        self.is_sliced.set(false);
    }

    /// Begins an interval: aggregates without rows have nothing of the slices so far.
    pub fn begin_interval(&self) {
        self.first.set(self.slice.get().saturating_add(1));
    }

    /// Returns the number by which a variance that was estimated from the slices of this interval
    /// is multiplied, so that 1.96 standard deviations remain the 95 % confidence interval. N
    /// slices have N - 1 differences, with two thirds as many degrees of freedom.
    fn widening(&self) -> f64 {
        let slices = f64::from((self.slice.get() + 1).saturating_sub(self.first.get()));
        if slices < 2.0 {
            return 1.0;
        }
        let t = student((2.0 * (slices - 1.0) / 3.0).floor().max(1.0));
        (t / CONFIDENCE).powi(2) * slices / (slices - 1.0)
    }

    /// Returns the weight for a new aggregate; None if all weights are 1.
    pub fn of_aggregate(weight: &Rc<EventWeight>) -> Option<Rc<EventWeight>> {
        weight.varies().then(|| weight.clone())
    }
}

/// The variance of an estimated count or sum.
///
/// Within slices of time it is half the sum of the squared differences between what a slice
/// contributes and what it would contribute at the rate of the slice before, slices without a
/// record included: a trend of the load adds little to it, and the variances of intervals add up.
///
/// Tasks are slower while events are on. A task that never waits has fewer events in a slice than
/// at other times, one that waits for a clock or for others has as many. The error covers both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variance {
    /// That of records outside of slices, and of other estimates.
    settled: f64,
    /// That of the slices before the last one.
    of_slices: f64,
    /// Number of the slice of the last record, 0 without one; the time that it stands for; and what
    /// its records do, or without one those outside of slices.
    slice: u32,
    stands_for: f64,
    current: f64,
    /// The rate of the slice before, NaN if it is not known.
    before: f64,
    /// The part that may be missing because tasks were slower in slices.
    slowed: f64,
}

impl Variance {
    /// Adds the variance of a record of the current weight, whose value is added to a sum; 1 for a
    /// count.
    #[inline]
    pub fn add(&mut self, weight: &EventWeight, value: f64) {
        if !weight.is_sliced.get() {
            self.settled += value * value * variance_of(weight.get());
            if self.slice == 0 {
                self.current += value * weight.get();
            }
            return;
        }
        if self.slice != weight.slice.get() {
            self.begin_slice(weight);
        }
        let added = value * weight.get();
        self.current += added;
        self.slowed += added * weight.error.get();
    }

    /// Adds the variance of an estimate of another time.
    pub fn merge(&mut self, variance: f64) {
        self.settled += variance;
    }

    /// Adds the variance of another estimate of the same time. In slices both rise and fall
    /// together, so their errors add up.
    pub fn merge_same_time(&mut self, other: &Variance, weight: &EventWeight) {
        let (one, other) = (self.value(weight), other.value(weight));
        *self = Variance { settled: sum_of_same_time([one, other], weight), ..Variance::default() };
    }

    /// Begins the current slice.
    fn begin_slice(&mut self, weight: &EventWeight) {
        let (slice, first) = (weight.slice.get(), weight.first.get());
        if self.slice == 0 {
            self.before = if slice > first { 0.0 } else { f64::NAN };
        } else if slice == self.slice + 1 {
            self.of_slices += self.difference();
            self.before = self.current / self.stands_for;
        } else {
            self.of_slices += self.difference() + self.current * self.current / 2.0;
            self.before = 0.0;
        }
        (self.slice, self.stands_for, self.current) = (slice, weight.stands_for.get(), 0.0);
    }

    /// Returns half the squared difference to the slice before; 0 if that is not known.
    fn difference(&self) -> f64 {
        let difference = self.current - self.before * self.stands_for;
        if difference.is_nan() { 0.0 } else { difference * difference / 2.0 }
    }

    /// Returns the variance of what slices may have missed, if they contain nothing of a row that
    /// has events outside of them; `of_count` is the variance of its count. A row with three events
    /// in all slices, as a mean, has none in one of 20 cases.
    pub fn unseen(&self, of_count: &Variance, weight: &EventWeight) -> f64 {
        if self.slice > 0 || weight.slice.get() < weight.first.get() {
            return 0.0;
        }
        let value = self.current / of_count.current.max(1.0);
        (UNSEEN * weight.each.get() * value / CONFIDENCE).powi(2)
    }

    /// Returns the variance so far.
    pub fn value(&self, weight: &EventWeight) -> f64 {
        if self.slice == 0 {
            return self.settled;
        }
        let (has_ended, squared) = (weight.slice.get() > self.slice, self.current * self.current);
        if self.before.is_nan() && !has_ended {
            // One slice: nothing shows how much slices differ.
            return self.settled + squared;
        }
        let end = if has_ended { squared / 2.0 } else { 0.0 };
        let of_slices = (self.of_slices + self.difference() + end) * weight.widening();
        ((self.settled + of_slices).sqrt() + self.slowed.abs() / CONFIDENCE).powi(2)
    }
}

/// Returns the variance of the sum of estimates of the same time with these variances.
pub fn sum_of_same_time(variances: impl IntoIterator<Item = f64>, weight: &EventWeight) -> f64 {
    let variances = variances.into_iter();
    if weight.slice.get() == 0 {
        return variances.sum();
    }
    variances.map(f64::sqrt).sum::<f64>().powi(2)
}

/// Returns the 97.5 % quantile of Student's t distribution: exact to 0.1 %.
fn student(freedom: f64) -> f64 {
    const FEW: [f64; 5] = [12.706, 4.303, 3.182, 2.776, 2.571];
    let z = CONFIDENCE;
    FEW.get(freedom as usize - 1).copied().unwrap_or_else(|| {
        let first = (z.powi(3) + z) / (4.0 * freedom);
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2));
        let third = 3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z;
        z + first + second + third / (384.0 * freedom.powi(3))
    })
}

/// Returns the variance that a record of this weight adds to an estimated count.
#[inline]
fn variance_of(weight: f64) -> f64 {
    weight * (weight - 1.0)
}

/// Returns half the width of the 95 % confidence interval of an estimate.
pub fn error_of(variance: f64) -> f64 {
    CONFIDENCE * variance.max(0.0).sqrt()
}

#[cfg(test)]
mod tests;
