//! Cells of CSV: quotes where they are needed, and no text that a spreadsheet would execute.

use crate::base::event::value::Value;
use crate::base::report::cell::Cell;
use crate::base::text::{escape, field};

/// Appends a cell, quoted if needed, and a comma.
pub(super) fn push_field(writer: &mut csv_core::Writer, out: &mut Vec<u8>, text: &[u8]) {
    if escape::all(text, |byte| (byte >= 0x20) & (byte != b',') & (byte != b'"')) {
        out.extend_from_slice(text);
        out.push(b',');
        return;
    }
    let start = out.len();
    // The longest result: in quotes, each character a quote, which is doubled; and the comma.
    out.resize(start + 2 * text.len() + 3, 0);
    let rest = out.get_mut(start..).unwrap_or_default();
    let (_, _, written) = writer.field(text, rest);
    let (_, ended) = writer.delimiter(rest.get_mut(written..).unwrap_or_default());
    out.truncate(start + written + ended);
}

/// Ends a row: its last cell has no comma.
pub(super) fn end_row(out: &mut Vec<u8>) {
    out.pop();
    out.push(b'\n');
}

/// Separates values within a cell.
pub(super) fn separate(cell: &mut Vec<u8>) {
    if !cell.is_empty() {
        cell.push(b' ');
    }
}

/// Returns whether a spreadsheet would execute the text.
pub(super) fn is_formula(text: &[u8]) -> bool {
    let is_number = |text| {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        number.is_some_and(f64::is_finite)
    };
    matches!(text.first(), Some(b'=' | b'+' | b'-' | b'@')) && !is_number(text)
}

/// Appends text with harmful characters escaped.
pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    if is_formula(text) {
        out.push(b'\'');
    }
    escape::push_shown(out, text);
}

/// Appends the value of an event's field.
pub(super) fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Text(text) => push_text(out, text),
        value => field::push_value(out, value),
    }
}

/// Appends the value of a row.
pub(super) fn push_cell(out: &mut Vec<u8>, cell: &Cell) {
    match cell {
        Cell::Empty => {}
        Cell::Text(text) => push_text(out, text.as_bytes()),
        Cell::Stack(stack) => push_text(out, stack.frames.join(";").as_bytes()),
        Cell::Num(number) if !number.is_finite() => {}
        cell => field::push_cell(out, cell, None),
    }
}
