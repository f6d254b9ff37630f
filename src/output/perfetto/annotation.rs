//! Track events and their annotations: the name, the category and the fields of an event.

use super::intern::{Interned, Kind};
use super::wire::{put_double, put_int, put_message, put_text, put_uint};
use crate::base::event::value::Value;
use crate::base::report::cell::Cell;
use crate::base::text::digits;

/// The longest text that is interned; a longer one is unlikely to occur again.
const INTERNED: usize = 100;

/// The numbers of an event's interned name and category.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventNumbers {
    name: u64,
    category: Option<u64>,
}

impl EventNumbers {
    /// Interns the name of an event. Its category is the system of the name.
    pub(super) fn of(strings: &mut Interned, name: &[u8]) -> EventNumbers {
        let system = name.iter().position(|byte| *byte == b':');
        let category = system.and_then(|system| name.get(..system));
        EventNumbers {
            name: strings.text(Kind::EventName, name),
            category: category.map(|category| strings.text(Kind::Category, category)),
        }
    }
}

/// Appends the beginning of a `TrackEvent`.
#[inline]
pub(super) fn begin_event(body: &mut Vec<u8>, event: EventNumbers, kind: u64, track: u64) {
    put_uint(body, 9, kind);
    put_uint(body, 11, track);
    put_uint(body, 10, event.name);
    if let Some(category) = event.category {
        put_uint(body, 3, category);
    }
}

/// Appends a `DebugAnnotation`: a field with its value.
pub(super) fn put_field(
    body: &mut Vec<u8>,
    strings: &mut Interned,
    name: &[u8],
    value: &Value<'_>,
) {
    let name = strings.text(Kind::AnnotationName, name);
    put_annotation(body, strings, name, value);
}

/// Appends a `DebugAnnotation` whose interned name has the number `name`.
#[inline]
pub(super) fn put_annotation(
    body: &mut Vec<u8>,
    strings: &mut Interned,
    name: u64,
    value: &Value<'_>,
) {
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
        Cell::Int(value) => match i64::try_from(value.get()) {
            Ok(value) => Value::Int(value),
            Err(_) => Value::Float(value.get() as f64),
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
        Cell::Stack(of) => {
            stack = of.frames.join(&of.between);
            Value::Text(stack.as_bytes())
        }
    };
    put_field(body, strings, name, &value);
}
