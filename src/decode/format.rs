//! A tracepoint's `format` file: position and type of each field in a raw record.
//!
//! Offsets, sizes and signs are taken only from the file: kernels pad, hide and move fields. The
//! meaning of a field is taken from its type: `char[16]` is text regardless of its sign, because
//! `char` is unsigned on some architectures. The kernel writes these files in `f_show()` and
//! `print_event_fields()` of kernel/trace/trace_events.c.

pub mod parse;
#[cfg(test)]
mod tests;
pub mod user_text;

use super::unset::UnsetValues;
use crate::base::event::value::{FieldType, Value, ValueType, read_bits};
use crate::base::report::event_record::{FixedEncoding, FixedField};
use crate::base::text::unescape::until_nul;
use user_text::UserTextField;

/// The layout of one tracepoint's raw record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    /// The event's name, without its system.
    pub name: String,
    /// Its id, `perf_event_attr.config`.
    pub id: u64,
    /// All fields, common ones first, as in the file.
    pub fields: Vec<Field>,
    /// The `print fmt:` text, unparsed.
    pub print_fmt: String,
    /// Minimum size of a record in bytes: the end of the last field's fixed part.
    pub fixed_size: usize,
    /// Strings that a BPF program adds to the record, as the kernel does since 6.19.
    pub user_text: Vec<UserTextField>,
    /// Values that are not fields, with the reason.
    pub omitted: Vec<OmittedField>,
    /// Values that the kernel may leave unset.
    pub unset: UnsetValues,
}

/// A value that an event could have as a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedField {
    /// Its name.
    pub name: String,
    /// The reason and what to do, as text behind its name.
    pub why: String,
}

/// One field of a raw record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name as in the file.
    pub name: String,
    /// The type as in the file, without the name: `char[16]`, `__data_loc char[]`, `const char *`.
    pub type_text: String,
    /// Offset in the raw record in bytes.
    pub offset: usize,
    /// Size of the fixed part in bytes.
    pub size: usize,
    /// Whether integers (or elements) are signed.
    pub signed: bool,
    /// Whether the field is one of the `common_*` fields.
    pub common: bool,
    /// How to decode it.
    pub kind: FieldKind,
}

/// Fields at the start of every record: name, type, offset, size, whether signed
/// (`struct trace_entry`, include/linux/trace_events.h).
const COMMON_FIELDS: [(&str, &str, usize, usize, bool); 4] = [
    ("common_type", "unsigned short", 0, 2, false),
    ("common_flags", "unsigned char", 2, 1, false),
    ("common_preempt_count", "unsigned char", 3, 1, false),
    ("common_pid", "int", 4, 4, true),
];

/// Size in bytes of the fields that [`common_fields`] returns.
pub const COMMON_SIZE: usize = 8;

/// Returns the fields at the start of every record, for a format that no kernel describes.
pub fn common_fields() -> impl Iterator<Item = Field> {
    COMMON_FIELDS.into_iter().map(|(name, type_text, offset, size, signed)| Field {
        name: name.to_owned(),
        type_text: type_text.to_owned(),
        offset,
        size,
        signed,
        common: true,
        kind: FieldKind::Int,
    })
}

/// The encoding of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer of `size` bytes: 1, 2, 4 or 8.
    Int,
    /// A pointer or an address: an unsigned integer, shown in hexadecimal.
    Pointer,
    /// A double, in native byte order. No kernel field has this type.
    Float,
    /// `char[N]`: text that ends at NUL or at `size`.
    Chars,
    /// An array of integers of this many bytes each, within `size`.
    Array(u8),
    /// Uninterpreted bytes: an array of u8, a structure.
    Bytes,
    /// `__data_loc`: a u32 at `offset` with the data's offset from the start of the record in the
    /// lower half and the length in the upper half.
    DataLoc(Element),
    /// `__rel_loc`: the same, with the offset from the end of this field.
    RelLoc(Element),
}

/// The elements of a dynamic array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `char[]`: text.
    Char,
    /// `char[]`: text that a probe read from memory. Text has at least its NUL; without a byte, the
    /// memory could not be read, and the text is [`FAULT`].
    Fetched,
    /// Integers of this many bytes, more than one.
    Int(u8),
    /// Bytes.
    Byte,
}

