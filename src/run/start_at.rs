//! `--start-at`: a run begins at a moment of the wall clock, so that the runs of several machines
//! cover the same time.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use jiff::{Timestamp, Zoned, civil::Time};

use crate::base::text::units::{human_ns, parse_duration_with_unit};
use crate::sys::clock::{local_zone, sleep_until_wall, wall_ns};
use crate::sys::{signal, streams};

/// Longest multiple and longest wait: a later time is probably a mistake.
const DAY_NS: i64 = 86_400_000_000_000;

/// When a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the next multiple of this many nanoseconds since 1970 (UTC).
    Multiple(i64),
    /// At this time, in nanoseconds since 1970.
    Moment(i64),
}

impl StartAt {
    /// Parses `/10s`, `14:30`, `14:30:05` (the local time of today), or RFC 3339.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str) -> Result<StartAt> {
        StartAt::parse_on(
            text,
            &Timestamp::from_nanosecond(wall_ns().into())?.to_zoned(local_zone()),
        )
    }

    fn parse_on(text: &str, today: &Zoned) -> Result<StartAt> {
        if let Some(step) = text.strip_prefix('/') {
            let ns = i64::try_from(parse_duration_with_unit(step)?).unwrap_or(i64::MAX);
            ensure!((1_000_000..=DAY_NS).contains(&ns), "`{text}`: use a multiple from 1ms to 24h");
            return Ok(StartAt::Multiple(ns));
        }
        let moment = match (text.parse::<Timestamp>(), text.parse::<Time>()) {
            (Ok(moment), _) => moment,
            (_, Ok(time)) => today.with().time(time).build()?.timestamp(),
            _ => {
                bail!("`{text}` is not a time; for example /10s, 14:30:00 or 2026-11-21T14:30:00Z")
            }
        };
        Ok(StartAt::Moment(i64::try_from(moment.as_nanosecond())?))
    }

    /// Returns the time at which a run begins whose process began at `began` and which is ready at
    /// `ready`. A multiple is that after the beginning of the process, so that a different time to
    /// open the events does not make a difference.
    ///
    /// # Errors
    /// A moment has passed, or is more than a day away.
    fn due(self, began: i64, ready: i64) -> Result<i64> {
        match self {
            StartAt::Multiple(step) => {
                let next = |after: i64| (after.div_euclid(step) + 1).saturating_mul(step);
                Ok(if next(began) >= ready { next(began) } else { next(ready) })
            }
            StartAt::Moment(at) => {
                ensure!(
                    at >= ready,
                    "this time passed {} before the events were open; name a later one",
                    human_ns((ready - at).unsigned_abs())
                );
                ensure!(at - ready <= DAY_NS, "this time is more than 24 hours away");
                Ok(at)
            }
        }
    }
}

/// Waits for the time of `--start-at`, if it was given. `started` is when the process began.
/// Returns false if the user ended the run meanwhile.
///
/// # Errors
/// The time has passed.
pub(super) fn wait(start_at: Option<StartAt>, quiet: bool, started: Instant) -> Result<bool> {
    let Some(start_at) = start_at else { return Ok(true) };
    let ready = wall_ns();
    let took = i64::try_from(started.elapsed().as_nanos()).unwrap_or(i64::MAX);
    let began = ready.saturating_sub(took);
    let due = start_at.due(began, ready).map_err(|why| why.context("--start-at"))?;
    if !quiet {
        let at = Timestamp::from_nanosecond(due.into())?.to_zoned(local_zone());
        let late = matches!(start_at, StartAt::Multiple(step) if due - began > step);
        let why =
            if late { "; opening the events took longer than to the time before" } else { "" };
        let (at, wait) = (at.strftime("%F %T%.f"), human_ns((due - ready).unsigned_abs()));
        streams::print_message(&format!("note: starts at {at}, in {wait}{why}"));
    }
    while !sleep_until_wall(due) {
        if signal::interrupts() > 0 || signal::end_requested() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_multiples_times_of_day_or_moments() {
        let today: Zoned = "2026-11-21T09:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let parsed = |text: &str| StartAt::parse_on(text, &today).map_err(|why| why.to_string());
        let nine = 1_795_248_000_000_000_000;
        assert_eq!(parsed("/10s"), Ok(StartAt::Multiple(10_000_000_000)));
        assert_eq!(parsed("09:00"), Ok(StartAt::Moment(nine)));
        assert_eq!(parsed("09:00:01.5"), Ok(StartAt::Moment(nine + 1_500_000_000)));
        assert_eq!(parsed("2026-11-21T08:00:00Z"), Ok(StartAt::Moment(nine)));
        for text in ["10s", "/10", "/1us", "/25h", "tomorrow", "25:00"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_multiple_does_not_depend_on_how_long_opening_took() {
        let step = StartAt::Multiple(10);
        assert_eq!(step.due(101, 102).unwrap(), 110);
        assert_eq!(step.due(101, 110).unwrap(), 110);
        assert_eq!(step.due(101, 111).unwrap(), 120);
        assert_eq!(step.due(110, 111).unwrap(), 120);
        assert_eq!(StartAt::Moment(200).due(101, 111).unwrap(), 200);
        assert!(StartAt::Moment(110).due(101, 111).is_err());
        assert!(StartAt::Moment(2 * DAY_NS).due(101, 111).is_err());
    }
}
