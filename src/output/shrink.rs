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
    let all = |laid: &TableLayout, names: usize| -> Vec<usize> {
        (0..laid.columns.len()).map(|i| least(laid, i, names)).collect()
    };
    while all(laid, LEAST).iter().sum::<usize>() + gaps(laid) > room {
        let Some(i) = laid.columns.iter().position(|column| column.spare) else { break };
        laid.columns.remove(i);
        omitted.push(laid.titles.remove(i).text);
        laid.rows.iter_mut().filter(|row| i < row.len()).for_each(|row| _ = row.remove(i));
    }
    for names in [usize::MAX, LEAST, LEAST_OF_ALL] {
        let least = all(laid, names);
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
    cut(laid);
    omitted
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
    cut(laid);
}

/// Shortens cells that are wider than their column.
fn cut(laid: &mut TableLayout) {
    for row in &mut laid.rows {
        for (cell, column) in row.iter_mut().zip(&laid.columns) {
            if cell.width > column.width {
                shorten(&mut cell.text, 0, column.width);
                cell.width = column.width;
            }
        }
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
    let cells = laid.rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.width);
    let widest = cells.max().unwrap_or(0);
    let of_names = laid.columns.get(i).is_some_and(|column| column.names);
    let title = laid.titles.get(i).map_or(0, |title| title.width);
    title.max(if of_names { widest.min(names) } else { widest })
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
