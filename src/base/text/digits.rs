//! Formats numbers without `core::fmt`: every event line uses these functions.

/// Appends decimal digits.
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends decimal digits, after a sign if negative.
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends an integer of any width that a cell or an array can hold.
pub fn push_i128(out: &mut Vec<u8>, value: i128) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends decimal digits, padded on the left to `width`.
pub fn push_padded(out: &mut Vec<u8>, value: u64, width: usize, padding: u8) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value);
    out.resize(out.len() + width.saturating_sub(digits.len()), padding);
    out.extend_from_slice(digits.as_bytes());
}

/// Appends nanoseconds as microseconds with sign, `+12.345`, padded with blanks on the left to
/// `width`.
pub fn push_micros(out: &mut Vec<u8>, ns: i64, width: usize) {
    let (whole, rest) = (ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000);
    let mut buffer = itoa::Buffer::new();
    let whole = buffer.format(whole);
    out.resize(out.len() + width.saturating_sub(whole.len() + 5), b' ');
    out.push(if ns < 0 { b'-' } else { b'+' });
    out.extend_from_slice(whole.as_bytes());
    out.push(b'.');
    push_padded(out, rest, 3, b'0');
}

/// Appends `0x` and hexadecimal digits.
pub fn push_hex(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(b"0x");
    push_hex_right(out, value, 0);
}

/// Appends hexadecimal digits, padded with blanks on the left to `width`.
pub fn push_hex_right(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [0u8; 16];
    let (mut start, mut left) = (digits.len(), value);
    for digit in digits.iter_mut().rev() {
        *digit = nibble(left as u8);
        start -= 1;
        left >>= 4;
        if left == 0 {
            break;
        }
    }
    let digits = digits.get(start..).unwrap_or_default();
    out.resize(out.len() + width.saturating_sub(digits.len()), b' ');
    out.extend_from_slice(digits);
}

/// Appends two hexadecimal digits per byte.
pub fn push_hex_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(nibble(byte >> 4));
        out.push(nibble(*byte));
    }
}

fn nibble(value: u8) -> u8 {
    b"0123456789abcdef"[usize::from(value & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn digits_match_the_standard_library(bits: u64, shift in 0u32..64, wide: i128) {
            let value = bits >> shift;
            prop_assert_eq!(text(|out| push_u64(out, value)), value.to_string());
            prop_assert_eq!(text(|out| push_i64(out, value as i64)), (value as i64).to_string());
            prop_assert_eq!(text(|out| push_i128(out, wide)), wide.to_string());
            prop_assert_eq!(text(|out| push_padded(out, value, 9, b'0')), format!("{value:09}"));
            prop_assert_eq!(text(|out| push_padded(out, value, 6, b' ')), format!("{value:6}"));
            prop_assert_eq!(text(|out| push_hex(out, value)), format!("{value:#x}"));
            prop_assert_eq!(text(|out| push_hex_right(out, value, 9)), format!("{value:9x}"));
        }
    }

    #[test]
    fn the_ends_of_the_range_are_exact() {
        assert_eq!(text(|out| push_u64(out, u64::MAX)), "18446744073709551615");
        assert_eq!(text(|out| push_i64(out, i64::MIN)), "-9223372036854775808");
        assert_eq!(text(|out| push_i128(out, i128::MIN)), i128::MIN.to_string());
        assert_eq!(text(|out| push_hex(out, 0)), "0x0");
        assert_eq!(text(|out| push_hex_bytes(out, &[0, 0xff, 0x1a])), "00ff1a");
    }
}
