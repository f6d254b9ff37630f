//! Distribution of events over time: counts by second and by fraction of the second, the data of a
//! heat map.
//!
//! A column is a second, a row a fiftieth of it. When a run exceeds the maximum number of columns,
//! pairs of columns are merged, so counts stay exact and memory is bounded.

/// Rows per column.
pub const ROWS: usize = 50;

/// Maximum number of columns.
const COLUMNS: usize = 1200;

/// Counts over time.
#[derive(Clone, Debug)]
pub struct Heat {
    column_ns: f64,
    columns: Vec<[u32; ROWS]>,
    total: u64,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat { column_ns: 1e9, columns: Vec::new(), total: 0 }
    }
}

impl Heat {
    /// Counts an event at `time`, in nanoseconds since the start of the run.
    #[inline]
    pub fn add(&mut self, time: f64) {
        let time = time.max(0.0);
        while time >= self.column_ns * COLUMNS as f64 && self.column_ns < 1e18 {
            self.join();
        }
        let column = ((time / self.column_ns) as usize).min(COLUMNS - 1);
        let row = (time % self.column_ns / self.column_ns * ROWS as f64) as usize;
        if column >= self.columns.len() {
            self.columns.resize(column + 1, [0; ROWS]);
        }
        let cell = self.columns.get_mut(column).and_then(|rows| rows.get_mut(row.min(ROWS - 1)));
        if let Some(cell) = cell {
            *cell = cell.saturating_add(1);
            self.total += 1;
        }
    }

    /// Merges pairs of columns; each of the two gets half of the rows.
    fn join(&mut self) {
        self.column_ns *= 2.0;
        let joined = self.columns.chunks(2).map(|pair| {
            let mut rows = [0u32; ROWS];
            for (half, column) in pair.iter().enumerate() {
                for (row, count) in column.iter().enumerate() {
                    if let Some(cell) = rows.get_mut((half * ROWS + row) / 2) {
                        *cell = cell.saturating_add(*count);
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

    /// Returns the columns from the start of the run, with the rows of each in time order.
    pub fn columns(&self) -> &[[u32; ROWS]] {
        &self.columns
    }

    /// Returns the number of counted events.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_counts_in_its_second_and_the_part_of_it() {
        let mut heat = Heat::default();
        for time in [0.0, 0.0199e9, 0.02e9, 3.999e9, -5.0] {
            heat.add(time);
        }
        let [first, second, third, last] = heat.columns() else { panic!("{heat:?}") };
        assert_eq!((first[0], first[1], last[ROWS - 1]), (3, 1, 1));
        assert!(second.iter().chain(third).all(|count| *count == 0));
        assert_eq!(heat.total(), 5);
    }

    #[test]
    fn a_long_run_joins_columns_and_loses_no_event() {
        let mut heat = Heat::default();
        (0..5000).for_each(|second| heat.add(f64::from(second) * 1e9 + 0.5e9));
        assert_eq!(heat.column_ns(), 8e9);
        assert_eq!(heat.columns().len(), 625);
        let counted: u32 = heat.columns().iter().flatten().sum();
        assert_eq!(counted, 5000);
        // Half a second into each of the column's eight seconds.
        let rows: Vec<usize> = (0..ROWS).filter(|row| heat.columns()[0][*row] > 0).collect();
        assert_eq!(rows, [3, 9, 15, 21, 28, 34, 40, 46]);
    }
}
