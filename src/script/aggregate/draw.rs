//! Draws tables as parts of a report: their columns, widths and rows.
//!
//! A kind copies its rows first, and Lua is called for texts only then, once per distinct value: a
//! function of the script may itself add to an aggregate.

use super::cells::{EVICTED, TableParts};
use super::spec::KeyColumn;
use crate::{
    base::report::cell::Cell,
    base::report::draw::{Align, Column, Report, Style, Table},
    base::report::rows::TableRows,
    script::{
        aggregate::column::{column, column_key, make_unique},
        vm::cell::TextSize,
    },
    stat::word::Word,
};
use std::collections::HashMap;

/// Minimum width of a column with an arrow: fits names of tracepoints.
const ARROW_WIDTH: usize = 19;

/// The cells of rows besides their values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowShape {
    /// Whether the cells of the key are omitted.
    pub(super) hide_key: bool,
    /// Whether the last cell is a name.
    pub(super) named: bool,
}

/// Rows whose keys and names are not drawn yet: their cells are empty.
pub(super) struct UndrawnRows {
    rows: TableRows,
    shape: RowShape,
    /// Number of cells of a key.
    key_cells: usize,
    /// Number of words of a key.
    key_words: usize,
    /// The keys of the first rows; the others are those of evicted keys.
    keys: Vec<Word>,
    /// String ids of the names of these rows, if rows have names.
    names: Vec<Option<u32>>,
}

impl UndrawnRows {
    /// Returns no rows, with room for `len` of as many cells as there are columns.
    pub(super) fn new(
        parts: &TableParts<'_>,
        shape: RowShape,
        columns: usize,
        len: usize,
    ) -> UndrawnRows {
        let words = parts.columns.iter().flatten().count();
        UndrawnRows {
            rows: TableRows::with_capacity(columns, len),
            shape,
            key_cells: if shape.hide_key { 0 } else { words },
            key_words: words,
            keys: Vec::with_capacity(words * len),
            names: Vec::new(),
        }
    }

    /// Adds a row, before those of evicted keys.
    pub(super) fn push(
        &mut self,
        key: &[Word],
        name: Option<u32>,
        values: impl IntoIterator<Item = Cell>,
    ) {
        self.push_evicted(values);
        self.keys.extend(key.iter().take(self.key_words));
        self.keys.resize(self.rows.len() * self.key_words, Word::ZERO);
        if self.shape.named {
            self.names.push(name);
        }
    }

    /// Adds a row of evicted keys.
    pub(super) fn push_evicted(&mut self, values: impl IntoIterator<Item = Cell>) {
        let key = std::iter::repeat_n(Cell::Empty, self.key_cells);
        self.rows.push(key.chain(values));
    }

    /// Returns the key of a row, or None if it is that of evicted keys.
    fn key(&self, row: usize) -> Option<&[Word]> {
        let start = row * self.key_words;
        self.keys.get(start..start + self.key_words)
    }
}

/// A table whose keys are not drawn yet.
pub(super) struct UndrawnTable<'a> {
    pub(super) style: Style,
    pub(super) samples: u64,
    pub(super) columns: Vec<Column>,
    pub(super) rows: UndrawnRows,
    /// Number of further rows, beyond `top`.
    pub(super) hidden: u64,
    /// The column of the rows' names.
    pub(super) name: Option<&'a KeyColumn>,
}

impl TableParts<'_> {
    /// Returns a table, even without rows: the output decides whether to print the titles alone.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn table(&self, undrawn: UndrawnTable<'_>) -> mlua::Result<Report> {
        let UndrawnTable { style, samples, mut columns, mut rows, hidden, name } = undrawn;
        let (mut texts, mut names) = (self.texts(), HashMap::new());
        let mut size = TextSize::new(&self.shared.budget);
        for at in 0..rows.rows.len() {
            let key = rows.key(at);
            let drawn = match rows.shape.hide_key {
                true => Vec::new(),
                false => self.key_cells(&mut texts, key)?,
            };
            let name = match (name, key) {
                (None, _) => None,
                (Some(_), None) if rows.shape.hide_key => Some(Cell::Text(EVICTED.to_owned())),
                (Some(_), None) => Some(Cell::Empty),
                (Some(column), Some(key)) if column.draw.is_some() => {
                    let word = key.first().copied().unwrap_or(Word::ZERO);
                    Some(self.text(&mut names, column, word)?)
                }
                (Some(_), Some(_)) => {
                    let id = rows.names.get(at).copied().flatten();
                    Some(id.map_or(Cell::Empty, |id| self.plain(Word::string(id))))
                }
            };
            let Some(row) = rows.rows.get_mut(at) else { continue };
            row.iter_mut().zip(drawn).for_each(|(cell, drawn)| *cell = drawn);
            if let (Some(cell), Some(name)) = (row.last_mut(), name) {
                *cell = name;
            }
            size.add(row)?;
        }
        make_unique(&mut columns);
        Ok(Report::Table(Table {
            name: self.name.to_owned(),
            title: self.title.map(str::to_owned),
            style,
            samples,
            columns,
            rows: rows.rows,
            hidden,
        }))
    }

    /// Returns the columns of the key. `ruled` is the minimum width of the last one in a ruled
    /// table.
    pub(super) fn key_columns(&self, ruled: Option<usize>) -> Vec<Column> {
        let columns: Vec<&KeyColumn> = self.columns.iter().flatten().collect();
        let last = columns.len().saturating_sub(1);
        let of = |(i, key): (usize, &&KeyColumn)| {
            let least = match (ruled, i == last) {
                _ if key.arrow => ARROW_WIDTH,
                (Some(width), true) => width,
                (Some(_), false) => 4,
                (None, _) => 8,
            };
            let side = if ruled.is_some() && !key.arrow { Align::Left } else { Align::Right };
            Column {
                width: key.width.unwrap_or(least.max(key.names_width)),
                align: key.align.unwrap_or(side),
                arrow: key.arrow,
                decimals: None,
                ..column(&key.title, &column_key(&key.title), 0)
            }
        };
        columns.iter().enumerate().map(of).collect()
    }
}
