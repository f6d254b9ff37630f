//! Distribution of delays over time: counts by time and by magnitude of the delay, the data of a
//! latency heat map. It takes at most 400 KiB.
//!
//! A row is a quarter of an octave, which is a resolution of 19 %.

use super::time_grid::TimeGrid;

/// Rows per octave.
const STEPS: f64 = 4.0;

/// Rows per column: up to 2^44 ns, 4.9 hours; longer delays are counted in the last row.
pub const ROWS: usize = 176;

/// Maximum number of columns.
const COLUMNS: usize = 512;

/// Initial width of a column, in nanoseconds.
const FIRST_NS: f64 = 1e6;

/// Counts over time and delay.
#[derive(Clone, Debug)]
pub struct DelayMap(TimeGrid<ROWS, COLUMNS>);

impl Default for DelayMap {
    fn default() -> DelayMap {
        DelayMap(TimeGrid::new(FIRST_NS))
    }
}

impl DelayMap {
    /// Counts a delay that ended at `time`; both in nanoseconds, `time` since the start of the run.
    /// Returns false for an invalid delay, negative or NaN, which is not counted.
    #[inline]
    pub fn add(&mut self, time: f64, delay: f64) -> bool {
        if delay.is_nan() || delay < 0.0 {
            return false;
        }
        self.0.add(time, |_| DelayMap::height(delay) as usize, |_, row| row);
        true
    }

    /// Returns the counts.
    pub fn grid(&self) -> &TimeGrid<ROWS, COLUMNS> {
        &self.0
    }

    /// Returns the smallest delay of a row, in nanoseconds.
    pub fn least(row: usize) -> f64 {
        (row as f64 / STEPS).exp2()
    }

    /// Returns the position of a delay, in rows with a fraction.
    pub fn height(delay: f64) -> f64 {
        delay.max(1.0).log2() * STEPS
    }

    /// Returns the number of counted delays.
    pub fn total(&self) -> u64 {
        self.0.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells(map: &DelayMap) -> Vec<(usize, usize, u32)> {
        map.grid().cells().collect()
    }

    #[test]
    fn a_delay_counts_at_its_time_and_in_its_quarter_of_an_octave() {
        let mut map = DelayMap::default();
        for (time, delay) in
            [(0.0, 0.0), (0.5e6, 1.0), (2e6, 1024.0), (2.9e6, 1100.0), (3e6, 1e300)]
        {
            assert!(map.add(time, delay));
        }
        assert_eq!(cells(&map), [(0, 0, 2), (2, 40, 2), (3, ROWS - 1, 1)]);
        assert_eq!((DelayMap::least(40), DelayMap::height(1024.0)), (1024.0, 40.0));
    }

    #[test]
    fn invalid_delays_are_not_counted() {
        let mut map = DelayMap::default();
        assert!(!map.add(0.0, -1.0) && !map.add(0.0, f64::NAN));
        assert_eq!(map.total(), 0);
    }

    proptest! {
        #[test]
        fn a_long_run_joins_columns_and_loses_no_delay(
            adds in prop::collection::vec((0f64..1e15, 0f64..1e12), 1..200)
        ) {
            let mut map = DelayMap::default();
            adds.iter().for_each(|(time, delay)| assert!(map.add(*time, *delay)));
            prop_assert!(map.grid().columns().len() <= COLUMNS);
            let cells = cells(&map);
            prop_assert_eq!(
                cells.iter().map(|cell| u64::from(cell.2)).sum::<u64>(),
                adds.len() as u64
            );
            for (time, delay) in adds {
                let (column, row) =
                    ((time / map.grid().column_ns()) as usize, DelayMap::height(delay) as usize);
                prop_assert!(cells.iter().any(|cell| cell.0 == column && cell.1 == row));
            }
        }
    }
}