/// The text of a string that could not be read from memory, as the kernel prints it
/// (`print_type_string()` in kernel/trace/trace_probe.c).
pub const FAULT: &str = "(fault)";

/// The record is too short for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record is too short for the field")]
pub struct TooShort;

impl Format {
    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Returns the offset of a field if it has this number of bytes.
    pub fn offset_of(&self, name: &str, bytes: usize) -> Option<usize> {
        self.field(name).filter(|field| field.size == bytes).map(|field| field.offset)
    }

    /// Returns the offset of `common_pid`, which has 4 bytes.
    pub fn common_pid(&self) -> Option<usize> {
        self.offset_of("common_pid", 4)
    }

    /// Returns the reason for which a value is not a field, to be printed after its name; None if
    /// the event has no such value.
    pub fn why_omitted(&self, name: &str) -> Option<&str> {
        self.omitted.iter().find(|field| field.name == name).map(|field| field.why.as_str())
    }

    /// Returns each own field (not `common_*`) with its value; skips fields that cannot be read.
    pub fn values<'a>(&'a self, raw: &'a [u8]) -> FieldValues<'a> {
        FieldValues { fields: self.fields.iter(), raw }
    }

    /// Passes each own field (not `common_*`) to `put` with its index among them and its value;
    /// skips fields that cannot be read. Faster than [`Format::values`], which copies items twice.
    #[inline]
    pub fn read_each<'a>(
        &'a self,
        raw: &'a [u8],
        mut put: impl FnMut(usize, &'a Field, Value<'a>),
    ) {
        for (at, field) in self.fields.iter().filter(|field| !field.common).enumerate() {
            let fixed = field.fixed(raw);
            // The most frequent kinds without a call, which would return the value in memory.
            match (field.kind, fixed) {
                (FieldKind::Int, Some(fixed)) => put(at, field, field.integer(fixed)),
                (FieldKind::Chars, Some(fixed)) => put(at, field, Value::Text(until_nul(fixed))),
                _ => field.read(raw).into_iter().for_each(|value| put(at, field, value)),
            }
        }
    }
}

/// The fields of one record; see [`Format::values`].
#[derive(Clone, Debug)]
pub struct FieldValues<'a> {
    fields: std::slice::Iter<'a, Field>,
    raw: &'a [u8],
}

impl<'a> Iterator for FieldValues<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let raw = self.raw;
        self.fields
            .by_ref()
            .filter(|f| !f.common)
            .find_map(|f| Some((f.name.as_str(), f.read(raw).ok()?)))
    }
}

