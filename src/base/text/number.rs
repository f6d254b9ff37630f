//! A number of a script or a field, and its human-readable forms: hexadecimal, bytes, duration,
//! percentage.
//!
//! All functions are total: they format every number, including NaN and the infinities.

use super::units::BYTE_UNITS;
use std::fmt;

/// A number that keeps all 64 bits if it is whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number of any integer field, signed or not.
    Int(i128),
    /// Anything else.
    Real(f64),
}

/// Interpretation of an integer's 64 bits. A script has the integer as a signed number, or as
/// hexadecimal text if a double cannot hold it exactly; the type determines its display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerType {
    /// `long` and everything that fits it.
    Signed,
    /// `unsigned long`.
    Unsigned,
    /// An address, shown in hexadecimal.
    Pointer,
    /// Any of these in turn; the text has a sign, so it is the value instead of the 64 bits:
    /// `-0x20000000000001`.
    Mixed,
}

impl IntegerType {
    /// Returns its name in scripts.
    pub fn name(self) -> &'static str {
        match self {
            IntegerType::Signed => "signed",
            IntegerType::Unsigned => "unsigned",
            IntegerType::Pointer => "pointer",
            IntegerType::Mixed => "mixed",
        }
    }

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<IntegerType> {
        use IntegerType::{Mixed, Pointer, Signed, Unsigned};
        [Signed, Unsigned, Pointer, Mixed].into_iter().find(|of| of.name() == name)
    }

    /// Returns the value of 64 bits; not meaningful for [`IntegerType::Mixed`].
    pub fn value(self, bits: u64) -> i128 {
        match self {
            IntegerType::Signed | IntegerType::Mixed => bits.cast_signed().into(),
            IntegerType::Unsigned | IntegerType::Pointer => bits.into(),
        }
    }
}

impl From<f64> for Number {
    /// Whole numbers of up to 64 bits become `Int`.
    fn from(value: f64) -> Number {
        let whole = value.fract() == 0.0 && value.abs() <= u64::MAX as f64;
        if whole { Number::Int(value as i128) } else { Number::Real(value) }
    }
}

impl Number {
    /// Parses a number in Lua's notation: `17`, `-4`, `1.5`, `1e9`, `0xffffffff81000000`.
    pub fn parse(text: &[u8]) -> Option<Number> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            if hex.starts_with('+') {
                return None;
            }
            let value = i128::from(u64::from_str_radix(hex, 16).ok()?);
            return Some(Number::Int(if negative { -value } else { value }));
        }
        // `inf` and `nan` are names, not numbers.
        if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return None;
        }
        if let Ok(value) = text.parse::<i128>() {
            return Some(Number::Int(value));
        }
        Some(Number::from(text.parse::<f64>().ok()?))
    }

    /// Returns the nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    /// Returns the value if it is whole and fits.
    pub fn to<T: TryFrom<i128>>(self) -> Option<T> {
        match self {
            Number::Int(value) => T::try_from(value).ok(),
            Number::Real(_) => None,
        }
    }
}

impl fmt::Display for Number {
    /// Formats as digits, as `1e300` if those would be too many, or as `nan`, `inf`, `-inf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Number::Int(value) => write!(f, "{value}"),
            Number::Real(value) if value.is_nan() => f.write_str("nan"),
            Number::Real(value) if value.is_finite() && !(1e-5..1e15).contains(&value.abs()) => {
                write!(f, "{value:e}")
            }
            Number::Real(value) => write!(f, "{value}"),
        }
    }
}

/// Parses an unsigned number without a sign, decimal or hexadecimal with `0x`.
pub fn parse_u64(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // The standard library accepts a sign.
    u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
}

/// Formats as `0x1f`. A negative number shows its 64 bits: all ones are `0xffffffffffffffff`.
pub fn hex(number: Number) -> String {
    match number.to::<u64>().or_else(|| number.to::<i64>().map(|n| n as u64)) {
        Some(bits) => format!("{bits:#x}"),
        None => number.to_string(),
    }
}

/// Formats bytes in powers of 1024: `512B`, `1.5MiB`.
pub fn bytes(number: Number) -> String {
    scaled(number, 1024.0, &BYTE_UNITS)
}

