//! A sum that stays exact: of integers always, of numbers with fractions in their whole part.

use crate::base::draw::Cell;
use std::cmp::Ordering;

/// Whole numbers in 128 bits and what is left of fractions in a double, so that adding 1 to 2^53 counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    whole: i128,
    rest: f64,
}

/// Doubles below this become an `i64` without saturating.
const I64_RANGE: f64 = 9_223_372_036_854_775_808.0;

impl Sum {
    /// Adds a double exactly; what is not finite makes the sum so.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let whole = value as i64;
        if whole as f64 == value && value.abs() < I64_RANGE {
            self.whole = self.whole.wrapping_add(i128::from(whole));
        } else {
            self.add_unusual(value);
        }
    }

    #[cold]
    fn add_unusual(&mut self, value: f64) {
        if !value.is_finite() {
            self.rest += value;
            return;
        }
        self.whole = self.whole.saturating_add(value.trunc() as i128);
        self.rest += value.fract();
        if self.rest.abs() >= 1.0 && self.rest.is_finite() {
            self.whole = self.whole.saturating_add(self.rest.trunc() as i128);
            self.rest = self.rest.fract();
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Sum) {
        self.whole = self.whole.saturating_add(other.whole);
        self.rest += other.rest;
    }

    /// The nearest double.
    pub fn value(&self) -> f64 {
        self.whole as f64 + self.rest
    }

    /// An exact integer, or a number when there is a fraction.
    pub fn cell(&self) -> Cell {
        if self.rest == 0.0 { Cell::Int(self.whole) } else { Cell::Num(self.value()) }
    }

    /// By value, in a total order.
    pub fn order(&self, other: &Sum) -> Ordering {
        let parts = |sum: &Sum| {
            let floor = sum.rest.floor();
            (sum.whole.saturating_add(floor as i128), sum.rest - floor)
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
        assert_eq!(sum(&[big, 1.0, 1.0, 1.0]).cell(), Cell::Int(9_007_199_254_740_995));
        assert_eq!(sum(&[1e18; 100]).cell(), Cell::Int(100_000_000_000_000_000_000));
        assert_eq!(sum(&[2f64.powi(64), 1.0, -3.0]).cell(), Cell::Int((1 << 64) - 2));
        assert_eq!(sum(&[-I64_RANGE, -1.0]).cell(), Cell::Int(-(1i128 << 63) - 1));
    }

    #[test]
    fn fractions_carry_into_the_whole() {
        assert_eq!(sum(&[0.5, 0.25, 1.0]).cell(), Cell::Num(1.75));
        assert_eq!(sum(&[0.5, 0.5]).cell(), Cell::Int(1));
        assert_eq!(sum(&[2f64.powi(60), 0.5, 0.5]).cell(), Cell::Int((1 << 60) + 1));
    }

    #[test]
    fn what_is_not_finite_shows() {
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
        let expected =
            [Cell::Num(-0.5), Cell::Int(1), Cell::Num(1.5), Cell::Int(power), Cell::Int(power + 1)];
        assert_eq!(values, expected);
    }
}
