//! Parses and formats durations, sizes and percentages, and formats counts.
//!
//! A number without a suffix has the caller's default unit. Durations become whole nanoseconds,
//! sizes whole bytes, both by integer arithmetic: `0.1s` is exactly 100 000 000 ns. An error names
//! the problem and shows a valid value.

use anyhow::{Result, bail};

/// A unit of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, `ns`.
    Nanosecond,
    /// Microseconds, `us`.
    Microsecond,
    /// Milliseconds, `ms`.
    Millisecond,
    /// Seconds, `s`.
    Second,
    /// Minutes, `m`.
    Minute,
    /// Hours, `h`.
    Hour,
}

impl Unit {
    /// All units, smallest first.
    pub const ALL: [Unit; 6] = [
        Unit::Nanosecond,
        Unit::Microsecond,
        Unit::Millisecond,
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
    ];

    /// Returns the suffix: `ns us ms s m h`.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Nanosecond => "ns",
            Unit::Microsecond => "us",
            Unit::Millisecond => "ms",
            Unit::Second => "s",
            Unit::Minute => "m",
            Unit::Hour => "h",
        }
    }

    /// Returns the unit's length in nanoseconds.
    pub fn nanoseconds(self) -> u64 {
        match self {
            Unit::Nanosecond => 1,
            Unit::Microsecond => 1_000,
            Unit::Millisecond => 1_000_000,
            Unit::Second => 1_000_000_000,
            Unit::Minute => 60_000_000_000,
            Unit::Hour => 3_600_000_000_000,
        }
    }

    /// Returns the unit with this suffix; `µs` equals `us`, `min` equals `m`.
    pub fn from_suffix(suffix: &str) -> Option<Unit> {
        match suffix {
            "µs" | "μs" => Some(Unit::Microsecond),
            "min" => Some(Unit::Minute),
            _ => Unit::ALL.into_iter().find(|unit| unit.suffix() == suffix),
        }
    }
}

/// Parses a duration into nanoseconds: `10ms`, `1.5s`, or a number of `bare` units. Fractions of a
/// nanosecond are dropped.
///
/// # Errors
/// The text is not a number with a known unit, or is longer than 2^64 ns, 584 years.
pub fn parse_duration(text: &str, bare: Unit) -> Result<u64> {
    duration(text, Some(bare))
}

/// Returns a duration without a unit with the unit that it was parsed in: `10ms` for `10`. None if
/// the text has a unit, or is 0.
pub fn bare_duration(text: &str, bare: Unit) -> Option<String> {
    let (number, suffix) = split(text);
    let is_zero = number.bytes().all(|b| matches!(b, b'0' | b'.'));
    (suffix.is_empty() && !is_zero).then(|| format!("{}{}", number.trim(), bare.suffix()))
}

/// Parses a duration that must have a unit into nanoseconds: `10ms`, `1.5s`.
///
/// # Errors
/// The same as for [`parse_duration`], or the unit is missing.
pub fn parse_duration_with_unit(text: &str) -> Result<u64> {
    duration(text, None)
}

fn duration(text: &str, bare: Option<Unit>) -> Result<u64> {
    let (number, suffix) = split(text);
    let example = "for example 10ms, 1.5s or 500us";
    if text.trim_start().starts_with('-') {
        bail!("`{text}` is not a duration: it must not be negative; {example}");
    }
    let unit = match suffix {
        "" => match bare {
            Some(bare) => bare,
            None => bail!("`{text}` is not a duration: the unit is missing; {example}"),
        },
        "%" => bail!("`{text}` is a percentage, not a duration; {example}"),
        _ => match Unit::from_suffix(suffix) {
            Some(unit) => unit,
            None => bail!(
                "`{text}` is not a duration: unknown unit `{suffix}`; use ns, us, ms, s, m or h, \
                 {example}"
            ),
        },
    };
    match scaled(number, unit.nanoseconds()) {
        Scaled::Value(ns) => Ok(ns),
        Scaled::NotANumber => {
            bail!("`{text}` is not a duration: it does not begin with a number; {example}")
        }
        Scaled::TooLarge => {
            bail!("`{text}` is too long: a duration is at most 584 years; {example}")
        }
    }
}