/// Formats nanoseconds in the largest unit with a value of at least one: `512ns`, `12.3ms`,
/// `75.0s`.
pub fn duration(number: Number) -> String {
    scaled(number, 1000.0, &["ns", "us", "ms", "s"])
}

/// Formats a percentage with one decimal: `12.3%`.
pub fn percent(number: Number) -> String {
    if number.to_f64().is_finite() {
        format!("{:.1}%", number.to_f64())
    } else {
        number.to_string()
    }
}

/// Formats with one decimal in the largest unit whose value, after rounding, is at least one; whole
/// numbers of the first unit have no decimals.
fn scaled(number: Number, step: f64, units: &[&str]) -> String {
    let mut value = number.to_f64();
    if !value.is_finite() {
        return number.to_string();
    }
    let mut unit = 0;
    while unit + 1 < units.len() && (value.abs() * 10.0).round() / 10.0 >= step {
        value /= step;
        unit += 1;
    }
    match number {
        Number::Int(whole) if unit == 0 => format!("{whole}{}", units[0]),
        _ => format!("{value:.1}{}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_text_keeps_its_64_bits() {
        assert_eq!(Number::parse(b"0xffffffff81000001"), Some(Number::Int(0xffff_ffff_8100_0001)));
        assert_eq!(Number::parse(b"18446744073709551615"), Some(Number::Int(u64::MAX.into())));
        assert_eq!(Number::parse(b" -4 "), Some(Number::Int(-4)));
        assert_eq!(Number::parse(b"1e3"), Some(Number::Int(1000)));
        assert_eq!(Number::parse(b"1.5"), Some(Number::Real(1.5)));
    }

    #[test]
    fn text_that_is_not_a_number_is_none() {
        for text in ["", "-", "0x", "0x+1", "0xg", "nginx", "inf", "nan", "1.2.3", "8:1", "+-1"] {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Number::parse(b"\xff1"), None);
    }

    #[test]
    fn an_unsigned_number_has_no_sign() {
        for (text, value) in [("4096", 4096), ("0x1000", 4096), ("0XfF", 255)] {
            assert_eq!(parse_u64(text), Some(value));
        }
        for text in ["", "0x", "+5", "0x+5", "-1", "1_0", " 1", "18446744073709551616"] {
            assert_eq!(parse_u64(text), None, "{text}");
        }
    }

    #[test]
    fn a_size_is_drawn_in_the_unit_it_fills() {
        for (value, text) in [
            (0.0, "0B"),
            (1023.0, "1023B"),
            (1024.0, "1.0KiB"),
            (1_572_864.0, "1.5MiB"),
            (-1_572_864.0, "-1.5MiB"),
            (1_048_575.0, "1.0MiB"),
            (0.25, "0.2B"),
        ] {
            assert_eq!(bytes(value.into()), text);
        }
    }

    #[test]
    fn a_duration_is_drawn_in_the_unit_it_fills() {
        for (value, text) in [
            (512.0, "512ns"),
            (999.96, "1.0us"),
            (12_345_678.0, "12.3ms"),
            (75e9, "75.0s"),
            (-2500.0, "-2.5us"),
        ] {
            assert_eq!(duration(value.into()), text);
        }
    }

    #[test]
    fn every_number_is_drawn() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300, -1e300, 5e-324, 1e19];
        for value in odd.map(Number::from).into_iter().chain([
            Number::Int(i128::MAX),
            Number::Int(i128::MIN),
            Number::Real(f64::NAN),
        ]) {
            for draw in [hex, bytes, duration, percent, |n: Number| n.to_string()] {
                assert!(!draw(value).is_empty());
            }
        }
        assert_eq!(bytes(f64::NAN.into()), "nan");
        assert_eq!(duration(f64::NEG_INFINITY.into()), "-inf");
        assert_eq!(percent(Number::Int(50)), "50.0%");
    }

    #[test]
    fn hex_shows_the_64_bits_of_a_negative_number() {
        assert_eq!(hex(Number::Int(31)), "0x1f");
        assert_eq!(hex(Number::Int(-1)), "0xffffffffffffffff");
        assert_eq!(hex(Number::Int(u64::MAX.into())), "0xffffffffffffffff");
        assert_eq!(hex(Number::Int(i128::from(u64::MAX) + 1)), "18446744073709551616");
        assert_eq!(hex(Number::Real(1.5)), "1.5");
    }
}
