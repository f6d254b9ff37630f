//! Converts values of scripts to cells of the output.

use mlua::{Table, Value};

use crate::base::report::cell::Cell;
use crate::base::text::message::utf8;
use crate::stat::budget::Budget;

/// Longest text of a cell, in bytes of the script's string. Lua holds a string once; each cell has
/// a copy.
const TEXT_MAX: usize = 64 << 10;

/// Largest text of a row's cells together, in bytes.
const ROW_MAX: usize = 16 << 20;

/// Converts a script's value to a cell. Longer text than 64 KiB is cut.
pub(in crate::script) fn cell(value: Value) -> Cell {
    match value {
        Value::String(s) if s.as_bytes().len() > TEXT_MAX => {
            let bytes = s.as_bytes();
            // Not within a character.
            let is_start = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
            let end = (TEXT_MAX - 3..=TEXT_MAX).rev().find(is_start).unwrap_or(TEXT_MAX);
            let (start, rest) = bytes.split_at(end);
            Cell::Text(format!("{}... ({} more bytes)", utf8(start), rest.len()))
        }
        Value::Nil => Cell::Empty,
        Value::Integer(n) => Cell::whole(i128::from(n)),
        Value::Number(n) => Cell::from(n),
        Value::String(s) => Cell::Text(utf8(&s.as_bytes()).into_owned()),
        Value::Boolean(b) => Cell::Bool(b),
        other => Cell::Text(other.to_string().unwrap_or_else(|_| other.type_name().to_owned())),
    }
}

/// The size of the text of a report, which has the limit of the aggregates' memory.
pub(in crate::script) struct TextSize<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl<'a> TextSize<'a> {
    /// Begins a report.
    pub(in crate::script) fn new(budget: &'a Budget) -> TextSize<'a> {
        TextSize { budget, bytes: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The text of the report is larger than the limit.
    pub(in crate::script) fn add(&mut self, row: &[Cell]) -> mlua::Result<()> {
        self.bytes += text_len(row);
        self.budget.check_text(self.bytes).map_err(mlua::Error::external)
    }
}

/// Returns the bytes of the texts of cells.
fn text_len(cells: &[Cell]) -> usize {
    let len = |cell: &Cell| if let Cell::Text(text) = cell { text.len() } else { 0 };
    cells.iter().map(len).sum()
}

/// Returns the named values of a Lua table, sorted by name because `pairs` has no order.
///
/// # Errors
/// A key is not text.
pub(in crate::script) fn named(table: &Table) -> mlua::Result<Vec<(String, Cell)>> {
    let (mut all, mut size) = (Vec::new(), 0);
    for pair in table.pairs::<String, Value>() {
        let (name, value) = pair?;
        let cell = cell(value);
        size += name.len() + text_len(std::slice::from_ref(&cell));
        if size > ROW_MAX {
            return Err(mlua::Error::runtime(
                "the text of a row is larger than 16 MiB; shorten it",
            ));
        }
        all.push((name, cell));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bounded() {
        let lua = mlua::Lua::new();
        let long = Value::String(lua.create_string("x".repeat(TEXT_MAX + 5)).unwrap());
        let Cell::Text(text) = cell(long.clone()) else { panic!("no text") };
        assert!(text.ends_with("xx... (5 more bytes)") && text.len() < TEXT_MAX + 30);
        let table = lua.create_table().unwrap();
        for i in 0..300 {
            table.set(format!("field{i}"), long.clone()).unwrap();
        }
        let why = named(&table).unwrap_err().to_string();
        assert!(why.contains("larger than 16 MiB"), "{why}");
    }

    #[test]
    fn bytes_that_are_not_utf_8_stay_distinct() {
        let lua = mlua::Lua::new();
        let of = |bytes: &[u8]| cell(Value::String(lua.create_string(bytes).unwrap()));
        assert_eq!(of(b"a\xff\xfe"), Cell::Text("a\\xff\\xfe".to_owned()));
        assert_eq!(of(b"\xc3\xa9\xff"), Cell::Text("\u{e9}\\xff".to_owned()));
    }
}
