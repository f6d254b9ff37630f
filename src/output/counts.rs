//! Tables of many columns of counts: which columns are shown, the row of their sums, and the blocks
//! in which they fit a terminal.

use super::layout::{TableLayout, lay_out};
use crate::base::report::cell::Cell;
use crate::base::report::draw::Table;

/// First cell of the row of sums.
const TOTAL: &str = "total";

/// Lays a table out in blocks whose lines have at most `room` characters. Each block begins with
/// the first column, and the last row of a table with several rows has the sums. Columns of zeros
/// are omitted unless `all`; if every column is zero, the first is kept. Returns the table with its
/// sums, and its blocks.
pub(super) fn blocks(table: &Table, all: bool, room: Option<usize>) -> (Table, Vec<TableLayout>) {
    let mut table = table.clone();
    if !all {
        omit_zeros(&mut table);
    }
    if table.rows.len() > 1 {
        add_sums(&mut table);
    }
    let blocks = split(&lay_out(&table), room.unwrap_or(usize::MAX));
    (table, blocks)
}

fn omit_zeros(table: &mut Table) {
    let is_zero = |i: usize| table.rows.iter().all(|row| row.get(i) == Some(&Cell::whole(0)));
    let mut shown: Vec<usize> =
        (0..table.columns.len()).filter(|i| *i == 0 || !is_zero(*i)).collect();
    if shown.len() == 1 && table.columns.len() > 1 {
        shown.push(1);
    }
    table.columns = shown.iter().map(|i| table.columns[*i].clone()).collect();
    table.rows.retain_columns(|column| shown.contains(&column));
}

fn add_sums(table: &mut Table) {
    let sum = |i: usize| {
        table.rows.iter().filter_map(|row| row.get(i)).fold(Cell::Empty, |sum, cell| {
            match (sum, cell) {
                (Cell::Empty, Cell::Int(n)) => Cell::Int(*n),
                (Cell::Empty, Cell::Num(n)) => Cell::Num(*n),
                (Cell::Int(sum), Cell::Int(n)) => Cell::whole(sum.get().saturating_add(n.get())),
                (Cell::Int(sum), Cell::Num(n)) => Cell::Num(sum.get() as f64 + n),
                (Cell::Num(sum), Cell::Int(n)) => Cell::Num(sum + n.get() as f64),
                (Cell::Num(sum), Cell::Num(n)) => Cell::Num(sum + n),
                (sum, _) => sum,
            }
        })
    };
    let first = std::iter::once(Cell::Text(TOTAL.to_owned()));
    let sums: Vec<Cell> = first.chain((1..table.columns.len()).map(sum)).collect();
    table.rows.push(sums);
}

fn split(laid: &TableLayout, room: usize) -> Vec<TableLayout> {
    let Some(first) = laid.columns.first() else { return Vec::new() };
    let mut blocks: Vec<Vec<usize>> = vec![vec![0]];
    let mut used = first.width;
    for (i, column) in laid.columns.iter().enumerate().skip(1) {
        let is_full = used.saturating_add(1 + column.width) > room;
        match blocks.last_mut() {
            Some(block) if !is_full || block.len() == 1 => block.push(i),
            _ => {
                blocks.push(vec![0, i]);
                used = first.width;
            }
        }
        used = used.saturating_add(1 + column.width);
    }
    blocks.iter().map(|block| of_columns(laid, block)).collect()
}

/// Returns the layout with these columns only.
fn of_columns(laid: &TableLayout, shown: &[usize]) -> TableLayout {
    TableLayout {
        columns: shown.iter().filter_map(|i| laid.columns.get(*i).cloned()).collect(),
        titles: shown.iter().filter_map(|i| laid.titles.get(*i).cloned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::draw::{Align, Column, Draw as _, Report, Style};
    use crate::output::test_support::{drawn, stamp};

    fn table(all: bool) -> Table {
        let column = |title: &str| Column {
            title: title.to_owned(),
            key: title.to_owned(),
            width: 0,
            align: Align::Right,
            decimals: Some(0),
            shrinks: false,
            arrow: false,
            json_only: false,
            spare: false,
            metric: Default::default(),
        };
        let row = |cells: [i128; 5]| cells.map(Cell::whole).to_vec();
        Table {
            name: "t".into(),
            title: None,
            style: Style::Counts { all },
            samples: 0,
            hidden: 0,
            columns: ["cpu", "switch", "hi", "timer", "rcu"].map(column).to_vec(),
            rows: vec![row([0, 10, 0, 7, 1]), row([255, 200, 0, 3, 0])].into(),
        }
    }

    fn lines(table: &Table, all: bool, room: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let (table, blocks) = blocks(table, all, Some(room));
        for block in blocks {
            let rows = table.rows.iter().map(|row| block.row(row));
            for row in std::iter::once(block.titles.clone()).chain(rows) {
                let texts = row.iter().map(|cell| String::from_utf8_lossy(&cell.text));
                lines.push(texts.collect::<Vec<_>>().join(" "));
            }
        }
        lines
    }

    #[test]
    fn columns_of_zeros_are_omitted_and_the_last_row_has_the_sums() {
        let text = drawn(|text| text.report(stamp(0), &[Report::Table(table(false))]));
        let rows: Vec<&str> = text.lines().skip(1).collect();
        let wanted = [
            "  cpu switch timer rcu",
            "    0     10     7   1",
            "  255    200     3   0",
            "total    210    10   1",
        ];
        assert_eq!(rows, wanted);
        assert_eq!(lines(&table(true), true, 80)[3], "total 210 0 10 1");
    }

    #[test]
    fn columns_without_room_are_shown_below_the_others() {
        let shown = lines(&table(false), false, 12);
        let blocks = ["cpu switch", "0 10", "255 200", "total 210", "cpu timer", "0 7", "255 3"];
        assert_eq!(shown[..7], blocks);
        // A line of 15 characters has room for two of the columns.
        assert_eq!(lines(&table(false), false, 15)[4], "cpu timer rcu");
    }

    #[test]
    fn a_table_of_zeros_keeps_a_column_and_one_row_has_no_sums() {
        let mut table = table(false);
        table.rows = vec![vec![Cell::whole(0); 5]].into();
        assert_eq!(lines(&table, false, 80), ["cpu switch", "0 0"]);
    }
}
