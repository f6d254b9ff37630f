//! A format for an event that is known only by its lines, and raw records in this format.

use super::line::{FieldText, Literal, ParsedLine};
use crate::base::event::value::{FieldType, ValueType};
use crate::base::text::fault::Fault;
use crate::decode::format::{COMMON_SIZE, Element, Field, FieldKind, Format, common_fields};
use crate::event::kind::has_fields;
use indexmap::IndexMap;

/// Properties that the lines of one event share.
#[derive(Default)]
pub(super) struct LineLayout {
    /// Kinds of values of each field, in order of appearance.
    seen: IndexMap<String, SeenKinds>,
    /// Whether every line has `value` as its only field, and it is not negative.
    counts: bool,
    lines: usize,
}

/// Layout of the records of one event.
pub(super) struct LineFormat {
    pub(super) format: Format,
    /// Whether the event is a count without fields: its name is not `sys:name`, and its lines have
    /// no other field than `value`.
    pub(super) counter: bool,
    /// Whether `value` is a count.
    counts: bool,
}

/// Kinds of values seen in one field.
#[derive(Default)]
struct SeenKinds {
    integers: bool,
    pointers: bool,
    arrays: bool,
    bytes: bool,
    text: bool,
    /// Type that the header declares.
    declared: Option<FieldType>,
    negative: bool,
    /// Above i64::MAX, in decimal.
    large: bool,
}

impl LineLayout {
    /// Adds a field of the recording's header.
    pub(super) fn declare(&mut self, name: &str, declared: FieldType) {
        if is_common(name) {
            return;
        }
        let seen = self.seen.entry(name.to_owned()).or_default();
        seen.declared = Some(declared);
        match declared.of {
            ValueType::Int => seen.integers = true,
            ValueType::Uint => (seen.integers, seen.large) = (true, true),
            ValueType::Pointer => seen.pointers = true,
            ValueType::Float | ValueType::Text => seen.text = true,
            ValueType::Bytes => seen.bytes = true,
            ValueType::Ints => seen.arrays = true,
            ValueType::Uints => (seen.arrays, seen.large) = (true, true),
        }
    }

    /// Adds one line's fields.
    ///
    /// # Errors
    /// A value does not match the declared type or the other values of its field, or is text with a
    /// NUL.
    pub(super) fn see(&mut self, line: &ParsedLine<'_>) -> Result<(), Fault> {
        self.counts = (self.lines == 0 || self.counts) && count(line).is_some();
        self.lines += 1;
        for word in &line.fields {
            if is_common(word.name) {
                continue;
            }
            let seen = self.seen.entry(word.name.to_owned()).or_default();
            if let (Some(of), Literal::Text(_)) = (seen.declared, &word.literal)
                && of.of != ValueType::Text
            {
                let text = String::from_utf8_lossy(&word.text()).into_owned();
                let what = format!(
                    "`{text}` is not {}, the type that the header gives `{}`",
                    of.name(),
                    word.name
                );
                return Err(word.fault(what));
            }
            match &word.literal {
                Literal::Int(value) => {
                    seen.integers = true;
                    seen.range(*value);
                }
                Literal::Pointer(_) => seen.pointers = true,
                Literal::Array(elements) => {
                    seen.arrays = true;
                    elements.iter().for_each(|value| seen.range(*value));
                }
                Literal::Bytes(_) => seen.bytes = true,
                Literal::Text(text) if text.contains(&0) => {
                    return Err(
                        word.fault(format!("the text of `{}` has a NUL; write hex:…", word.name))
                    );
                }
                Literal::Text(_) => seen.text = true,
            }
            if seen.negative
                && seen.large
                && !matches!(seen.kind(), FieldKind::DataLoc(Element::Char))
            {
                let what = format!(
                    "`{}` has values below 0 and above 2^63; no field type holds both",
                    word.name
                );
                return Err(word.fault(what));
            }
        }
        Ok(())
    }

    /// Returns the format of `event`, after the last line was seen.
    pub(super) fn build_format(&self, event: &str, id: u64) -> LineFormat {
        let mut fields: Vec<Field> = common_fields().collect();
        let mut end = COMMON_SIZE;
        for (name, seen) in &self.seen {
            let kind = seen.kind();
            let size = match kind {
                FieldKind::DataLoc(_) => 4,
                FieldKind::Int => usize::from(seen.width()),
                _ => 8,
            };
            let offset = end.next_multiple_of(size);
            end = offset + size;
            fields.push(Field {
                name: name.clone(),
                type_text: seen.type_text(),
                offset,
                size,
                signed: seen.is_signed(),
                common: name.starts_with("common_"),
                kind,
            });
        }
        let name = event.split_once(':').map_or(event, |(_, name)| name).to_owned();
        let format = Format { name, id, fields, fixed_size: end, ..Format::default() };
        let counter = (self.counts || self.seen.is_empty()) && !has_fields(event);
        LineFormat { format, counter, counts: self.counts }
    }
}

impl LineFormat {
    /// Returns the line's count, if the event only counts.
    pub(super) fn value(&self, line: &ParsedLine<'_>) -> Option<u64> {
        if self.counts { count(line) } else { None }
    }

