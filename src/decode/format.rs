//! A tracepoint's `format` file: where each field lies in a raw record, and how to read it.
//!
//! Offsets, sizes and signs come from the file and from nowhere else: kernels pad, hide and move fields.
//! What a field means comes from its type's text: `char[16]` is text whatever its sign says, because
//! `char` is unsigned on some architectures. The kernel writes these files in `f_show()` and
//! `print_event_fields()` of kernel/trace/trace_events.c.

mod parse;
#[cfg(test)]
mod tests;

pub use parse::BadFormat;

use crate::base::value::{Value, ValueType, read_int};

/// The layout of one tracepoint's raw record.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub fn values<'a>(&'a self, raw: &'a [u8]) -> Values<'a> {
        Values { fields: self.fields.iter(), raw }
    }
}

/// The fields of one record; see [`Format::values`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    fields: std::slice::Iter<'a, Field>,
    raw: &'a [u8],
}

impl<'a> Iterator for Values<'a> {
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
    /// The field's value in a raw record. Integers and elements are in native byte order.
    pub fn read<'a>(&self, raw: &'a [u8]) -> Result<Value<'a>, TooShort> {
        let fixed = self.offset.checked_add(self.size).and_then(|end| raw.get(self.offset..end));
        let fixed = fixed.ok_or(TooShort)?;
        Ok(match self.kind {
            Kind::Int => self.integer(fixed),
            Kind::Pointer => Value::Pointer(read_int(fixed, false) as u64),
            Kind::Chars => Value::Text(until_nul(fixed)),
            Kind::Array(width) => array(fixed, width, self.signed),
            Kind::Bytes => Value::Bytes(fixed),
            Kind::DataLoc(element) => self.dynamic(raw, fixed, 0, element)?,
            Kind::RelLoc(element) => self.dynamic(raw, fixed, self.offset + self.size, element)?,
        })
    }

    /// What [`Field::read`] gives.
    pub fn value_type(&self) -> ValueType {
        match self.kind {
            Kind::Int if self.signed => ValueType::Int,
            Kind::Int => ValueType::Uint,
            Kind::Pointer => ValueType::Pointer,
            Kind::Chars | Kind::DataLoc(Element::Char) | Kind::RelLoc(Element::Char) => {
                ValueType::Text
            }
            Kind::Bytes | Kind::DataLoc(Element::Byte) | Kind::RelLoc(Element::Byte) => {
                ValueType::Bytes
            }
            Kind::Array(_) | Kind::DataLoc(Element::Int(_)) | Kind::RelLoc(Element::Int(_)) => {
                if self.signed {
                    ValueType::Ints
                } else {
                    ValueType::Uints
                }
            }
        }
    }

    /// The bytes that a dynamic field points to, terminator included; None when the field is not dynamic.
    pub fn dynamic_bytes<'a>(&self, raw: &'a [u8]) -> Option<Result<&'a [u8], TooShort>> {
        let base = match self.kind {
            Kind::DataLoc(_) => 0,
            Kind::RelLoc(_) => self.offset.checked_add(self.size)?,
            _ => return None,
        };
        let end = self.offset.checked_add(self.size)?;
        Some(raw.get(self.offset..end).ok_or(TooShort).and_then(|fixed| located(raw, fixed, base)))
    }

    fn integer<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        let value = read_int(bytes, self.signed);
        if self.signed { Value::Int(value as i64) } else { Value::Uint(value as u64) }
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
            Element::Char => Value::Text(until_nul(bytes)),
            Element::Int(width) => array(bytes, width, self.signed),
            Element::Byte => Value::Bytes(bytes),
        })
    }
}

/// What a location word (length above, offset below) points to.
fn located<'a>(raw: &'a [u8], word: &[u8], base: usize) -> Result<&'a [u8], TooShort> {
    let word = read_int(word, false) as u64;
    let start = base.checked_add((word & 0xffff) as usize).ok_or(TooShort)?;
    let end = start.checked_add((word >> 16 & 0xffff) as usize).ok_or(TooShort)?;
    raw.get(start..end).ok_or(TooShort)
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.iter().position(|b| *b == 0).map_or(bytes, |end| &bytes[..end])
}

fn array(bytes: &[u8], width: u8, signed: bool) -> Value<'_> {
    let whole = bytes.len() - bytes.len() % usize::from(width.max(1));
    Value::Array { bytes: &bytes[..whole], size: width.max(1), signed }
}
