//! The layout of a table: its cells as text and the widths of its columns.

use crate::base::report::draw::{Align, Cell, Column, Table};
use crate::base::text::{escape, field};

/// The columns of a table that text output shows, their titles, and the text of every row.
pub(super) struct TableLayout {
    pub(super) columns: Vec<PlacedColumn>,
    pub(super) titles: Vec<MeasuredText>,
    pub(super) rows: Vec<Vec<MeasuredText>>,
}

/// Formats the cells of a table and computes the widths of its columns.
pub(super) fn lay_out(table: &Table) -> TableLayout {
    let columns: Vec<(usize, &Column)> =
        table.columns.iter().enumerate().filter(|(_, column)| !column.json_only).collect();
    let titles: Vec<MeasuredText> = columns
        .iter()
        .map(|(_, column)| MeasuredText::of(|out| escape::push_shown(out, column.title.as_bytes())))
        .collect();
    let decimals: Vec<Option<usize>> = columns
        .iter()
        .zip(&titles)
        .map(|((i, column), title)| decimals(&table.rows, *i, column, title.width))
        .collect();
    let cells = columns.iter().zip(&decimals);
    let rows: Vec<Vec<MeasuredText>> = table
        .rows
        .iter()
        .map(|row| {
            cells
                .clone()
                .map(|((i, _), n)| MeasuredText::cell(row.get(*i), *n).cut(row.get(*i)))
                .collect()
        })
        .collect();
    let columns = columns
        .iter()
        .enumerate()
        .map(|(i, (at, column))| {
            let cells = rows.iter().filter_map(|row| row.get(i)).chain(titles.get(i));
            let width = cells.map(|cell| cell.width).fold(column.width, usize::max);
            PlacedColumn {
                width,
                align: column.align,
                arrow: column.arrow,
                names: of_names(&table.rows, *at),
                spare: column.spare,
            }
        })
        .collect();
    TableLayout { columns, titles, rows }
}

/// A column with its final width.
#[derive(Clone)]
pub(super) struct PlacedColumn {
    pub(super) width: usize,
    pub(super) align: Align,
    pub(super) arrow: bool,
    /// Whether it shows names, which can be shortened, instead of numbers.
    pub(super) names: bool,
    /// Whether it is omitted if there is no room.
    pub(super) spare: bool,
}

/// A text and its width in characters.
#[derive(Clone)]
pub(super) struct MeasuredText {
    pub(super) text: Vec<u8>,
    pub(super) width: usize,
}

impl MeasuredText {
    pub(super) fn of(push: impl FnOnce(&mut Vec<u8>) -> usize) -> MeasuredText {
        let mut text = Vec::new();
        let width = push(&mut text);
        MeasuredText { text, width }
    }

    /// Shortens a stack that is too long for a column to its beginning.
    fn cut(mut self, cell: Option<&Cell>) -> MeasuredText {
        if is_chain(cell) && self.width > STACK_WIDTH {
            let text = String::from_utf8_lossy(&self.text);
            let short: String = text.chars().take(STACK_WIDTH - 1).chain(['…']).collect();
            (self.text, self.width) = (short.into_bytes(), STACK_WIDTH);
        }
        self
    }

    fn cell(cell: Option<&Cell>, decimals: Option<usize>) -> MeasuredText {
        MeasuredText::of(|out| match cell {
            None => 0,
            Some(Cell::Text(text)) => escape::push_shown(out, text.as_bytes()),
            Some(cell) => {
                field::push_cell(out, cell, decimals);
                out.len()
            }
        })
    }
}

/// Maximum width of a stack in a column.
const STACK_WIDTH: usize = 48;

/// Returns the columns with a stack wider than [`STACK_WIDTH`].
pub(super) fn long_stacks(table: &Table) -> Vec<usize> {
    let long =
        |cell: Option<&Cell>| is_chain(cell) && MeasuredText::cell(cell, None).width > STACK_WIDTH;
    let columns = 0..table.columns.len();
    columns.filter(|column| table.rows.iter().any(|row| long(row.get(*column)))).collect()
}

/// Returns whether a cell shows several frames; a single frame is the name of a function.
fn is_chain(cell: Option<&Cell>) -> bool {
    matches!(cell, Some(Cell::Stack { frames, .. }) if frames.len() > 1)
}

/// Returns whether a column contains text.
fn of_names(rows: &[Vec<Cell>], i: usize) -> bool {
    rows.iter()
        .any(|row| matches!(row.get(i), Some(Cell::Text(_) | Cell::Bool(_) | Cell::Stack { .. })))
}

/// Returns the number of decimals in a column: as many as wanted, or fewer if the column shrinks.
/// Decimal points are aligned.
fn decimals(rows: &[Vec<Cell>], i: usize, column: &Column, title: usize) -> Option<usize> {
    let wanted = column.decimals?;
    if !column.shrinks {
        return Some(wanted);
    }
    let room = column.width.max(title);
    let fits =
        |n: &usize| rows.iter().all(|row| MeasuredText::cell(row.get(i), Some(*n)).width <= room);
    Some((0..=wanted).rev().find(fits).unwrap_or(0))
}
