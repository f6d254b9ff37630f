//! An exact sum: always of integers, and in the whole part for numbers with fractions.

use crate::base::report::cell::{Cell, PackedI128};
use std::cmp::Ordering;

/// A sum of whole numbers in 128 bits, with the remaining fraction in a double, so that adding 1 to
/// 2^53 counts. A sum that exceeds 128 bits is also a double; beyond the range of doubles it is
/// infinite.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    whole: PackedI128,
    /// Fractions, less than 1 in total; or the part that does not fit `whole`.
    rest: f64,
}

/// Doubles below this convert to `i64` without saturating.
pub(crate) const I64_RANGE: f64 = 9_223_372_036_854_775_808.0;
/// Doubles below this convert to `i128` without saturating.
const I128_RANGE: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

impl Sum {
    /// Adds a double exactly; a value that is not finite makes the sum not finite.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let whole = value as i64;
        if whole as f64 == value && value.abs() < I64_RANGE {
            self.whole = self.whole.get().wrapping_add(i128::from(whole)).into();
        } else {
            self.add_unusual(value);
        }
    }

    #[cold]
    fn add_unusual(&mut self, value: f64) {
        if value.abs() < I128_RANGE {
            self.add_whole(value.trunc() as i128);
            self.add_rest(value.fract());
        } else {
            self.rest += value;
        }
    }

    /// Returns a whole number.
    pub fn whole(whole: i128) -> Sum {
        Sum { whole: whole.into(), rest: 0.0 }
    }

    /// Returns so many times the sum: a whole number, if the sum is one.
    pub fn times(&self, factor: f64) -> Sum {
        let product = self.value() * factor;
        let mut sum = Sum::default();
        sum.add(if self.rest == 0.0 { product.round() } else { product });
        sum
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Sum) {
        self.add_whole(other.whole.get());
        self.add_rest(other.rest);
    }

    fn add_whole(&mut self, whole: i128) {
        match self.whole.get().checked_add(whole) {
            Some(sum) => self.whole = sum.into(),
            None => {
                self.rest += self.whole.get() as f64 + whole as f64;
                self.whole = 0.into();
            }
        }
    }

    /// Adds to the fraction and carries into the whole part; a value too large for the whole part
    /// stays.
    fn add_rest(&mut self, rest: f64) {
        self.rest += rest;
        if (1.0..I64_RANGE).contains(&self.rest.abs()) {
            let whole = self.rest.trunc();
            self.rest = self.rest.fract();
            self.add_whole(whole as i128);
        }
    }

    /// Returns the nearest double.
    pub fn value(&self) -> f64 {
        self.whole.get() as f64 + self.rest
    }

    /// Returns an exact integer, or a number if there is a fraction.
    pub fn cell(&self) -> Cell {
        if self.rest == 0.0 { Cell::Int(self.whole) } else { Cell::Num(self.value()) }
    }

    /// Compares by value, in a total order.
    pub fn order(&self, other: &Sum) -> Ordering {
        let parts = |sum: &Sum| {
            let floor = sum.rest.floor();
            let fits = floor.abs() < I128_RANGE;
            let fraction = if fits { sum.rest - floor } else { sum.rest };
            (sum.whole.get().saturating_add(floor as i128), fraction)
        };
        let ((a, a_rest), (b, b_rest)) = (parts(self), parts(other));
        a.cmp(&b).then(a_rest.total_cmp(&b_rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> Sum {
        let mut sum = Sum::default();
        values.iter().for_each(|v| sum.add(*v));
        sum
    }

    #[test]
    fn integers_stay_exact_beyond_two_to_the_53() {
        let big = 9_007_199_254_740_992.0;
        assert_eq!(sum(&[big, 1.0, 1.0, 1.0]).cell(), Cell::whole(9_007_199_254_740_995));
        assert_eq!(sum(&[1e18; 100]).cell(), Cell::whole(100_000_000_000_000_000_000));
        assert_eq!(sum(&[2f64.powi(64), 1.0, -3.0]).cell(), Cell::whole((1 << 64) - 2));
        assert_eq!(sum(&[-I64_RANGE, -1.0]).cell(), Cell::whole(-(1i128 << 63) - 1));
    }

    #[test]
    fn fractions_carry_into_the_whole() {
        assert_eq!(sum(&[0.5, 0.25, 1.0]).cell(), Cell::Num(1.75));
        assert_eq!(sum(&[0.5, 0.5]).cell(), Cell::whole(1));
        assert_eq!(sum(&[2f64.powi(60), 0.5, 0.5]).cell(), Cell::whole((1 << 60) + 1));
    }

    #[test]
    fn a_sum_beyond_128_bits_is_a_double_and_no_limit() {
        let (large, most) = (1e38, f64::MAX);
        assert_eq!(sum(&[large, large]).cell(), Cell::Num(2e38));
        assert_eq!(sum(&[1e308]).cell(), Cell::Num(1e308));
        assert_eq!(sum(&[-1e308, 1.0]).cell(), Cell::Num(-1e308));
        assert_eq!(sum(&[most, most]).cell(), Cell::Num(f64::INFINITY));
        let mut merged = sum(&[large]);
        merged.merge(&sum(&[large]));
        assert_eq!(merged.cell(), Cell::Num(2e38));
        let mut sums = [sum(&[1e308]), sum(&[-1e300]), sum(&[1e307]), sum(&[large]), sum(&[1.0])];
        sums.sort_by(Sum::order);
        assert_eq!(sums.map(|sum| sum.value()), [-1e300, 1.0, large, 1e307, 1e308]);
    }

    #[test]
    fn values_that_are_not_finite_are_kept() {
        assert!(sum(&[1.0, f64::NAN]).value().is_nan());
        assert_eq!(sum(&[1.0, f64::INFINITY]).cell(), Cell::Num(f64::INFINITY));
    }

    #[test]
    fn sums_sort_by_value() {
        let mut sums = [
            sum(&[1.5]),
            sum(&[-0.5]),
            sum(&[1.0]),
            sum(&[2f64.powi(54), 1.0]),
            sum(&[2f64.powi(54)]),
        ];
        sums.sort_by(Sum::order);
        let values: Vec<Cell> = sums.iter().map(Sum::cell).collect();
        let power = 1i128 << 54;
        let expected = [
            Cell::Num(-0.5),
            Cell::whole(1),
            Cell::Num(1.5),
            Cell::whole(power),
            Cell::whole(power + 1),
        ];
        assert_eq!(values, expected);
    }
}
