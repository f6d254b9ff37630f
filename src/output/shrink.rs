//! Fits wide tables to a terminal: removes blanks first, then the middle of long names, then
//! optional columns, then the middle of short names.
//!
//! Numbers are never cut. Names of C++ and Rust functions are cut in the middle, which is mostly
//! types. The minimum and the percentiles of times are optional columns: JSON and a wider terminal
//! show them.

use super::layout::TableLayout;

/// Minimum number of characters that a name keeps: beside optional columns, and without them.
const LEAST: usize = 16;
const LEAST_OF_ALL: usize = 8;

/// Narrows a table until its rows have at most `room` characters, or cannot become narrower.
/// Returns the titles of the columns that were omitted.
pub(super) fn fit(laid: &mut TableLayout, room: usize) -> Vec<Vec<u8>> {
    let mut omitted = Vec::new();
    while least_of_all(laid, LEAST).iter().sum::<usize>() + gaps(laid) > room {
        let Some(i) = laid.columns.iter().position(|column| column.spare) else { break };
        laid.columns.remove(i);
        omitted.push(laid.titles.remove(i).text);
    }
    fit_names(laid, room);
    omitted
}

/// Narrows a table like [`fit`], without omitting columns.
pub(super) fn fit_names(laid: &mut TableLayout, room: usize) {
    for names in [usize::MAX, LEAST, LEAST_OF_ALL] {
        let least = least_of_all(laid, names);
        let widths = laid.columns.iter().map(|column| column.width);
        let mut total = gaps(laid) + widths.sum::<usize>();
        while total > room {
            let columns = laid.columns.iter_mut().zip(&least);
            let wider = columns.filter(|(column, least)| column.width > **least);
            let Some((widest, _)) = wider.max_by_key(|(column, _)| column.width) else { break };
            widest.width -= 1;
            total -= 1;
        }
    }
}

/// Returns the minimum width of each column if names are cut to `names` characters.
fn least_of_all(laid: &TableLayout, names: usize) -> Vec<usize> {
    (0..laid.columns.len()).map(|i| least(laid, i, names)).collect()
}

/// Maximum width of a name in front of other columns. Names of C++ and Rust functions can exceed a
/// thousand characters.
const NAME_WIDTH: usize = 128;

/// Shortens the names that would push the columns after them out of sight, if no terminal sets a
/// limit.
pub(super) fn limit_names(laid: &mut TableLayout) {
    let behind = laid.columns.len().saturating_sub(1);
    for column in laid.columns.iter_mut().take(behind).filter(|column| column.names) {
        column.width = column.width.min(NAME_WIDTH);
    }
}

/// Returns the total width of the gaps between the columns.
fn gaps(laid: &TableLayout) -> usize {
    let behind = laid.columns.iter().rev().skip(1);
    behind.map(|column| if column.arrow { 4 } else { 1 }).sum()
}

/// Returns the minimum width of a column if names are cut to `names` characters. Titles and numbers
/// are not cut.
fn least(laid: &TableLayout, i: usize, names: usize) -> usize {
    let Some(column) = laid.columns.get(i) else { return 0 };
    let title = laid.titles.get(i).map_or(0, |title| title.width);
    title.max(if column.names { column.widest.min(names) } else { column.widest })
}