/// Parses a size into bytes: `4GiB`, `64K`, or a number of bytes. Units are powers of 1024, in
/// either case, with or without `B` or `iB`.
///
/// # Errors
/// The text is not a number with a known unit, or does not fit 64 bits.
pub fn parse_size(text: &str) -> Result<u64> {
    let (number, suffix) = split(text);
    let example = "for example 4GiB, 256M or 65536";
    let lower = suffix.to_ascii_lowercase();
    let bytes: u64 = match lower.as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => bail!(
            "`{text}` is not a size: unknown unit `{suffix}`; use B, KiB, MiB, GiB or TiB, \
             {example}"
        ),
    };
    match scaled(number, bytes) {
        Scaled::Value(size) => Ok(size),
        Scaled::NotANumber => {
            bail!("`{text}` is not a size: it does not begin with a number; {example}")
        }
        Scaled::TooLarge => {
            bail!("`{text}` is too large: a size must fit in 64 bits; {example}")
        }
    }
}

/// Parses a percentage: `30%`, `0.5`. May exceed 100, since two CPUs are 200 % of one.
///
/// # Errors
/// The text is not a finite number, or has a unit other than `%`.
pub fn parse_percent(text: &str) -> Result<f64> {
    let (number, suffix) = split(text);
    if !matches!(suffix, "" | "%") {
        bail!("`{text}` is not a percentage: unknown unit `{suffix}`; for example 30 or 0.5%");
    }
    match number.parse::<f64>() {
        Ok(share) if share.is_finite() => Ok(share),
        _ => bail!(
            "`{text}` is not a percentage: it does not begin with a number; for example 30 or 0.5%"
        ),
    }
}

/// Formats a duration in the largest unit with a value of at least one, with at most three
/// decimals: `1500000` is `1.5ms`.
pub fn human_ns(ns: u64) -> String {
    human(ns, Unit::ALL.map(|unit| (unit.suffix(), unit.nanoseconds())).as_slice())
}

/// Units of sizes in powers of 1024, as of IEC 80000-13.
pub const BYTE_UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Formats a size in powers of 1024, with at most three decimals: `268435456` is `256MiB`.
pub fn human_bytes(bytes: u64) -> String {
    let scale = |power: usize| 1 << (10 * power);
    let units: [(&str, u64); 7] = std::array::from_fn(|i| (BYTE_UNITS[i], scale(i)));
    human(bytes, &units)
}

/// Formats a count with its noun: `1 error`, `2 errors`, `1 process`, `0 processes`.
pub fn counted(count: u64, one: &str) -> String {
    let plural = match (count, one.ends_with('s')) {
        (1, _) => "",
        (_, false) => "s",
        (_, true) => "es",
    };
    format!("{count} {one}{plural}")
}

/// Splits `text` into the leading number and the rest, both trimmed.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    (number, suffix.trim())
}

enum Scaled {
    Value(u64),
    NotANumber,
    TooLarge,
}

/// Multiplies a decimal number by `scale`, rounded down, without floating point.
fn scaled(number: &str, scale: u64) -> Scaled {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Scaled::NotANumber;
    }
    let scale = u128::from(scale);
    let mut value: u128 = 0;
    for digit in whole.bytes() {
        value = value * 10 + u128::from(digit - b'0');
        if value > u128::from(u64::MAX) {
            return Scaled::TooLarge;
        }
    }
    value *= scale;
    // Digits after the 18th are below a nanosecond, or a byte, in any unit.
    let (mut part, mut base) = (0u128, 1u128);
    for digit in fraction.bytes().take(18) {
        part = part * 10 + u128::from(digit - b'0');
        base *= 10;
    }
    u64::try_from(value + part * scale / base).map_or(Scaled::TooLarge, Scaled::Value)
}

