//! One value of a row.

use std::fmt;
use std::rc::Rc;

/// One value of a row: 24 bytes, because a report may have 10^5 of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing to show: JSON null.
    Empty,
    /// An exact integer; see [`Cell::whole`].
    Int(PackedI128),
    /// A number with a fraction.
    Num(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// A stack: an array in JSON. Boxed, because most cells are numbers.
    Stack(Box<StackCell>),
}

/// An `i128` that is aligned to 8 bytes, so that what contains it is smaller.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(8))]
pub struct PackedI128(i128);

impl PackedI128 {
    /// Returns the integer.
    #[inline(always)]
    pub fn get(self) -> i128 {
        self.0
    }
}

impl From<i128> for PackedI128 {
    #[inline(always)]
    fn from(value: i128) -> PackedI128 {
        PackedI128(value)
    }
}

impl fmt::Debug for PackedI128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackCell {
    /// The frames' text, in display order.
    pub frames: Vec<Rc<str>>,
    /// Separator in text.
    pub between: Rc<str>,
}

impl Cell {
    /// Returns a cell with an exact integer.
    pub fn whole(value: i128) -> Cell {
        Cell::Int(value.into())
    }
}

impl From<f64> for Cell {
    /// Whole numbers become [`Cell::Int`], exactly.
    fn from(value: f64) -> Cell {
        // Every integer below 2^127 converts exactly.
        if value.fract() == 0.0 && value.abs() < 1e38 {
            Cell::whole(value as i128)
        } else {
            Cell::Num(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_no_larger_than_its_text() {
        assert_eq!(size_of::<Cell>(), size_of::<String>());
    }

    #[test]
    fn whole_numbers_are_integers() {
        assert_eq!(Cell::from(-3.0), Cell::whole(-3));
        assert_eq!(Cell::from(0.5), Cell::Num(0.5));
        assert_eq!(Cell::from(f64::INFINITY), Cell::Num(f64::INFINITY));
        assert_eq!(Cell::from(2f64.powi(64)), Cell::whole(1 << 64));
    }
}
