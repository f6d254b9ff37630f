//! Track events and their annotations: the name, the category and the fields of an event.

use super::intern::{Interned, Kind};
use super::wire::{put_double, put_int, put_message, put_text, put_uint};
use crate::base::event::value::Value;
use crate::base::report::draw::Cell;
use crate::base::text::digits;

/// The longest text that is interned; a longer one is unlikely to occur again.
const INTERNED: usize = 100;

/// Appends the beginning of a `TrackEvent`. Its category is the system of an event's name.
#[inline]
pub(super) fn begin_event(
    body: &mut Vec<u8>,
    strings: &mut Interned,
    kind: u64,
    track: u64,
    name: &[u8],
) {
    put_uint(body, 9, kind);
    put_uint(body, 11, track);
    put_uint(body, 10, strings.text(Kind::EventName, name));
    if let Some(system) = name.iter().position(|byte| *byte == b':') {
        let category = name.get(..system).unwrap_or_default();
        put_uint(body, 3, strings.text(Kind::Category, category));
    }
}

/// Appends a `DebugAnnotation`: a field with its value.
#[inline]
pub(super) fn put_field(
    body: &mut Vec<u8>,
    strings: &mut Interned,
    name: &[u8],
    value: &Value<'_>,
) {
    let name = strings.text(Kind::AnnotationName, name);
    let text = match value {
        Value::Text(text) if text.len() <= INTERNED => {
            Some(strings.text(Kind::AnnotationText, text))
        }
        _ => None,
    };
    put_message(body, 4, |out| {
        put_uint(out, 1, name);
        match value {
            Value::Int(value) => put_int(out, 4, *value),
            Value::Uint(value) => put_uint(out, 3, *value),
            Value::Pointer(value) => put_uint(out, 7, *value),
            Value::Float(value) => put_double(out, 5, *value),
            Value::Text(long) => match text {
                Some(iid) => put_uint(out, 17, iid),
                None => put_text(out, 6, long),
            },
            Value::Bytes(bytes) => {
                let mut digits = Vec::with_capacity(2 * bytes.len());
                digits::push_hex_bytes(&mut digits, bytes);
                put_text(out, 6, &digits);
            }
            Value::Array { .. } => {
                for element in value.elements() {
                    put_message(out, 12, |out| put_int(out, 4, element as i64));
                }
            }
        }
    });
}

/// Appends a value of a script as a `DebugAnnotation`.
pub(super) fn put_cell(body: &mut Vec<u8>, strings: &mut Interned, name: &[u8], cell: &Cell) {
    let stack;
    let value = match cell {
        Cell::Empty => return,
        Cell::Int(value) => match i64::try_from(*value) {
            Ok(value) => Value::Int(value),
            Err(_) => Value::Float(*value as f64),
        },
        Cell::Num(value) => Value::Float(*value),
        Cell::Bool(value) => {
            let name = strings.text(Kind::AnnotationName, name);
            put_message(body, 4, |out| {
                put_uint(out, 1, name);
                put_uint(out, 2, (*value).into());
            });
            return;
        }
        Cell::Text(text) => Value::Text(text.as_bytes()),
        Cell::Stack { frames, between } => {
            stack = frames.join(between);
            Value::Text(stack.as_bytes())
        }
    };
    put_field(body, strings, name, &value);
}