    /// Returns the raw record of a line; empty for a counter.
    ///
    /// # Errors
    /// A value does not fit its field, or the record would be larger than 64 KiB.
    pub(super) fn encode(&self, line: &ParsedLine<'_>) -> Result<Vec<u8>, Fault> {
        if self.counter {
            return Ok(Vec::new());
        }
        let mut raw = vec![0u8; self.format.fixed_size];
        for field in &self.format.fields {
            let word = line.field(&field.name);
            let tail = match (field.kind, word) {
                (FieldKind::DataLoc(Element::Char), word) => {
                    let mut text = word.map(FieldText::text).unwrap_or_default();
                    text.push(0);
                    text
                }
                (FieldKind::DataLoc(_), Some(word)) => match &word.literal {
                    Literal::Array(elements) => array(field, word, elements)?,
                    Literal::Bytes(bytes) => bytes.clone(),
                    _ => Vec::new(),
                },
                (FieldKind::DataLoc(_), None) => Vec::new(),
                (_, word) => {
                    put(&mut raw, field, integer(field, word, line)?);
                    continue;
                }
            };
            let location = (u16::try_from(raw.len()).ok()).zip(u16::try_from(tail.len()).ok());
            let Some((offset, length)) = location else {
                return Err(line.fault("the record would be larger than 64 KiB".into()));
            };
            put(&mut raw, field, u64::from(length) << 16 | u64::from(offset));
            raw.extend_from_slice(&tail);
        }
        Ok(raw)
    }
}

impl SeenKinds {
    fn range(&mut self, value: i128) {
        self.negative |= value < 0;
        self.large |= value > i128::from(i64::MAX);
    }

    /// Returns the kind that holds all values seen; text if kinds differ.
    fn kind(&self) -> FieldKind {
        let numbers = self.integers || self.pointers;
        match (self.text, numbers, self.arrays, self.bytes) {
            (false, true, false, false) if self.pointers && !self.negative => FieldKind::Pointer,
            (false, true, false, false) => FieldKind::Int,
            (false, false, true, false) => FieldKind::DataLoc(Element::Int(self.width())),
            (false, false, false, true) => FieldKind::DataLoc(Element::Byte),
            _ => FieldKind::DataLoc(Element::Char),
        }
    }

    fn is_signed(&self) -> bool {
        matches!(self.kind(), FieldKind::Int | FieldKind::DataLoc(Element::Int(_))) && !self.large
    }

    /// Returns the size in bytes of an integer, or of an element of an array: the declared one.
    fn width(&self) -> u8 {
        self.declared.map_or(8, |declared| declared.bytes)
    }

    fn type_text(&self) -> String {
        let sign = if self.large { 'u' } else { 's' };
        match self.kind() {
            FieldKind::Pointer => "void *".into(),
            FieldKind::Int => format!("{sign}{}", 8 * u32::from(self.width())),
            FieldKind::DataLoc(Element::Byte) => "__data_loc u8[]".into(),
            FieldKind::DataLoc(Element::Int(_)) => {
                format!("__data_loc {sign}{}[]", 8 * u32::from(self.width()))
            }
            _ => "__data_loc char[]".into(),
        }
    }
}

/// Returns the value of an integer field: the line's, else what a kernel would write there, else 0.
fn integer(
    field: &Field,
    word: Option<&FieldText<'_>>,
    line: &ParsedLine<'_>,
) -> Result<u64, Fault> {
    let Some(word) = word else {
        return Ok(if field.name == "common_pid" { line.tid.into() } else { 0 });
    };
    let value = match word.literal {
        Literal::Int(value) => value,
        Literal::Pointer(value) if field.size == 8 => return Ok(value),
        Literal::Pointer(value) => value.into(),
        _ => return Err(word.fault(format!("`{}` must be a number", field.name))),
    };
    check_width(field, word, value, field.size)?;
    Ok(value as u64)
}

/// Returns the bytes of an array.
fn array(field: &Field, word: &FieldText<'_>, elements: &[i128]) -> Result<Vec<u8>, Fault> {
    let FieldKind::DataLoc(Element::Int(width)) = field.kind else { return Ok(Vec::new()) };
    let width = usize::from(width);
    let mut bytes = vec![0; width * elements.len()];
    for (place, element) in bytes.chunks_exact_mut(width.max(1)).zip(elements) {
        check_width(field, word, *element, width)?;
        put_low(place, *element as u64);
    }
    Ok(bytes)
}

fn check_width(
    field: &Field,
    word: &FieldText<'_>,
    value: i128,
    width: usize,
) -> Result<(), Fault> {
    let bits = 8 * width as u32;
    if width < 8 && !(-(1i128 << (bits - 1))..1i128 << bits).contains(&value) {
        return Err(word.fault(format!("`{}` has {bits} bits; {value} does not fit", field.name)));
    }
    Ok(())
}

/// Writes the low bytes of a value at a field's offset.
fn put(raw: &mut [u8], field: &Field, value: u64) {
    let end = field.offset + field.size;
    if let Some(place) = raw.get_mut(field.offset..end) {
        put_low(place, value);
    }
}

/// Writes the low bytes of a value to a place of 1, 2, 4 or 8 bytes.
fn put_low(place: &mut [u8], value: u64) {
    match place.len() {
        1 => place.copy_from_slice(&(value as u8).to_ne_bytes()),
        2 => place.copy_from_slice(&(value as u16).to_ne_bytes()),
        4 => place.copy_from_slice(&(value as u32).to_ne_bytes()),
        _ => place.copy_from_slice(&value.to_ne_bytes()),
    }
}

/// Returns whether every record has a field of this name.
fn is_common(name: &str) -> bool {
    common_fields().any(|field| field.name == name)
}

/// Returns the value of a line whose only field is a count.
fn count(line: &ParsedLine<'_>) -> Option<u64> {
    match line.fields.as_slice() {
        [FieldText { name: "value", literal: Literal::Int(value), .. }] => {
            u64::try_from(*value).ok()
        }
        _ => None,
    }
}