impl Field {
    /// Returns the field's value in a raw record. Integers and elements are in native byte order.
    ///
    /// # Errors
    /// The record ends before the field or before its dynamic data.
    pub fn read<'a>(&self, raw: &'a [u8]) -> Result<Value<'a>, TooShort> {
        let fixed = self.fixed(raw).ok_or(TooShort)?;
        Ok(match self.kind {
            FieldKind::Int => self.integer(fixed),
            FieldKind::Pointer => Value::Pointer(read_bits(fixed, false)),
            FieldKind::Float => Value::Float(f64::from_bits(read_bits(fixed, false))),
            FieldKind::Chars => Value::Text(until_nul(fixed)),
            FieldKind::Array(width) => array(fixed, width, self.signed),
            FieldKind::Bytes => Value::Bytes(fixed),
            FieldKind::DataLoc(element) => self.dynamic(raw, fixed, 0, element)?,
            FieldKind::RelLoc(element) => {
                self.dynamic(raw, fixed, self.offset + self.size, element)?
            }
        })
    }

    /// Returns whether its name ends with `comm`, as those of the names of tasks do; these have at
    /// most 15 bytes.
    pub fn is_task_name(&self) -> bool {
        self.name.ends_with("comm")
    }

    /// Returns the field's fixed part.
    #[inline]
    fn fixed<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Returns the type of the value that [`Field::read`] returns.
    pub fn value_type(&self) -> ValueType {
        match self.kind {
            FieldKind::Int if self.signed => ValueType::Int,
            FieldKind::Int => ValueType::Uint,
            FieldKind::Pointer => ValueType::Pointer,
            FieldKind::Float => ValueType::Float,
            FieldKind::Chars
            | FieldKind::DataLoc(Element::Char | Element::Fetched)
            | FieldKind::RelLoc(Element::Char | Element::Fetched) => ValueType::Text,
            FieldKind::Bytes
            | FieldKind::DataLoc(Element::Byte)
            | FieldKind::RelLoc(Element::Byte) => ValueType::Bytes,
            FieldKind::Array(_)
            | FieldKind::DataLoc(Element::Int(_))
            | FieldKind::RelLoc(Element::Int(_)) => {
                if self.signed {
                    ValueType::Ints
                } else {
                    ValueType::Uints
                }
            }
        }
    }

    /// Returns the type of its values with their width.
    pub fn field_type(&self) -> FieldType {
        let bytes = match self.kind {
            FieldKind::Int => self.size,
            FieldKind::Array(width)
            | FieldKind::DataLoc(Element::Int(width))
            | FieldKind::RelLoc(Element::Int(width)) => usize::from(width),
            _ => 8,
        };
        let bytes = if [1, 2, 4].contains(&bytes) { bytes as u8 } else { 8 };
        FieldType { of: self.value_type(), bytes }
    }

    /// Returns its place if it is an integer or text of a fixed size.
    pub fn fixed_field(&self) -> Option<FixedField> {
        let encoding = match self.kind {
            FieldKind::Int | FieldKind::Pointer if ![1, 2, 4, 8].contains(&self.size) => None,
            FieldKind::Int if self.signed => Some(FixedEncoding::Signed),
            FieldKind::Int | FieldKind::Pointer => Some(FixedEncoding::Unsigned),
            FieldKind::Chars => Some(FixedEncoding::Text),
            _ => None,
        };
        encoding.map(|encoding| FixedField { offset: self.offset, size: self.size, encoding })
    }

    /// Returns the bytes of a dynamic field, terminator included; None if the field is not dynamic.
    ///
    /// # Errors
    /// The record ends before the field or before its data.
    pub fn dynamic_bytes<'a>(&self, raw: &'a [u8]) -> Option<Result<&'a [u8], TooShort>> {
        let base = match self.kind {
            FieldKind::DataLoc(_) => 0,
            FieldKind::RelLoc(_) => self.offset.checked_add(self.size)?,
            _ => return None,
        };
        let end = self.offset.checked_add(self.size)?;
        Some(raw.get(self.offset..end).ok_or(TooShort).and_then(|fixed| located(raw, fixed, base)))
    }

    #[inline]
    fn integer<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        let value = read_bits(bytes, self.signed);
        if self.signed { Value::Int(value.cast_signed()) } else { Value::Uint(value) }
    }

    fn dynamic<'a>(
        &self,
        raw: &'a [u8],
        fixed: &[u8],
        base: usize,
        element: Element,
    ) -> Result<Value<'a>, TooShort> {
        let bytes = located(raw, fixed, base)?;
        Ok(match element {
            Element::Fetched if bytes.is_empty() => Value::Text(FAULT.as_bytes()),
            Element::Char | Element::Fetched => Value::Text(until_nul(bytes)),
            Element::Int(width) => array(bytes, width, self.signed),
            Element::Byte => Value::Bytes(bytes),
        })
    }
}

/// Returns the data that a location word refers to (length in the upper half, offset in the lower).
fn located<'a>(raw: &'a [u8], word: &[u8], base: usize) -> Result<&'a [u8], TooShort> {
    let word = read_bits(word, false);
    let start = base.checked_add((word & 0xffff) as usize).ok_or(TooShort)?;
    let end = start.checked_add((word >> 16 & 0xffff) as usize).ok_or(TooShort)?;
    raw.get(start..end).ok_or(TooShort)
}

fn array(bytes: &[u8], width: u8, signed: bool) -> Value<'_> {
    let whole = bytes.len() - bytes.len() % usize::from(width.max(1));
    Value::Array { bytes: &bytes[..whole], size: width.max(1), signed }
}
