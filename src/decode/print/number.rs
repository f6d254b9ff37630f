//! Numbers in the format of the kernel's `vsnprintf`, which differs from C: `%#x` of 0 is `0x0`, a
//! precision does not disable the flag `0`, and `%.0d` of 0 is `0`.

use super::template::ConversionFlags;
use crate::base::text::digits;

/// Maximum length of an event's text in bytes, which is the kernel's limit for a line. Longer text
/// is truncated.
pub const TEXT_MAX: usize = 8 << 10;

/// Layout of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NumberLayout {
    pub(super) flags: ConversionFlags,
    /// Minimum width.
    pub(super) width: usize,
    /// Minimum number of digits, or maximum bytes of a text.
    pub(super) precision: Option<usize>,
}

/// A number's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Octal,
    Signed,
    Unsigned,
    Hex,
    UpperHex,
}

impl NumberLayout {
    /// Returns the layout of left-aligned text with this width.
    pub(super) fn left(width: usize) -> NumberLayout {
        let flags = ConversionFlags { left: true, ..ConversionFlags::default() };
        NumberLayout { flags, width, precision: None }
    }

    pub(super) fn is_plain(&self) -> bool {
        self.flags == ConversionFlags::default() && self.width == 0 && self.precision.is_none()
    }
}

/// Appends a number.
pub(super) fn push(out: &mut Vec<u8>, value: u64, base: Base, layout: NumberLayout) {
    if layout.is_plain() {
        match base {
            Base::Signed => return digits::push_i64(out, value.cast_signed()),
            Base::Unsigned => return digits::push_u64(out, value),
            Base::Octal | Base::Hex | Base::UpperHex => {}
        }
    }
    let NumberLayout { flags, width, precision } = layout;
    let sign = match base {
        Base::Signed if value.cast_signed() < 0 => Some(b'-'),
        Base::Signed if flags.plus => Some(b'+'),
        Base::Signed if flags.blank => Some(b' '),
        _ => None,
    };
    let value = if sign == Some(b'-') { value.wrapping_neg() } else { value };
    let prefix: &[u8] = match base {
        Base::Hex if flags.special => b"0x",
        Base::UpperHex if flags.special => b"0X",
        Base::Octal if flags.special && value != 0 => b"0",
        _ => b"",
    };
    let mut room = [0u8; 24];
    let text = digits_of(&mut room, value, base);
    let precision = precision.unwrap_or(0).clamp(text.len(), TEXT_MAX);
    // The kernel counts an octal prefix even if it omits it.
    let counted = if base == Base::Octal && flags.special { 1 } else { prefix.len() };
    let used = usize::from(sign.is_some()) + counted + precision;
    let padding = width.min(TEXT_MAX).saturating_sub(used);
    if !flags.left && !flags.zero {
        fill(out, b' ', padding);
    }
    out.extend(sign);
    out.extend_from_slice(prefix);
    if !flags.left && flags.zero {
        fill(out, b'0', padding);
    }
    fill(out, b'0', precision - text.len());
    out.extend_from_slice(text);
    if flags.left {
        fill(out, b' ', padding);
    }
}

/// Appends `0x` and digits, as for `%#llx`.
pub(super) fn push_hex(out: &mut Vec<u8>, value: u64) {
    digits::push_hex(out, value);
}

/// Appends at least `least` digits, without `0x`.
pub(super) fn push_hex_digits(out: &mut Vec<u8>, value: u64, least: usize) {
    let mut room = [0u8; 24];
    let text = digits_of(&mut room, value, Base::Hex);
    fill(out, b'0', least.saturating_sub(text.len()));
    out.extend_from_slice(text);
}

/// Pads the output of `push` to the width, on the side given by the flags.
pub(super) fn widen(out: &mut Vec<u8>, layout: NumberLayout, push: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    push(out);
    let padding = layout.width.min(TEXT_MAX).saturating_sub(out.len() - start);
    if padding > 0 {
        fill(out, b' ', padding);
        if !layout.flags.left
            && let Some(text) = out.get_mut(start..)
        {
            text.rotate_right(padding);
        }
    }
}

fn fill(out: &mut Vec<u8>, byte: u8, count: usize) {
    if count > 0 {
        out.resize(out.len() + count, byte);
    }
}

fn digits_of(room: &mut [u8; 24], mut value: u64, base: Base) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = match base {
            Base::Octal => b'0' + (value & 7) as u8,
            Base::Signed | Base::Unsigned => b'0' + (value % 10) as u8,
            Base::Hex => b"0123456789abcdef"[(value & 15) as usize],
            Base::UpperHex => b"0123456789ABCDEF"[(value & 15) as usize],
        };
        value = match base {
            Base::Octal => value >> 3,
            Base::Signed | Base::Unsigned => value / 10,
            Base::Hex | Base::UpperHex => value >> 4,
        };
        if value == 0 {
            return &room[at..];
        }
    }
}
