//! A value of an event's field, borrowed from the record: the output of decoders and the input of
//! printers.

use std::borrow::Cow;

/// A field's value, with the sign and type from the event's format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    Uint(u64),
    /// An unsigned integer to be shown in hexadecimal: a pointer.
    Pointer(u64),
    /// A number that a script computed; NaN stands for none.
    Float(f64),
    /// Text, up to its NUL; not always UTF-8.
    Text(&'a [u8]),
    /// Uninterpreted bytes: an array of u8, a structure.
    Bytes(&'a [u8]),
    /// An array of integers, `size` bytes each (1, 2, 4 or 8), native order.
    Array {
        /// The elements' bytes; a multiple of `size`.
        bytes: &'a [u8],
        /// Width of an element.
        size: u8,
        /// Whether elements are signed.
        signed: bool,
    },
}

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// [`Value::Int`].
    Int,
    /// [`Value::Uint`].
    Uint,
    /// [`Value::Pointer`].
    Pointer,
    /// [`Value::Float`].
    Float,
    /// [`Value::Text`].
    Text,
    /// [`Value::Bytes`].
    Bytes,
    /// [`Value::Array`] of signed integers.
    Ints,
    /// [`Value::Array`] of unsigned integers.
    Uints,
}

/// The type of a field as the header of a recording declares it: `u32`, `s64[]`, `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// Type of its values.
    pub of: ValueType,
    /// Size in bytes of an integer, or of an element of an array: 1, 2, 4 or 8. Other types have 8.
    pub bytes: u8,
}

impl FieldType {
    const OTHERS: [(ValueType, &str); 4] = [
        (ValueType::Pointer, "pointer"),
        (ValueType::Float, "f64"),
        (ValueType::Text, "text"),
        (ValueType::Bytes, "bytes"),
    ];

    /// Returns its name.
    pub fn name(self) -> Cow<'static, str> {
        let (sign, array) = match self.of {
            ValueType::Int => ('s', ""),
            ValueType::Uint => ('u', ""),
            ValueType::Ints => ('s', "[]"),
            ValueType::Uints => ('u', "[]"),
            of => {
                let other = FieldType::OTHERS.iter().find(|(other, _)| *other == of);
                return other.map_or("", |(_, name)| name).into();
            }
        };
        format!("{sign}{}{array}", 8 * u32::from(self.bytes)).into()
    }

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<FieldType> {
        if let Some((of, _)) = FieldType::OTHERS.iter().find(|(_, other)| *other == name) {
            return Some(FieldType::from(*of));
        }
        let (element, is_array) =
            name.strip_suffix("[]").map_or((name, false), |element| (element, true));
        let of = match (element.as_bytes().first()?, is_array) {
            (b's', false) => ValueType::Int,
            (b'u', false) => ValueType::Uint,
            (b's', true) => ValueType::Ints,
            (b'u', true) => ValueType::Uints,
            _ => return None,
        };
        let bytes = match element.get(1..)? {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        Some(FieldType { of, bytes })
    }
}

impl From<ValueType> for FieldType {
    fn from(of: ValueType) -> FieldType {
        FieldType { of, bytes: 8 }
    }
}

impl<'a> Value<'a> {
    /// Returns the elements of an array as wide integers; nothing for any other value.
    pub fn elements(&self) -> impl Iterator<Item = i128> + 'a {
        let (bytes, size, signed) = match *self {
            Value::Array { bytes, size, signed } => (bytes, usize::from(size.max(1)), signed),
            _ => (&[][..], 1, false),
        };
        bytes.chunks_exact(size).map(move |b| read_int(b, signed))
    }
}

/// Returns an empty vector in the memory of another one, whose elements were borrowed. `example`
/// has the type of the new elements, which is that of the old ones with another lifetime.
pub fn emptied<T, U: Copy>(mut values: Vec<T>, example: U) -> Vec<U> {
    values.clear();
    // The closure is never called.
    values.into_iter().map(|_| example).collect()
}

/// Reads an integer of 1 to 8 bytes in native byte order, with sign extension.
#[inline]
pub fn read_int(bytes: &[u8], signed: bool) -> i128 {
    let bits = read_bits(bytes, signed);
    if signed { i128::from(bits.cast_signed()) } else { i128::from(bits) }
}

/// Reads an integer of 1 to 8 bytes in native byte order as 64 bits, with sign extension. Each size
/// has a load of its own: a copy of a variable number of bytes is a call of `memcpy`.
#[inline]
pub fn read_bits(bytes: &[u8], signed: bool) -> u64 {
    let (value, bits) = match *bytes {
        [a] => (u64::from(a), 8),
        [a, b] => (u64::from(u16::from_ne_bytes([a, b])), 16),
        [a, b, c, d] => (u64::from(u32::from_ne_bytes([a, b, c, d])), 32),
        [a, b, c, d, e, f, g, h] => return u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => read_odd(bytes),
    };
    if !signed {
        return value;
    }
    let shift = 64 - bits;
    ((value << shift).cast_signed() >> shift).cast_unsigned()
}

/// Reads an integer of another size: its value, and its number of bits, at least 1.
#[cold]
fn read_odd(bytes: &[u8]) -> (u64, u32) {
    let n = bytes.len().min(8);
    let mut wide = [0u8; 8];
    if cfg!(target_endian = "little") {
        wide[..n].copy_from_slice(&bytes[..n]);
    } else {
        wide[8 - n..].copy_from_slice(&bytes[..n]);
    }
    (u64::from_ne_bytes(wide), (8 * n as u32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_named_by_the_width_of_its_integers() {
        for name in ["s8", "u16", "s32", "u64", "u32[]", "s64[]", "pointer", "f64", "text", "bytes"]
        {
            assert_eq!(FieldType::named(name).map(FieldType::name).as_deref(), Some(name));
        }
        assert_eq!(FieldType::named("u16"), Some(FieldType { of: ValueType::Uint, bytes: 2 }));
        for name in ["", "s", "u7", "x64", "text[]", "u64[", "é"] {
            assert_eq!(FieldType::named(name), None, "{name}");
        }
    }

    #[test]
    fn integers_of_each_size_keep_their_sign() {
        for size in 1..=8 {
            let negative = (-2i64).to_le_bytes();
            let bytes = &negative[..size];
            if cfg!(target_endian = "little") {
                assert_eq!(read_int(bytes, true), -2, "{size}");
                let most = (1i128 << (8 * size)) - 2;
                assert_eq!(read_int(bytes, false), most, "{size}");
            }
        }
        assert_eq!((read_int(&[], true), read_int(&[], false)), (0, 0));
        assert_eq!(read_bits(&[0x80; 3], true) >> 24, 0xff_ffff_ffff);
        let more = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(read_int(&[1, 2, 3, 4, 5, 6, 7, 8, 9], false), i128::from(more));
    }
}
