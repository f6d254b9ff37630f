//! Counts in columns of time, the data of a heat map: columns of equal length from the start of a
//! run, each with the same number of rows.
//!
//! When a run exceeds the maximum number of columns, pairs of columns are merged, so counts stay
//! exact and memory is bounded.

/// Counts by column and row.
#[derive(Clone, Debug)]
pub struct TimeGrid<const ROWS: usize, const COLUMNS: usize> {
    column_ns: f64,
    columns: Vec<[u32; ROWS]>,
    total: u64,
}

impl<const ROWS: usize, const COLUMNS: usize> TimeGrid<ROWS, COLUMNS> {
    /// Returns an empty grid whose columns are `column_ns` nanoseconds long.
    pub fn new(column_ns: f64) -> Self {
        TimeGrid { column_ns, columns: Vec::new(), total: 0 }
    }

    /// Counts what happened at `time`, in nanoseconds since the start of the run. `row` gets the
    /// part of the column before `time`, 0 to 1. `merged` returns the row of a column merged from
    /// two that gets a row of the first (0) or the second (1).
    #[inline]
    pub fn add(
        &mut self,
        time: f64,
        row: impl FnOnce(f64) -> usize,
        merged: impl Fn(usize, usize) -> usize,
    ) {
        let time = time.max(0.0);
        while time >= self.column_ns * COLUMNS as f64 && self.column_ns < 1e18 {
            self.merge_pairs(&merged);
        }
        let column = ((time / self.column_ns) as usize).min(COLUMNS - 1);
        let row = row(time % self.column_ns / self.column_ns).min(ROWS - 1);
        if column >= self.columns.len() {
            self.columns.resize(column + 1, [0; ROWS]);
        }
        let count = self.columns.get_mut(column).and_then(|rows| rows.get_mut(row));
        if let Some(count) = count {
            *count = count.saturating_add(1);
            self.total += 1;
        }
    }

    #[cold]
    fn merge_pairs(&mut self, merged: impl Fn(usize, usize) -> usize) {
        self.column_ns *= 2.0;
        let joined = self.columns.chunks(2).map(|pair| {
            let mut rows = [0u32; ROWS];
            for (half, column) in pair.iter().enumerate() {
                for (row, count) in column.iter().enumerate() {
                    if let Some(into) = rows.get_mut(merged(half, row)) {
                        *into = into.saturating_add(*count);
                    }
                }
            }
            rows
        });
        self.columns = joined.collect();
    }

    /// Returns the width of a column, in nanoseconds.
    pub fn column_ns(&self) -> f64 {
        self.column_ns
    }

    /// Returns the columns from the start of the run.
    pub fn columns(&self) -> &[[u32; ROWS]] {
        &self.columns
    }

    /// Returns each cell that has a count: its column, its row, and the count.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, u32)> {
        let columns = self.columns.iter().enumerate();
        let all = columns.flat_map(|(column, rows)| {
            rows.iter().enumerate().map(move |(row, count)| (column, row, *count))
        });
        all.filter(|(_, _, count)| *count > 0)
    }

    /// Returns the total of all counts.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the largest count, at least 1.
    pub fn most(&self) -> u32 {
        self.columns.iter().flatten().copied().max().unwrap_or(0).max(1)
    }
}
