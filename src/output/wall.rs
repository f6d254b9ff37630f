//! Wall-clock times. The calendar is computed once per second, not once per event.

use crate::base::text::digits;
use jiff::{Timestamp, tz::TimeZone};
use std::io::Write;

/// Writes `2026-11-21 15:46:33.123456` in one time zone.
pub(super) struct Wall {
    zone: TimeZone,
    separator: char,
    /// The second that `text` shows.
    second: Option<i64>,
    /// Date, separator, time of day.
    text: Vec<u8>,
}

impl Wall {
    /// Returns a formatter for times in `zone`, with `separator` between date and time of day.
    pub(super) fn new(zone: TimeZone, separator: char) -> Wall {
        Wall { zone, separator, second: None, text: Vec::with_capacity(32) }
    }

    /// Appends the date, time of day and microseconds of a time since the Unix epoch.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, wall_ns: i64) {
        let second = wall_ns.div_euclid(1_000_000_000);
        if self.second != Some(second) {
            self.show(second);
        }
        out.extend_from_slice(&self.text);
        out.push(b'.');
        digits::push_padded(out, wall_ns.rem_euclid(1_000_000_000) as u64 / 1000, 6, b'0');
    }

    /// Returns the time of day, as in `15:46:33`.
    pub(super) fn time_of_day(&mut self, wall_ns: i64) -> &[u8] {
        let second = wall_ns.div_euclid(1_000_000_000);
        if self.second != Some(second) {
            self.show(second);
        }
        self.text.last_chunk::<8>().map_or(&[], |time| time)
    }

    fn show(&mut self, second: i64) {
        // Every i64 of nanoseconds lies between the years 1677 and 2262, which jiff can represent.
        let time = Timestamp::from_second(second).unwrap_or_default();
        let local = self.zone.to_datetime(time);
        self.text.clear();
        // Writing to a Vec cannot fail.
        let _ = write!(
            self.text,
            "{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}",
            local.year(),
            local.month(),
            local.day(),
            self.separator,
            local.hour(),
            local.minute(),
            local.second()
        );
        self.second = Some(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(wall: &mut Wall, wall_ns: i64) -> String {
        let mut out = Vec::new();
        wall.push(&mut out, wall_ns);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn stamps_are_in_the_zone_and_follow_the_seconds() {
        let central_europe = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let (mut utc, mut local) = (Wall::new(TimeZone::UTC, 'T'), Wall::new(central_europe, ' '));
        let time = 1_795_251_600_123_456_789;
        assert_eq!(shown(&mut utc, time), "2026-11-21T09:00:00.123456");
        assert_eq!(shown(&mut local, time), "2026-11-21 10:00:00.123456");
        assert_eq!(shown(&mut local, time + 1_000_000_000), "2026-11-21 10:00:01.123456");
        assert_eq!(local.time_of_day(time), b"10:00:00");
        assert_eq!(shown(&mut utc, -1), "1969-12-31T23:59:59.999999");
        assert_eq!(shown(&mut utc, i64::MAX), "2262-04-11T23:47:16.854775");
        assert_eq!(shown(&mut utc, i64::MIN), "1677-09-21T00:12:43.145224");
    }
}