/// Formats `value` in the largest of `units` in which it is at least one after rounding to a
/// thousandth.
fn human(value: u64, units: &[(&str, u64)]) -> String {
    let thousandths =
        |scale: u64| (u128::from(value) * 1000 + u128::from(scale) / 2) / u128::from(scale);
    let fits = units.iter().rev().find(|(_, scale)| thousandths(*scale) >= 1000);
    let Some((suffix, scale)) = fits.or(units.first()) else { return value.to_string() };
    let (whole, fraction) = (thousandths(*scale) / 1000, thousandths(*scale) % 1000);
    let digits = format!("{fraction:03}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{whole}{point}{digits}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_suffix_overrides_the_unit_for_bare_numbers() {
        for (text, bare, ns) in [
            ("10ms", Unit::Second, 10_000_000),
            ("1.5s", Unit::Nanosecond, 1_500_000_000),
            ("0.1s", Unit::Nanosecond, 100_000_000),
            ("20", Unit::Millisecond, 20_000_000),
            ("2 us", Unit::Second, 2_000),
            ("7µs", Unit::Second, 7_000),
            (".5ms", Unit::Second, 500_000),
            ("3m", Unit::Second, 180_000_000_000),
            ("1h", Unit::Second, 3_600_000_000_000),
            ("0", Unit::Hour, 0),
            ("18446744073709551615", Unit::Nanosecond, u64::MAX),
        ] {
            assert_eq!(parse_duration(text, bare).unwrap(), ns, "{text}");
        }
    }

    #[test]
    fn a_duration_without_a_default_unit_must_have_one() {
        for (text, ns) in [
            ("1s", 1_000_000_000),
            ("2.5 ms", 2_500_000),
            ("1min", 60_000_000_000),
            ("1m", 60_000_000_000),
            ("1h", 3_600_000_000_000),
            ("7µs", 7_000),
            ("5ns", 5),
        ] {
            assert_eq!(parse_duration_with_unit(text).unwrap(), ns, "{text}");
        }
        assert!(error(parse_duration_with_unit("1")).contains("the unit is missing"));
        assert!(error(parse_duration_with_unit("-1s")).contains("must not be negative"));
    }

    #[test]
    fn a_duration_error_has_the_problem_and_an_example() {
        let parse = |text| error(parse_duration(text, Unit::Millisecond));
        assert_eq!(
            parse("10sec"),
            "`10sec` is not a duration: unknown unit `sec`; use ns, us, ms, s, m or h, \
             for example 10ms, 1.5s or 500us"
        );
        assert!(parse("30%").contains("is a percentage, not a duration"));
        assert!(parse("").contains("does not begin with a number"));
        assert!(parse("-5ms").contains("must not be negative"));
        assert!(parse("1.2.3s").contains("does not begin with a number"));
        assert!(parse("18446744073709551615s").contains("at most 584 years"));
        assert!(parse("99999999999999999999999999999999999999999s").contains("at most 584 years"));
    }

    #[test]
    fn sizes_count_by_1024() {
        for (text, bytes) in [
            ("4GB", 4 << 30),
            ("256M", 256 << 20),
            ("64k", 64 << 10),
            ("1.5KB", 1536),
            ("2KiB", 2048),
            ("65536", 65536),
            ("12B", 12),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        assert!(error(parse_size("4X")).contains("unknown unit `X`"));
        assert!(error(parse_size("99999999TB")).contains("must fit in 64 bits"));
    }

    #[test]
    fn percentages_have_an_optional_sign() {
        assert_eq!(parse_percent("30%").unwrap(), 30.0);
        assert_eq!(parse_percent("0.5").unwrap(), 0.5);
        assert_eq!(parse_percent("200 %").unwrap(), 200.0);
        assert!(error(parse_percent("30ms")).contains("unknown unit `ms`"));
        assert!(error(parse_percent("%")).contains("does not begin with a number"));
    }

    #[test]
    fn figures_are_shown_in_the_largest_unit_that_leaves_a_whole_part() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_500_000, "1.5ms"),
            (20_000_000, "20ms"),
            (999_999_999, "1s"),
            (1_234_567, "1.235ms"),
            (90_000_000_000, "1.5m"),
        ] {
            assert_eq!(human_ns(ns), text);
        }
        assert_eq!(human_bytes(256 << 20), "256MiB");
        assert_eq!(human_bytes(1536), "1.5KiB");
        assert_eq!(human_bytes(12), "12B");
    }

    #[test]
    fn one_is_singular_and_any_other_number_plural() {
        let errors = [0, 1, 2].map(|count| counted(count, "error"));
        assert_eq!(errors, ["0 errors", "1 error", "2 errors"]);
        assert_eq!([1, 3].map(|count| counted(count, "process")), ["1 process", "3 processes"]);
    }

    proptest! {
        #[test]
        fn any_text_gives_a_value_or_an_error(text in "\\PC{0,24}") {
            let _ = parse_duration(&text, Unit::Second);
            let _ = parse_size(&text);
            let _ = parse_percent(&text);
        }

        #[test]
        fn a_formatted_duration_round_trips_within_a_thousandth(ns: u64) {
            let back = parse_duration(&human_ns(ns), Unit::Nanosecond);
            // Rounding up may exceed the largest u64 by less than a thousandth of an hour.
            if let Ok(back) = back {
                prop_assert!(back.abs_diff(ns) <= ns / 1000);
            } else {
                prop_assert!(ns > u64::MAX - Unit::Hour.nanoseconds());
            }
        }
    }
}
