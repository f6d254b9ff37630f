//! Tables and histograms as text.
//!
//! A column is as wide as its minimum width, its title or its widest cell. Widths count characters.
//! The layouts of histograms (bounds, counts, 40 stars) and of ruled tables are those of
//! `funclatency` and similar tools.

use super::layout::{MeasuredText, PlacedColumn, TableLayout, lay_out, long_stacks, shorten};
use super::{ByteSink, Colour, counts, shrink};
use crate::base::report::cell::Cell;
use crate::base::report::draw::{Align, DrawnHistogram, Style, Table};
use crate::base::report::rows::TableRows;
use crate::base::text::units::counted;
use crate::base::text::{digits, escape, field};

/// Number of stars of the fullest bucket.
const STARS: u64 = 40;

/// Escape sequences for a terminal; each begins with one of these and ends with `RESET`.
pub(super) const BOLD: &[u8] = b"\x1b[1m";
pub(super) const DIM: &[u8] = b"\x1b[2m";
pub(super) const RED: &[u8] = b"\x1b[31m";
const RESET: &[u8] = b"\x1b[0m";

/// Draws between the escape sequence `paint` and its end, if colour is used.
pub(super) fn painted(
    out: &mut Vec<u8>,
    colour: Colour,
    paint: &[u8],
    draw: impl FnOnce(&mut Vec<u8>),
) {
    match colour {
        Colour::Never => draw(out),
        Colour::Always => {
            out.extend_from_slice(paint);
            draw(out);
            out.extend_from_slice(RESET);
        }
    }
}

/// Appends the titles, their rule if the style has one, and the rows, in lines of at most `room`
/// characters where that is possible, and writes rows early if there are many. Returns the titles
/// of the columns that were omitted for lack of room.
pub(super) fn push_table(
    sink: &mut ByteSink,
    table: &Table,
    colour: Colour,
    room: Option<usize>,
) -> Vec<Vec<u8>> {
    let out = &mut sink.buffer;
    if let Some(title) = &table.title {
        painted(out, colour, BOLD, |out| {
            escape::push_shown(out, title.as_bytes());
        });
        out.push(b'\n');
    }
    // Stacks too long for a column are printed below their rows, one line per frame.
    let below = long_stacks(table);
    let narrow = (!below.is_empty()).then(|| without(table, &below));
    if let Style::Counts { all } = table.style {
        let (counted, blocks) = counts::blocks(table, all, room);
        blocks.iter().for_each(|block| push_lines(sink, &counted, block, colour));
        return Vec::new();
    }
    let shown = narrow.as_ref().unwrap_or(table);
    let mut laid = lay_out(shown);
    let omitted = match room {
        Some(room) => shrink::fit(&mut laid, room),
        None => {
            shrink::limit_names(&mut laid);
            Vec::new()
        }
    };
    if laid.columns.is_empty() && below.is_empty() {
        return omitted;
    }
    painted(out, colour, BOLD, |out| push_row(out, &laid.titles, &laid.columns));
    out.push(b'\n');
    if table.style == Style::Ruled {
        push_rule(out, &laid.columns);
        out.push(b'\n');
    }
    for (i, row) in shown.rows.iter().enumerate() {
        push_line(sink, &laid, row);
        let out = &mut sink.buffer;
        for (nth, column) in below.iter().enumerate() {
            let cell = table.rows.get(i).and_then(|row| row.get(*column));
            let Some(Cell::Stack(stack)) = cell else { continue };
            if stack.frames.is_empty() {
                continue;
            }
            if let (1.., Some(column)) = (nth, table.columns.get(*column)) {
                push_below(out, &format!("-- {}", column.title), room);
            }
            stack.frames.iter().for_each(|frame| push_below(out, frame, room));
        }
    }
    omitted
}

/// Appends an indented line below a row.
fn push_below(out: &mut Vec<u8>, text: &str, room: Option<usize>) {
    let start = out.len();
    out.extend_from_slice(b"        ");
    escape::push_shown(out, text.as_bytes());
    room.iter().for_each(|room| shorten(out, start, *room));
    out.push(b'\n');
}

/// Appends a line with the number of rows beyond the limit of a table, if there are any.
pub(super) fn push_hidden(out: &mut Vec<u8>, rows: u64, colour: Colour) {
    if rows > 0 {
        painted(out, colour, DIM, |out| {
            out.extend_from_slice(
                format!("({} not shown)", counted(rows, "further row")).as_bytes(),
            );
        });
        out.push(b'\n');
    }
}

/// Appends a line that lists the columns omitted for lack of room.
pub(super) fn push_omitted(out: &mut Vec<u8>, titles: &[Vec<u8>], colour: Colour) {
    painted(out, colour, DIM, |out| {
        out.extend_from_slice(b"(a wider terminal, a file or --json also shows ");
        out.extend_from_slice(&titles.join(&b' '));
        out.push(b')');
    });
    out.push(b'\n');
}

