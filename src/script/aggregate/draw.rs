//! Draws tables as parts of a report: their columns, widths and rows.
//!
//! A kind copies its rows first, and Lua is called for texts only then, once per distinct value: a
//! function of the script may itself add to an aggregate.

use super::cells::{EVICTED, TableParts};
use super::spec::KeyColumn;
use crate::{
    base::report::draw::{Align, Cell, Column, Report, Style, Table},
    script::{
        aggregate::column::{column, column_key, make_unique},
        vm::cell::TextSize,
    },
    stat::word::Word,
};
use std::collections::HashMap;

/// Minimum width of a column with an arrow: fits names of tracepoints.
const ARROW_WIDTH: usize = 19;

/// A row whose key is not drawn yet.
pub(super) struct UndrawnRow {
    key: UndrawnKey,
    name: Option<u32>,
    cells: Vec<Cell>,
}

/// The key of a row. A key of one word is not allocated: there may be 10^5 rows.
enum UndrawnKey {
    /// That of the row of evicted keys.
    Evicted,
    One(Word),
    Many(Box<[Word]>),
}

impl UndrawnRow {
    /// Returns a row without a name; without a key, that of evicted keys.
    pub(super) fn new(key: Option<&[Word]>, cells: Vec<Cell>) -> UndrawnRow {
        let key = match key {
            None => UndrawnKey::Evicted,
            Some([word]) => UndrawnKey::One(*word),
            Some(words) => UndrawnKey::Many(words.into()),
        };
        UndrawnRow { key, name: None, cells }
    }

    /// Returns the row with the name of a string id.
    pub(super) fn named(self, name: Option<u32>) -> UndrawnRow {
        UndrawnRow { name, ..self }
    }

    fn key(&self) -> Option<&[Word]> {
        match &self.key {
            UndrawnKey::Evicted => None,
            UndrawnKey::One(word) => Some(std::slice::from_ref(word)),
            UndrawnKey::Many(words) => Some(words),
        }
    }
}

/// A table whose keys are not drawn yet.
pub(super) struct UndrawnTable<'a> {
    pub(super) style: Style,
    pub(super) samples: u64,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<UndrawnRow>,
    /// Number of further rows, beyond `top`.
    pub(super) hidden: u64,
    pub(super) hide_key: bool,
    /// The column of the rows' names.
    pub(super) name: Option<&'a KeyColumn>,
}

impl TableParts<'_> {
    /// Returns a table, even without rows: the output decides whether to print the titles alone.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn table(&self, undrawn: UndrawnTable<'_>) -> mlua::Result<Report> {
        let UndrawnTable { style, samples, mut columns, rows, hidden, hide_key, name } = undrawn;
        let (mut texts, mut names) = (self.texts(), HashMap::new());
        let mut draw = |mut row: UndrawnRow| {
            // In the memory of the row: there may be 10^5 of them.
            let mut cells = std::mem::take(&mut row.cells);
            let key = row.key();
            if !hide_key {
                let values = cells.len();
                cells.extend(self.key_cells(&mut texts, key)?);
                cells.rotate_left(values);
            }
            match (name, key) {
                (Some(_), None) if hide_key => cells.push(Cell::Text(EVICTED.to_owned())),
                (Some(_), None) => cells.push(Cell::Empty),
                (Some(column), Some(key)) if column.draw.is_some() => {
                    let word = key.first().copied().unwrap_or(Word::ZERO);
                    cells.push(self.text(&mut names, column, word)?);
                }
                (Some(_), Some(_)) => {
                    cells.push(row.name.map_or(Cell::Empty, |id| self.plain(Word::string(id))));
                }
                (None, _) => {}
            }
            mlua::Result::Ok(cells)
        };
        let mut size = TextSize::new(&self.shared.budget);
        // In the memory of the rows.
        let drawn = rows.into_iter().map(|row| {
            let row = draw(row)?;
            size.add(&row)?;
            Ok(row)
        });
        let drawn = drawn.collect::<mlua::Result<_>>()?;
        make_unique(&mut columns);
        Ok(Report::Table(Table {
            name: self.name.to_owned(),
            title: self.title.map(str::to_owned),
            style,
            samples,
            columns,
            rows: drawn,
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
