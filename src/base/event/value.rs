//! A value of an event's field, borrowed from the record: the output of decoders and the input of
//! printers.

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

/// The type of a field's values, as named in the header of a recording.
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

impl ValueType {
    const ALL: [(ValueType, &str); 8] = [
        (ValueType::Int, "s64"),
        (ValueType::Uint, "u64"),
        (ValueType::Pointer, "pointer"),
        (ValueType::Float, "f64"),
        (ValueType::Text, "text"),
        (ValueType::Bytes, "bytes"),
        (ValueType::Ints, "s64[]"),
        (ValueType::Uints, "u64[]"),
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        ValueType::ALL.iter().find(|(of, _)| *of == self).map_or("", |(_, name)| name)
    }

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<ValueType> {
        ValueType::ALL.iter().find(|(_, of)| *of == name).map(|(of, _)| *of)
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

/// Reads an integer of 1 to 8 bytes in native byte order, with sign extension.
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