/// Returns the table without some columns. Does not copy their cells, which have dozens of frames.
fn without(table: &Table, omitted: &[usize]) -> Table {
    let others = |i: &usize| !omitted.contains(i);
    let columns = (0..table.columns.len()).filter(others);
    let mut rows = TableRows::with_capacity(columns.clone().count(), table.rows.len());
    for row in table.rows.iter() {
        let cells = row.iter().enumerate().filter(|(i, _)| others(i));
        rows.push(cells.map(|(_, cell)| cell.clone()));
    }
    Table {
        name: table.name.clone(),
        title: table.title.clone(),
        columns: columns.filter_map(|i| table.columns.get(i).cloned()).collect(),
        rows,
        ..*table
    }
}

/// Appends `title(unit) : count    distribution`, then one line per bucket.
pub(super) fn push_hist(out: &mut Vec<u8>, hist: &DrawnHistogram, colour: Colour) {
    let digits = |n: i64| {
        MeasuredText::of(|out| {
            digits::push_i64(out, n);
            0
        })
        .text
        .len()
    };
    let bound =
        hist.buckets.iter().flat_map(|b| [digits(b.low), digits(b.high)]).fold(10, usize::max);
    let most = hist.buckets.iter().map(|b| b.count).fold(0, u64::max);
    let count_width = most.to_string().len().max(8);

    if !hist.keys.is_empty() {
        out.resize(out.len() + bound - 5, b' ');
        for (i, (name, cell)) in hist.keys.iter().enumerate() {
            if i > 0 {
                out.push(b' ');
            }
            push_pair(out, name, cell);
        }
        out.push(b'\n');
    }
    painted(out, colour, BOLD, |out| {
        out.resize(out.len() + bound - 5, b' ');
        let mut width = escape::push_shown(out, hist.title.as_bytes());
        if !hist.unit.is_empty() {
            out.push(b'(');
            width += 2 + escape::push_shown(out, hist.unit.as_bytes());
            out.push(b')');
        }
        pad(out, width, bound + 9);
        out.extend_from_slice(b" : count");
        pad(out, "count".len(), count_width);
        out.extend_from_slice(b" distribution");
    });
    out.push(b'\n');
    for (at, bucket) in hist.buckets.iter().enumerate() {
        let mut low = Vec::new();
        digits::push_i64(&mut low, bucket.low);
        escape::push_shown_right(out, &low, bound);
        out.extend_from_slice(b" -> ");
        let start = out.len();
        digits::push_i64(out, bucket.high);
        pad(out, out.len() - start, bound);
        out.extend_from_slice(b" : ");
        let start = out.len();
        digits::push_u64(out, bucket.count);
        pad(out, out.len() - start, count_width);
        out.extend_from_slice(b" |");
        let stars = u128::from(bucket.count) * u128::from(STARS) / u128::from(most.max(1));
        out.resize(out.len() + stars as usize, b'*');
        pad(out, stars as usize, STARS as usize);
        out.push(b'|');
        if let Some(error) = hist.errors.get(at) {
            out.extend_from_slice(" ±".as_bytes());
            digits::push_u64(out, error.round() as u64);
        }
        out.push(b'\n');
    }
}

/// Appends `name=value`; the value of an empty cell is `-`.
pub(super) fn push_pair(out: &mut Vec<u8>, name: &str, cell: &Cell) {
    escape::push_shown(out, name.as_bytes());
    out.push(b'=');
    match cell {
        Cell::Empty => out.push(b'-'),
        cell => field::push_cell(out, cell, None),
    }
}

/// Appends the titles and the rows.
fn push_lines(sink: &mut ByteSink, table: &Table, laid: &TableLayout, colour: Colour) {
    let out = &mut sink.buffer;
    painted(out, colour, BOLD, |out| push_row(out, &laid.titles, &laid.columns));
    out.push(b'\n');
    table.rows.iter().for_each(|row| push_line(sink, laid, row));
}

/// Appends a row of a table, after it has written the rows above if these are many.
fn push_line(sink: &mut ByteSink, laid: &TableLayout, row: &[Cell]) {
    sink.write_early();
    let out = &mut sink.buffer;
    push_row(out, &laid.row(row), &laid.columns);
    out.push(b'\n');
}

fn push_row(out: &mut Vec<u8>, cells: &[MeasuredText], columns: &[PlacedColumn]) {
    let start = out.len();
    for (i, (cell, column)) in cells.iter().zip(columns).enumerate() {
        if column.align == Align::Right {
            pad(out, cell.width, column.width);
        }
        out.extend_from_slice(&cell.text);
        if i + 1 < columns.len() {
            if column.align == Align::Left {
                pad(out, cell.width, column.width);
            }
            out.extend_from_slice(if column.arrow { b" => " } else { b" " });
        }
    }
    // Removes the blanks of an empty last cell.
    while out.len() > start && out.last() == Some(&b' ') {
        out.pop();
    }
}

fn push_rule(out: &mut Vec<u8>, columns: &[PlacedColumn]) {
    for (i, column) in columns.iter().enumerate() {
        out.resize(out.len() + column.width, b'-');
        if i + 1 < columns.len() {
            out.extend_from_slice(if column.arrow { b"    " } else { b" " });
        }
    }
}

/// Appends blanks after (or before) a text of `used` characters, up to `width`.
fn pad(out: &mut Vec<u8>, used: usize, width: usize) {
    out.resize(out.len() + width.saturating_sub(used), b' ');
}

#[cfg(test)]
mod tests;
