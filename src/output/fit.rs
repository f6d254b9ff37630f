//! What is too wide for a terminal made to fit: blanks go first, then the middle of long names, then columns that can be spared.
//!
//! Numbers are never cut. Of a C++ or Rust function both ends say something, the middle is mostly its types. Percentiles are spared:
//! they are in JSON, and in a wider terminal.

use super::laid::Laid;

/// Characters that are left of a name at least.
const LEAST: usize = 16;

/// Narrows a table until a row has no more than `room` characters, or nothing is left to take. The titles of the columns that
/// were spared for it.
pub(super) fn fit(laid: &mut Laid, room: usize) -> Vec<Vec<u8>> {
    let mut spared = Vec::new();
    let all = |laid: &Laid, names: usize| -> Vec<usize> {
        (0..laid.columns.len()).map(|i| least(laid, i, names)).collect()
    };
    while all(laid, LEAST).iter().sum::<usize>() + gaps(laid) > room {
        let Some(i) = laid.columns.iter().position(|column| column.spare) else { break };
        laid.columns.remove(i);
        spared.push(laid.titles.remove(i).text);
        laid.rows.iter_mut().filter(|row| i < row.len()).for_each(|row| _ = row.remove(i));
    }
    for names in [usize::MAX, LEAST] {
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
    spared
}

/// The widest name in front of other columns. Functions of C++ and Rust have names of a thousand characters and more.
const NAME_WIDTH: usize = 128;

/// Where no terminal sets a limit: shortens the names that would push what stands behind them out of sight.
pub(super) fn keep_in_sight(laid: &mut Laid) {
    let behind = laid.columns.len().saturating_sub(1);
    for column in laid.columns.iter_mut().take(behind).filter(|column| column.names) {
        column.width = column.width.min(NAME_WIDTH);
    }
    cut(laid);
}

/// Shortens what is wider than its column.
fn cut(laid: &mut Laid) {
    for row in &mut laid.rows {
        for (cell, column) in row.iter_mut().zip(&laid.columns) {
            if cell.width > column.width {
                shorten(&mut cell.text, 0, column.width);
                cell.width = column.width;
            }
        }
    }
}

/// What stands between the columns.
fn gaps(laid: &Laid) -> usize {
    let behind = laid.columns.iter().rev().skip(1);
    behind.map(|column| if column.arrow { 4 } else { 1 }).sum()
}

/// How narrow a column may become when names are cut to `names` characters: its title and its numbers stay whole.
fn least(laid: &Laid, i: usize, names: usize) -> usize {
    let cells = laid.rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.width);
    let widest = cells.max().unwrap_or(0);
    let of_names = laid.columns.get(i).is_some_and(|column| column.names);
    let title = laid.titles.get(i).map_or(0, |title| title.width);
    title.max(if of_names { widest.min(names) } else { widest })
}

/// Leaves of the text from `start` on the beginning and the end, `width` characters in all.
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
