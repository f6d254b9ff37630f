//! Distribution of events over time: counts by second and by fraction of the second, the data of a
//! heat map.
//!
//! A column is a second, a row a fiftieth of it; a merged column is longer.

use super::time_grid::TimeGrid;

/// Rows per column.
pub const ROWS: usize = 50;

/// Maximum number of columns.
const COLUMNS: usize = 1200;

/// Counts over time.
#[derive(Clone, Debug)]
pub struct Heat(TimeGrid<ROWS, COLUMNS>);

impl Default for Heat {
    fn default() -> Heat {
        Heat(TimeGrid::new(1e9))
    }
}

impl Heat {
    /// Counts an event at `time`, in nanoseconds since the start of the run.
    #[inline]
    pub fn add(&mut self, time: f64) {
        // Each of two merged columns gets half of the rows.
        self.0.add(time, |part| (part * ROWS as f64) as usize, |half, row| (half * ROWS + row) / 2);
    }

    /// Returns the counts, with the rows of each column in time order.
    pub fn grid(&self) -> &TimeGrid<ROWS, COLUMNS> {
        &self.0
    }

    /// Returns the number of counted events.
    pub fn total(&self) -> u64 {
        self.0.total()
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
        let [first, second, third, last] = heat.grid().columns() else { panic!("{heat:?}") };
        assert_eq!((first[0], first[1], last[ROWS - 1]), (3, 1, 1));
        assert!(second.iter().chain(third).all(|count| *count == 0));
        assert_eq!(heat.total(), 5);
    }

    #[test]
    fn a_long_run_joins_columns_and_loses_no_event() {
        let mut heat = Heat::default();
        (0..5000).for_each(|second| heat.add(f64::from(second) * 1e9 + 0.5e9));
        assert_eq!(heat.grid().column_ns(), 8e9);
        assert_eq!(heat.grid().columns().len(), 625);
        let counted: u32 = heat.grid().columns().iter().flatten().sum();
        assert_eq!(counted, 5000);
        // Half a second into each of the column's eight seconds.
        let rows: Vec<usize> = (0..ROWS).filter(|row| heat.grid().columns()[0][*row] > 0).collect();
        assert_eq!(rows, [3, 9, 15, 21, 28, 34, 40, 46]);
    }
}
