//! Converts values of scripts to cells of the output.

use mlua::{Table, Value};

use crate::base::report::draw::Cell;
use crate::base::text::message::utf8;

/// Converts a script's value to a cell.
pub(in crate::script) fn cell(value: Value) -> Cell {
    match value {
        Value::Nil => Cell::Empty,
        Value::Integer(n) => Cell::Int(i128::from(n)),
        Value::Number(n) => Cell::from(n),
        Value::String(s) => Cell::Text(utf8(&s.as_bytes()).into_owned()),
        Value::Boolean(b) => Cell::Bool(b),
        other => Cell::Text(other.to_string().unwrap_or_else(|_| other.type_name().to_owned())),
    }
}

/// Returns the named values of a Lua table, sorted by name because `pairs` has no order.
///
/// # Errors
/// A key is not text.
pub(in crate::script) fn named(table: &Table) -> mlua::Result<Vec<(String, Cell)>> {
    let mut all = Vec::new();
    for pair in table.pairs::<String, Value>() {
        let (name, value) = pair?;
        all.push((name, cell(value)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf_8_stay_distinct() {
        let lua = mlua::Lua::new();
        let of = |bytes: &[u8]| cell(Value::String(lua.create_string(bytes).unwrap()));
        assert_eq!(of(b"a\xff\xfe"), Cell::Text("a\\xff\\xfe".to_owned()));
        assert_eq!(of(b"\xc3\xa9\xff"), Cell::Text("\u{e9}\\xff".to_owned()));
    }
}
