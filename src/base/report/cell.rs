//! One value of a row.

use std::rc::Rc;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing to show: JSON null.
    Empty,
    /// An exact integer.
    Int(i128),
    /// A number with a fraction.
    Num(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// A stack: an array in JSON. Boxed, because most of the 10^5 cells of a report are numbers.
    Stack(Box<StackCell>),
}

/// A stack.
#[derive(Clone, Debug, PartialEq)]
pub struct StackCell {
    /// The frames' text, in display order.
    pub frames: Vec<Rc<str>>,
    /// Separator in text.
    pub between: Rc<str>,
}

impl From<f64> for Cell {
    /// Whole numbers become [`Cell::Int`], exactly.
    fn from(value: f64) -> Cell {
        // Every integer below 2^127 converts exactly.
        if value.fract() == 0.0 && value.abs() < 1e38 {
            Cell::Int(value as i128)
        } else {
            Cell::Num(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers() {
        assert_eq!(Cell::from(-3.0), Cell::Int(-3));
        assert_eq!(Cell::from(0.5), Cell::Num(0.5));
        assert_eq!(Cell::from(f64::INFINITY), Cell::Num(f64::INFINITY));
        assert_eq!(Cell::from(2f64.powi(64)), Cell::Int(1 << 64));
    }
}
