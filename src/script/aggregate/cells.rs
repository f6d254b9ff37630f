//! Cells of the columns of a key: text that a function of the script or the column's type draws.

use super::settings::AggregateSettings;
use super::spec::{KeyColumn, ReadsAs};
use super::stack::stack_cell;
use crate::base::text::message::utf8;
use crate::stat::sum::I64_RANGE;
use crate::{
    base::{
        report::cell::Cell,
        text::number::{IntegerType, Number, hex},
    },
    script::vm::cell::cell,
    stat::{
        strings::Strings,
        word::{Word, WordContent},
    },
};
use mlua::{Lua, Value};
use std::{cell::RefCell, collections::HashMap};

/// Key of the row of evicted keys.
pub(super) const EVICTED: &str = "(evicted)";

/// The parts that every table has.
pub(super) struct TableParts<'a> {
    pub(super) lua: &'a Lua,
    pub(super) strings: &'a RefCell<Strings>,
    pub(super) shared: &'a AggregateSettings,
    pub(super) name: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) columns: &'a [Option<KeyColumn>],
    /// Whether the table keeps its rows over intervals.
    pub(super) keep: bool,
}

impl TableParts<'_> {
    /// Returns an empty cache of drawn texts for each column.
    pub(super) fn texts(&self) -> Vec<HashMap<Word, Cell>> {
        vec![HashMap::new(); self.columns.len()]
    }

    /// Returns the cells of a key. The row of evicted keys has its label in the first cell.
    pub(super) fn key_cells(
        &self,
        texts: &mut [HashMap<Word, Cell>],
        key: Option<&[Word]>,
    ) -> mlua::Result<Vec<Cell>> {
        let columns = self.columns.iter().flatten();
        let Some(key) = key else {
            let first = std::iter::once(Cell::Text(EVICTED.to_owned()));
            return Ok(first.chain(std::iter::repeat(Cell::Empty)).take(columns.count()).collect());
        };
        let cell = |((column, word), texts)| self.text(texts, column, word);
        columns.zip(key.iter().copied()).zip(texts).map(cell).collect()
    }

    /// Returns the cell of one value of a key, drawn by its column.
    ///
    /// # Errors
    /// The column's own function failed.
    pub(super) fn text(
        &self,
        texts: &mut HashMap<Word, Cell>,
        column: &KeyColumn,
        word: Word,
    ) -> mlua::Result<Cell> {
        if let (Some(style), WordContent::Number(id)) = (&column.stack, word.part()) {
            return Ok(stack_cell(self.shared, texts, style, word, id));
        }
        let Some(draw) = column.draw.as_ref().filter(|_| !self.shared.plain.get()) else {
            let of = column.reads_as.as_ref().map(ReadsAs::integer_type).transpose()?.flatten();
            let integer = of.and_then(|of| self.integer(of, word));
            return Ok(integer.unwrap_or_else(|| self.plain(word)));
        };
        if let Some(cell) = texts.get(&word) {
            return Ok(cell.clone());
        }
        let cell = cell(draw.call::<Value>(self.value(word)?)?);
        texts.insert(word, cell.clone());
        Ok(cell)
    }

    /// Returns the cell of a 64-bit integer of this type, or None for other text.
    ///
    /// Such an integer was passed as hexadecimal text only if a double cannot hold it exactly. Text
    /// whose value a double can hold is something else, for example a task's name, and stays text.
    fn integer(&self, of: IntegerType, word: Word) -> Option<Cell> {
        let exact = |value: i128| value == (value as f64) as i128;
        let value = match word.part() {
            WordContent::Number(value) if of == IntegerType::Mixed => return Some(value.into()),
            WordContent::Number(value) => of.value(whole(value)?.cast_unsigned()),
            WordContent::String(id) => {
                let strings = self.strings.borrow();
                let text = strings.get(id);
                if !text.strip_prefix(b"-").unwrap_or(text).starts_with(b"0x") {
                    return None;
                }
                let value = Number::parse(text)?.to::<i128>()?;
                match u64::try_from(value) {
                    _ if of == IntegerType::Mixed => value,
                    Ok(bits) if !exact(bits.cast_signed().into()) => of.value(bits),
                    _ => return None,
                }
            }
        };
        Some(match of {
            IntegerType::Pointer => Cell::Text(hex(Number::Int(value))),
            _ => Cell::whole(value),
        })
    }

    /// Returns the cell of a value as it is, without the column's function.
    pub(super) fn plain(&self, word: Word) -> Cell {
        match word.part() {
            WordContent::Number(value) => value.into(),
            WordContent::String(id) => Cell::Text(utf8(self.strings.borrow().get(id)).into_owned()),
        }
    }

    /// Converts a key value to a Lua value.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn value(&self, word: Word) -> mlua::Result<Value> {
        Ok(match word.part() {
            WordContent::Number(value) => Value::Number(value),
            WordContent::String(id) => {
                Value::String(self.lua.create_string(self.strings.borrow().get(id))?)
            }
        })
    }
}

/// Returns the integer value of a double, if it is an integer that fits 64 bits.
fn whole(value: f64) -> Option<i64> {
    let is_whole = value.fract() == 0.0 && (-I64_RANGE..I64_RANGE).contains(&value);
    is_whole.then_some(value as i64)
}
