//! The layout of a table: its cells as text and the widths of its columns.

use crate::base::report::cell::Cell;
use crate::base::report::draw::{Align, Column, Table};
use crate::base::report::rows::TableRows;
use crate::base::text::{escape, field};

/// The columns of a table that text output shows, and their titles.
///
/// Rows are formatted twice, for the widths and when they are printed: the texts of a table of 10^5
/// rows would take more memory than all else of a run.
pub(super) struct TableLayout {
    pub(super) columns: Vec<PlacedColumn>,
    pub(super) titles: Vec<MeasuredText>,
}

/// Formats the titles of a table and computes the widths of its columns.
pub(super) fn lay_out(table: &Table) -> TableLayout {
    let columns: Vec<(usize, &Column)> =
        table.columns.iter().enumerate().filter(|(_, column)| !column.json_only).collect();
    let titles: Vec<MeasuredText> = columns
        .iter()
        .map(|(_, column)| MeasuredText::of(|out| escape::push_shown(out, column.title.as_bytes())))
        .collect();
    let placed = columns.iter().zip(&titles).map(|((at, column), title)| {
        let decimals = decimals(&table.rows, *at, column, title.width);
        let widths =
            table.rows.iter().map(|row| MeasuredText::fitting(row.get(*at), decimals).width);
        let widest = widths.max().unwrap_or(0);
        PlacedColumn {
            at: *at,
            decimals,
            width: widest.max(title.width).max(column.width),
            widest,
            align: column.align,
            arrow: column.arrow,
            names: of_names(&table.rows, *at),
            spare: column.spare,
        }
    });
    TableLayout { columns: placed.collect(), titles }
}

impl TableLayout {
    /// Returns the texts of a row of the table. Shortens those that are wider than their column.
    pub(super) fn row(&self, cells: &[Cell]) -> Vec<MeasuredText> {
        let text = |column: &PlacedColumn| {
            let mut text = MeasuredText::fitting(cells.get(column.at), column.decimals);
            if text.width > column.width {
                shorten(&mut text.text, 0, column.width);
                text.width = column.width;
            }
            text
        };
        self.columns.iter().map(text).collect()
    }
}

/// A column with its final width.
#[derive(Clone)]
pub(super) struct PlacedColumn {
    /// Its index in the table.
    at: usize,
    decimals: Option<usize>,
    pub(super) width: usize,
    /// The width of its widest cell.
    pub(super) widest: usize,
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

    /// Returns the text of a cell. A stack that is too long for a column is cut at its end.
    fn fitting(cell: Option<&Cell>, decimals: Option<usize>) -> MeasuredText {
        MeasuredText::cell(cell, decimals).cut(cell)
    }

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
    matches!(cell, Some(Cell::Stack(stack)) if stack.frames.len() > 1)
}

/// Returns whether a column contains text.
fn of_names(rows: &TableRows, i: usize) -> bool {
    rows.iter()
        .any(|row| matches!(row.get(i), Some(Cell::Text(_) | Cell::Bool(_) | Cell::Stack(_))))
}

/// Returns the number of decimals in a column: as many as wanted, or fewer if the column shrinks.
/// Decimal points are aligned.
fn decimals(rows: &TableRows, i: usize, column: &Column, title: usize) -> Option<usize> {
    let wanted = column.decimals?;
    if !column.shrinks {
        return Some(wanted);
    }
    let room = column.width.max(title);
    let fits =
        |n: &usize| rows.iter().all(|row| MeasuredText::cell(row.get(i), Some(*n)).width <= room);
    Some((0..=wanted).rev().find(fits).unwrap_or(0))
}

/// Shortens the text from `start` on to `width` characters; keeps its beginning and its end.
pub(super) fn shorten(out: &mut Vec<u8>, start: usize, width: usize) {
    let text = String::from_utf8_lossy(out.get(start..).unwrap_or_default()).into_owned();
    let count = text.chars().count();
    let Some(kept) = width.checked_sub(1).filter(|_| count > width) else { return };
    let head = kept.div_ceil(2);
    let (front, back) = (text.chars().take(head), text.chars().skip(count - (kept - head)));
    out.truncate(start);
    out.extend_from_slice(front.chain(['…']).chain(back).collect::<String>().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(text: &str, width: usize) -> String {
        let mut out = text.as_bytes().to_vec();
        shorten(&mut out, 2, width);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_long_name_keeps_both_ends() {
        assert_eq!(shortened("  std::vector<int>::push_back", 16), "  std::vec…sh_back");
        assert_eq!(shortened("  träge", 4), "  tr…e");
        assert_eq!(shortened("  träge", 5), "  träge");
        assert_eq!(shortened("  träge", 1), "  …");
    }
}
