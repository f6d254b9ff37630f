//! Conversion between the clock of the events, the wall clock and the time of the run.
//!
//! Events have nanoseconds of a clock that is never set (`CLOCK_MONOTONIC` when live). Output shows
//! wall-clock time, scripts count from the start of the run. One pair of simultaneous readings
//! relates the clocks. The pair is never updated: if the wall clock is set during the run, output
//! times continue without a step, so intervals between events stay correct.

use crate::base::report::draw::Stamp;

/// Converts the times of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The wall clock and the event clock at the same moment.
    pair: Stamp,
    /// Start of the run, in nanoseconds of the event clock.
    start: u64,
}

impl Clock {
    /// Returns a converter from one reading of both clocks and the start of the run on the event
    /// clock.
    pub fn new(pair: Stamp, start_clock_ns: u64) -> Clock {
        Clock { pair, start: start_clock_ns }
    }

    /// Returns nanoseconds since the Unix epoch; saturates at the ends of the range.
    pub fn wall_ns(&self, clock_ns: u64) -> i64 {
        self.pair.wall_ns.saturating_add(distance(self.pair.clock_ns, clock_ns))
    }

    /// Returns nanoseconds since the start of the run, exact to 2^53 (104 days). Negative for a
    /// record from before the start.
    #[inline]
    pub fn since_start(&self, clock_ns: u64) -> f64 {
        distance(self.start, clock_ns) as f64
    }

    /// Returns the time on both clocks.
    pub fn stamp(&self, clock_ns: u64) -> Stamp {
        Stamp { wall_ns: self.wall_ns(clock_ns), clock_ns }
    }

    /// Returns the event clock at a time of the run, in nanoseconds as returned by
    /// [`Clock::since_start`]; NaN means the start.
    pub fn clock_ns(&self, since_start: f64) -> u64 {
        self.start.saturating_add_signed(since_start as i64)
    }
}

/// Returns the time from one reading to another, negative if `to` is earlier.
#[inline]
fn distance(from: u64, to: u64) -> i64 {
    // Readings of one clock are less than 292 years apart; a larger difference is not a time.
    to.wrapping_sub(from) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn clock() -> Clock {
        Clock::new(
            Stamp { wall_ns: 1_700_000_000_000_000_000, clock_ns: 500 * SECOND },
            498 * SECOND,
        )
    }

    #[test]
    fn wall_time_moves_with_the_event_clock_in_both_directions() {
        assert_eq!(clock().wall_ns(500 * SECOND), 1_700_000_000_000_000_000);
        assert_eq!(clock().wall_ns(503 * SECOND + 1), 1_700_000_003_000_000_001);
        assert_eq!(clock().wall_ns(499 * SECOND), 1_699_999_999_000_000_000);
        assert_eq!(
            clock().stamp(501 * SECOND),
            Stamp { wall_ns: 1_700_000_001_000_000_000, clock_ns: 501 * SECOND }
        );
    }

    #[test]
    fn a_record_older_than_the_run_has_a_negative_time() {
        assert_eq!(clock().since_start(498 * SECOND + 7), 7.0);
        assert_eq!(clock().since_start(498 * SECOND - 7), -7.0);
    }

    #[test]
    fn a_run_time_converts_back_to_clock_time() {
        for clock_ns in [498 * SECOND - 3, 498 * SECOND, 600 * SECOND + 123_456_789] {
            assert_eq!(clock().clock_ns(clock().since_start(clock_ns)), clock_ns);
        }
    }

    #[test]
    fn no_time_overflows() {
        let late = Clock::new(Stamp { wall_ns: i64::MAX, clock_ns: 0 }, u64::MAX);
        assert_eq!(late.wall_ns(1), i64::MAX);
        assert_eq!(late.since_start(0), 1.0);
        assert_eq!(late.clock_ns(f64::INFINITY), u64::MAX);
        assert_eq!(late.clock_ns(f64::NAN), u64::MAX);
        assert_eq!(clock().clock_ns(f64::NEG_INFINITY), 0);
    }
}
