//! A table's cells as text, and how wide they make its columns: what is drawn, painted on a screen, or made to fit.

use crate::base::draw::{Align, Cell, Column, Table};
use crate::base::text::{escape, field};

/// A table's columns that text shows, their titles, and the text of every row.
pub(super) struct Laid {
    pub(super) columns: Vec<Placed>,
    pub(super) titles: Vec<Shown>,
    pub(super) rows: Vec<Vec<Shown>>,
}

/// Cells as text, and how wide that makes the columns.
pub(super) fn lay_out(table: &Table) -> Laid {
    let columns: Vec<(usize, &Column)> =
        table.columns.iter().enumerate().filter(|(_, column)| !column.json_only).collect();
    let titles: Vec<Shown> = columns
        .iter()
        .map(|(_, column)| Shown::of(|out| escape::push_shown(out, column.title.as_bytes())))
        .collect();
    let decimals: Vec<Option<usize>> = columns
        .iter()
        .zip(&titles)
        .map(|((i, column), title)| decimals(&table.rows, *i, column, title.width))
        .collect();
    let cells = columns.iter().zip(&decimals);
    let rows: Vec<Vec<Shown>> = table
        .rows
        .iter()
        .map(|row| {
            cells.clone().map(|((i, _), n)| Shown::cell(row.get(*i), *n).cut(row.get(*i))).collect()
        })
        .collect();
    let columns = columns
        .iter()
        .enumerate()
        .map(|(i, (at, column))| {
            let cells = rows.iter().filter_map(|row| row.get(i)).chain(titles.get(i));
            let width = cells.map(|cell| cell.width).fold(column.width, usize::max);
            Placed {
                width,
                align: column.align,
                arrow: column.arrow,
                names: of_names(&table.rows, *at),
                spare: column.spare,
            }
        })
        .collect();
    Laid { columns, titles, rows }
}

/// A column with its final width.
pub(super) struct Placed {
    pub(super) width: usize,
    pub(super) align: Align,
    pub(super) arrow: bool,
    /// Whether it shows names, which can be shortened, and not numbers.
    pub(super) names: bool,
    /// Whether it is left out where there is no room.
    pub(super) spare: bool,
}

/// Text and how many characters it shows.
pub(super) struct Shown {
    pub(super) text: Vec<u8>,
    pub(super) width: usize,
}

impl Shown {
    pub(super) fn of(push: impl FnOnce(&mut Vec<u8>) -> usize) -> Shown {
        let mut text = Vec::new();
        let width = push(&mut text);
        Shown { text, width }
    }

    /// Of a stack that is too long for a column, the beginning.
    fn cut(mut self, cell: Option<&Cell>) -> Shown {
        if is_chain(cell) && self.width > STACK_WIDTH {
            let text = String::from_utf8_lossy(&self.text);
            let short: String = text.chars().take(STACK_WIDTH - 1).chain(['…']).collect();
            (self.text, self.width) = (short.into_bytes(), STACK_WIDTH);
        }
        self
    }

    fn cell(cell: Option<&Cell>, decimals: Option<usize>) -> Shown {
        Shown::of(|out| match cell {
            None => 0,
            Some(Cell::Text(text)) => escape::push_shown(out, text.as_bytes()),
            Some(cell) => {
                field::push_cell(out, cell, decimals);
                out.len()
            }
        })
    }
}

/// The widest stack that stands in a column.
const STACK_WIDTH: usize = 48;

/// The first column that has a stack wider than that.
pub(super) fn long_stacks(table: &Table) -> Option<usize> {
    let long = |cell: Option<&Cell>| is_chain(cell) && Shown::cell(cell, None).width > STACK_WIDTH;
    let columns = 0..table.columns.len();
    columns.into_iter().find(|column| table.rows.iter().any(|row| long(row.get(*column))))
}

/// Whether it shows several frames: one alone is a function's name.
fn is_chain(cell: Option<&Cell>) -> bool {
    matches!(cell, Some(Cell::Stack { frames, .. }) if frames.len() > 1)
}

/// Whether a column has texts in it.
fn of_names(rows: &[Vec<Cell>], i: usize) -> bool {
    rows.iter()
        .any(|row| matches!(row.get(i), Some(Cell::Text(_) | Cell::Bool(_) | Cell::Stack { .. })))
}

/// Digits after the point in a column's cells: as many as are wanted, fewer where it shrinks. The points stand in a line.
fn decimals(rows: &[Vec<Cell>], i: usize, column: &Column, title: usize) -> Option<usize> {
    let wanted = column.decimals?;
    if !column.shrinks {
        return Some(wanted);
    }
    let room = column.width.max(title);
    let fits = |n: &usize| rows.iter().all(|row| Shown::cell(row.get(i), Some(*n)).width <= room);
    Some((0..=wanted).rev().find(fits).unwrap_or(0))
}
