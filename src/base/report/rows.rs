//! Rows of a table.

use super::cell::Cell;
use std::ops::Index;

/// Rows of cells, all of the same number, in one block of memory: there may be 10^5 rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRows {
    cells: Vec<Cell>,
    width: usize,
    len: usize,
}

impl TableRows {
    /// Returns no rows, with room for `len` of `width` cells.
    pub fn with_capacity(width: usize, len: usize) -> TableRows {
        TableRows { cells: Vec::with_capacity(width * len), width, len: 0 }
    }

    /// Adds a row. Cells that are missing are empty; further ones are dropped.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.len += 1;
        self.cells.extend(row.into_iter().take(self.width));
        self.cells.resize(self.len * self.width, Cell::Empty);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a row.
    pub fn get(&self, row: usize) -> Option<&[Cell]> {
        let start = row * self.width;
        self.cells.get(start..start + self.width).filter(|_| row < self.len)
    }

    /// Returns a row to change.
    pub fn get_mut(&mut self, row: usize) -> Option<&mut [Cell]> {
        let start = row * self.width;
        self.cells.get_mut(start..start + self.width).filter(|_| row < self.len)
    }

    /// Returns all rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Cell]> {
        (0..self.len).map(|row| self.get(row).unwrap_or_default())
    }

    /// Drops all rows from a number on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.cells.truncate(self.len * self.width);
    }

    /// Keeps the columns, by their index, for which `keep` returns true.
    pub fn retain_columns(&mut self, keep: impl Fn(usize) -> bool) {
        let width = self.width;
        let mut columns = (0..width).cycle();
        self.cells.retain(|_| columns.next().is_some_and(&keep));
        self.width = (0..width).filter(|column| keep(*column)).count();
    }
}

impl Index<usize> for TableRows {
    type Output = [Cell];

    /// Returns a row; one that does not exist has no cells.
    fn index(&self, row: usize) -> &[Cell] {
        self.get(row).unwrap_or_default()
    }
}

impl From<Vec<Vec<Cell>>> for TableRows {
    /// The longest row determines the number of cells.
    fn from(rows: Vec<Vec<Cell>>) -> TableRows {
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut all = TableRows::with_capacity(width, rows.len());
        rows.into_iter().for_each(|row| all.push(row));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[i128]]) -> TableRows {
        let row = |row: &&[i128]| row.iter().map(|value| Cell::whole(*value)).collect();
        rows.iter().map(row).collect::<Vec<Vec<Cell>>>().into()
    }

    #[test]
    fn a_row_has_as_many_cells_as_the_longest() {
        let all = rows(&[&[1, 2], &[], &[3]]);
        let empty = Cell::Empty;
        let wanted =
            [[&Cell::whole(1), &Cell::whole(2)], [&empty, &empty], [&Cell::whole(3), &empty]];
        assert_eq!(
            all.iter().map(|row| row.iter().collect::<Vec<_>>()).collect::<Vec<_>>(),
            wanted
        );
        assert_eq!((all.len(), all.get(3)), (3, None));
    }

    #[test]
    fn rows_without_cells_are_counted() {
        let mut all = rows(&[&[], &[]]);
        assert_eq!((all.len(), all.iter().count(), all.get(1)), (2, 2, Some(&[][..])));
        all.truncate(1);
        assert_eq!((all.len(), all.get(1)), (1, None));
    }

    #[test]
    fn columns_are_removed_from_each_row() {
        let mut all = rows(&[&[1, 2, 3], &[4, 5, 6]]);
        all.retain_columns(|column| column != 1);
        assert_eq!(all, rows(&[&[1, 3], &[4, 6]]));
    }
}
