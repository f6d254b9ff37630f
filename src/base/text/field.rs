//! Formats values as `name=value`.

use super::{digits, escape};
use crate::base::event::value::Value;
use crate::base::report::cell::Cell;
use std::io::Write;

/// Appends a field's value.
pub fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Int(value) => digits::push_i64(out, *value),
        Value::Uint(value) => digits::push_u64(out, *value),
        Value::Pointer(value) => digits::push_hex(out, *value),
        Value::Float(value) => push_float(out, *value, None),
        Value::Text(text) => escape::push_word(out, text),
        Value::Bytes(bytes) => digits::push_hex_bytes(out, bytes),
        Value::Array { .. } => push_array(out, value),
    }
}

/// Appends fields as `name=value`, separated by blanks.
pub fn push_fields<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'a str, Value<'a>)>) {
    for (position, (name, value)) in fields.enumerate() {
        if position > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        push_value(out, &value);
    }
}

/// Appends the elements in brackets: `[1,-2,3]`.
pub fn push_array(out: &mut Vec<u8>, array: &Value<'_>) {
    out.push(b'[');
    for (i, element) in array.elements().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        digits::push_i128(out, element);
    }
    out.push(b']');
}

/// Appends a cell as escaped text without quotes, since it is text that a script formats for
/// display. `Cell::Empty` appends nothing.
pub fn push_cell(out: &mut Vec<u8>, cell: &Cell, decimals: Option<usize>) {
    match cell {
        Cell::Empty => {}
        Cell::Int(value) => digits::push_i128(out, value.get()),
        Cell::Num(value) => push_float(out, *value, decimals),
        Cell::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Cell::Text(text) => {
            escape::push_shown(out, text.as_bytes());
        }
        Cell::Stack(stack) => {
            for (i, frame) in stack.frames.iter().enumerate() {
                if i > 0 {
                    escape::push_shown(out, stack.between.as_bytes());
                }
                escape::push_shown(out, frame.as_bytes());
            }
        }
    }
}

/// Appends a number with `decimals` digits after the point; `-` for NaN, as after 0/0.
fn push_float(out: &mut Vec<u8>, value: f64, decimals: Option<usize>) {
    // Writing to a Vec cannot fail.
    let _ = match decimals {
        _ if value.is_nan() => out.write_all(b"-"),
        Some(decimals) => write!(out, "{value:.decimals$}"),
        None if value != 0.0 && !(1e-5..1e16).contains(&value.abs()) => write!(out, "{value:e}"),
        None => write!(out, "{value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(value: &Value<'_>) -> String {
        let mut out = Vec::new();
        push_value(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    fn cell(cell: &Cell, decimals: Option<usize>) -> String {
        let mut out = Vec::new();
        push_cell(&mut out, cell, decimals);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind_of_value_is_formatted() {
        assert_eq!(value(&Value::Int(-4)), "-4");
        assert_eq!(value(&Value::Uint(u64::MAX)), "18446744073709551615");
        assert_eq!(value(&Value::Pointer(0xffffffff81c01f58)), "0xffffffff81c01f58");
        assert_eq!(value(&Value::Text(b"nginx")), "nginx");
        assert_eq!(value(&Value::Bytes(&[0, 255])), "00ff");
        let bytes: Vec<u8> = [1i32, -2, 3].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(value(&Value::Array { bytes: &bytes, size: 4, signed: true }), "[1,-2,3]");
        assert_eq!(value(&Value::Array { bytes: &[], size: 4, signed: true }), "[]");
    }

    #[test]
    fn cells_are_exact_unless_decimals_are_given() {
        assert_eq!(cell(&Cell::Empty, None), "");
        assert_eq!(cell(&Cell::whole((1 << 53) + 1), None), "9007199254740993");
        assert_eq!(
            cell(&Cell::whole(i128::from(u64::MAX) * 1000), None),
            "18446744073709551615000"
        );
        assert_eq!(cell(&Cell::Num(2.0 / 3.0), Some(3)), "0.667");
        assert_eq!(cell(&Cell::Num(25.0), None), "25");
        assert_eq!(cell(&Cell::Num(0.1), None), "0.1");
        assert_eq!(cell(&Cell::Num(1e300), None), "1e300");
        assert_eq!(cell(&Cell::Num(f64::NAN), Some(2)), "-");
        assert_eq!(cell(&Cell::Text("two words\x1b".into()), None), r"two words\x1b");
    }
}
