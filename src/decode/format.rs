//! A tracepoint's `format` file: where each field lies in a raw record, and how to read it.
//!
//! Offsets, sizes and signs come from the file and from nowhere else: kernels pad, hide and move fields.

use crate::base::value::Value;

/// The layout of one tracepoint's raw record.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// The event's name, without its system.
    pub name: String,
    /// Its id, `perf_event_attr.config`.
    pub id: u64,
    /// All fields, the common ones first, as in the file.
    pub fields: Vec<Field>,
    /// The `print fmt:` text, unparsed.
    pub print_fmt: String,
    /// Bytes that a record must have to hold every field's fixed part.
    pub fixed_size: usize,
}

/// One field of a raw record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name as in the file.
    pub name: String,
    /// The type's text as in the file, without the name: `char[16]`, `__data_loc char[]`, `const char *`.
    pub type_text: String,
    /// Bytes from the start of the raw record.
    pub offset: usize,
    /// Bytes of the fixed part.
    pub size: usize,
    /// Whether integers (or elements) are signed.
    pub signed: bool,
    /// Whether it is one of the `common_*` fields.
    pub common: bool,
    /// How to read it.
    pub kind: Kind,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer of `size` bytes: 1, 2, 4 or 8.
    Int,
    /// A pointer or an address: an unsigned integer that reads best in hexadecimal.
    Pointer,
    /// `char[N]`: text that ends at NUL or at `size`.
    Chars,
    /// An array of integers, each of this many bytes, within `size`.
    Array(u8),
    /// Bytes without a known meaning: an array of u8, a structure.
    Bytes,
    /// `__data_loc`: a u32 at `offset`, low half the offset from the record's start, high half the length.
    DataLoc(Element),
    /// `__rel_loc`: likewise, the offset counted from the end of this field.
    RelLoc(Element),
}

/// What a dynamic array is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `char[]`: text.
    Char,
    /// Integers of this many bytes (u8 excepted).
    Int(u8),
    /// Bytes.
    Byte,
}

/// Why a field could not be read: the record is shorter than the format says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record is too short for the field")]
pub struct TooShort;

impl Format {
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Each own field (not `common_*`) with its value; a field that cannot be read is left out.
    pub fn values<'a>(&'a self, raw: &'a [u8]) -> impl Iterator<Item = (&'a str, Value<'a>)> + 'a {
        self.fields
            .iter()
            .filter(|f| !f.common)
            .filter_map(move |f| Some((f.name.as_str(), f.read(raw).ok()?)))
    }
}

impl Field {
    /// The field's value in a raw record.
    pub fn read<'a>(&self, _raw: &'a [u8]) -> Result<Value<'a>, TooShort> {
        Err(TooShort)
    }
}
