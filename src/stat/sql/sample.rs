//! A sample of the rows of an interval that has more events than rows are kept.
//!
//! An interval begins with 1 of N events. When its rows reach the limit, N doubles: later events
//! are 1 of 2 N, and a view hides the rows that are no longer in the sample, so that all rows that
//! a query sees have the same weight. The next interval begins with the last N, or with half of it
//! if the rows were few.
//!
//! Which events are in the sample depends on a hash of their number, not on the number itself:
//! events often alternate, as enter and exit do, and every second event would be one kind only.

/// Largest exponent of N.
const EXPONENT_MAX: u32 = 30;

/// The sample of an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSample {
    limit: u64,
    /// N is 2 to this power.
    exponent: u32,
    /// Number of rows in the sample.
    rows: u64,
    /// The same by the largest exponent of a sample that still has the row.
    rows_by_level: [u64; EXPONENT_MAX as usize + 1],
    /// Number of rows that are stored.
    stored: u64,
    /// Number of events of the run that are not in the sample of their interval.
    omitted: u64,
    /// Number of the next event of the run.
    next: i64,
    /// Number of the first event of the interval.
    since: i64,
}

impl RowSample {
    /// Begins a run with this limit of rows per interval.
    pub(super) fn new(limit: u64) -> RowSample {
        RowSample {
            limit,
            exponent: 0,
            rows: 0,
            rows_by_level: [0; EXPONENT_MAX as usize + 1],
            stored: 0,
            omitted: 0,
            next: 1,
            since: 1,
        }
    }

    /// Returns the number of the next event if it is in the sample.
    pub(super) fn take(&mut self) -> Option<i64> {
        let number = self.next;
        self.next += 1;
        while self.rows >= self.limit && self.exponent < EXPONENT_MAX {
            let leaving = self.rows_by_level.get(self.exponent as usize).copied().unwrap_or(0);
            self.exponent += 1;
            self.rows -= leaving;
            self.omitted += leaving;
        }
        let level = level_of(number);
        if self.rows >= self.limit || level < self.exponent {
            self.omitted += 1;
            return None;
        }
        if let Some(rows) = self.rows_by_level.get_mut(level as usize) {
            *rows += 1;
        }
        self.rows += 1;
        self.stored += 1;
        Some(number)
    }

    /// Returns whether the rows that are no longer in the sample are to be removed.
    pub(super) fn is_full(&self) -> bool {
        self.stored >= self.limit.saturating_mul(2)
    }

    /// Returns whether the table has rows that are no longer in the sample.
    pub(super) fn has_hidden_rows(&self) -> bool {
        self.stored > self.rows
    }

    /// Records that they were removed.
    pub(super) fn compacted(&mut self) {
        self.stored = self.rows;
    }

    /// Starts the next interval.
    pub(super) fn restart(&mut self) {
        if self.rows < self.limit / 2 {
            self.exponent = self.exponent.saturating_sub(1);
        }
        self.rows_by_level = [0; EXPONENT_MAX as usize + 1];
        (self.rows, self.stored, self.since) = (0, 0, self.next);
    }

    /// Returns the number of rows of the interval.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of events of the interval, in the sample or not.
    pub(super) fn events(&self) -> u64 {
        (self.next - self.since).cast_unsigned()
    }

    /// Returns how many events each row stands for.
    pub(super) fn weight(&self) -> u64 {
        1 << self.exponent
    }

    /// Returns the exponent of the weight.
    pub(super) fn exponent(&self) -> u32 {
        self.exponent
    }

    /// Returns the number of the first event of the interval.
    pub(super) fn since(&self) -> i64 {
        self.since
    }

    /// Returns the number of events of the run that are not in the sample of their interval.
    pub(super) fn omitted(&self) -> u64 {
        self.omitted
    }
}

/// Returns whether the event with this number is in a sample of 1 of 2^`exponent` events.
pub(super) fn is_in_sample(number: i64, exponent: u32) -> bool {
    level_of(number) >= exponent
}

/// Returns the largest exponent of a sample that has the event with this number.
fn level_of(number: i64) -> u32 {
    // The finaliser of MurmurHash3, whose bits depend on all bits of the number.
    let mut hash = number.cast_unsigned();
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash.leading_zeros().min(EXPONENT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_alternating_events_has_both_kinds() {
        let mut sample = RowSample::new(1000);
        let (mut even, mut odd) = (0, 0);
        for _ in 0..8000 {
            if sample.is_full() {
                sample.compacted();
            }
            match sample.take() {
                Some(number) if number % 2 == 0 => even += 1,
                Some(_) => odd += 1,
                None => {}
            }
        }
        // 8 events per row would be 1000 rows, give or take 30.
        assert!([8, 16].contains(&sample.weight()), "{sample:?}");
        assert_eq!(sample.omitted() + sample.rows, 8000);
        assert!(even > 900 && odd > 900, "{even} {odd}");
    }

    #[test]
    fn an_interval_begins_with_the_weight_of_the_last_one_or_half_of_it() {
        let mut sample = RowSample::new(100);
        let taken = |sample: &mut RowSample, n| (0..n).filter(|_| sample.take().is_some()).count();
        taken(&mut sample, 350);
        assert_eq!(sample.weight(), 4);
        sample.restart();
        let rows = taken(&mut sample, 350);
        assert_eq!(sample.weight(), 4);
        assert!((60..=110).contains(&rows), "{rows}");
        let weights = [(); 3].map(|()| {
            sample.restart();
            taken(&mut sample, 10);
            sample.weight()
        });
        assert_eq!(weights, [4, 2, 1]);
    }

    #[test]
    fn smaller_samples_are_parts_of_larger_ones() {
        let all = (1..20_000).filter(|n| is_in_sample(*n, 5)).collect::<Vec<_>>();
        assert!(all.iter().all(|n| is_in_sample(*n, 4)));
        assert!((500..750).contains(&all.len()), "{}", all.len());
    }
}
