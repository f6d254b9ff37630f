//! One value of an event's field, borrowed from the record: what decoders yield and printers take.

/// A field's value with the sign and meaning that the event's format gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    Uint(u64),
    /// An unsigned integer that reads best in hexadecimal: a pointer.
    Pointer(u64),
    /// Text, up to its NUL; not always UTF-8.
    Text(&'a [u8]),
    /// Bytes without meaning: an array of u8, a structure.
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

/// What a field's values are, as the header of a recording names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// [`Value::Int`].
    Int,
    /// [`Value::Uint`].
    Uint,
    /// [`Value::Pointer`].
    Pointer,
    /// [`Value::Text`].
    Text,
    /// [`Value::Bytes`].
    Bytes,
    /// [`Value::Array`] of signed integers.
    Ints,
    /// [`Value::Array`] of unsigned integers.
    Uints,
}

impl ValueType {
    const ALL: [(ValueType, &str); 7] = [
        (ValueType::Int, "s64"),
        (ValueType::Uint, "u64"),
        (ValueType::Pointer, "pointer"),
        (ValueType::Text, "text"),
        (ValueType::Bytes, "bytes"),
        (ValueType::Ints, "s64[]"),
        (ValueType::Uints, "u64[]"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        ValueType::ALL.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }

    /// The type of that name.
    pub fn named(name: &str) -> Option<ValueType> {
        ValueType::ALL.iter().find(|(_, of)| *of == name).map(|(of, _)| *of)
    }
}

impl<'a> Value<'a> {
    /// The elements of an array as wide integers; empty for every other value.
    pub fn elements(&self) -> impl Iterator<Item = i128> + 'a {
        let (bytes, size, signed) = match *self {
            Value::Array { bytes, size, signed } => (bytes, usize::from(size.max(1)), signed),
            _ => (&[][..], 1, false),
        };
        bytes.chunks_exact(size).map(move |b| read_int(b, signed))
    }
}

/// An integer of 1 to 8 bytes in native order, widened with its sign.
pub fn read_int(bytes: &[u8], signed: bool) -> i128 {
    let n = bytes.len().min(8);
    let mut wide = [0u8; 8];
    if cfg!(target_endian = "little") {
        wide[..n].copy_from_slice(&bytes[..n]);
    } else {
        wide[8 - n..].copy_from_slice(&bytes[..n]);
    }
    let value = u64::from_ne_bytes(wide);
    if !signed || n == 0 {
        return i128::from(value);
    }
    let shift = 64 - 8 * n as u32;
    i128::from(((value << shift) as i64) >> shift)
}
