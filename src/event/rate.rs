//! How often an event is sampled: each time that it happens, or at a rate.
//!
//! A tracepoint, a function, a breakpoint and a software count are taken each time. A clock and a
//! counter of the hardware count nanoseconds, cycles, instructions: a sample of each of them is
//! neither possible nor wanted.

use anyhow::{Result, bail};

use crate::event::catalog::{Event, What};
use crate::event::sampling::Sampling;

/// Samples a second where nothing says how many.
pub const USUAL_HZ: u64 = 100;

/// Nanoseconds between two samples of a clock at least: the kernel's timer takes a shorter period
/// for this one (`perf_swevent_start_hrtimer()`, kernel/events/core.c).
pub const CLOCK_PERIOD_MIN: u64 = 10_000;

/// A rate as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Samples a second.
    Frequency(u64),
    /// Events per sample; nanoseconds of a clock.
    Period(u64),
}

impl Sampling {
    /// The rate that is asked for.
    pub fn rate(&self) -> Option<Rate> {
        self.freq.map(Rate::Frequency).or(self.period.map(Rate::Period))
    }

    /// Asks for a rate.
    pub fn set_rate(&mut self, rate: Rate) {
        (self.freq, self.period) = match rate {
            Rate::Frequency(hz) => (Some(hz), None),
            Rate::Period(events) => (None, Some(events)),
        };
    }

    /// Whether a field of perf_event_attr sets the rate.
    fn has_raw_rate(&self) -> bool {
        let is_rate = |name: &str| matches!(name, "sample_freq" | "sample_period");
        self.fields.iter().any(|(name, _)| is_rate(name))
    }
}

impl Event {
    /// Whether it is sampled at a rate, and not each time that it happens.
    pub fn has_rate(&self) -> bool {
        matches!(&self.what, What::Counter(counter) if counter.has_rate())
    }
}

impl What {
    /// Whether it is one of the kernel's clocks.
    pub fn is_clock(&self) -> bool {
        matches!(self, What::Counter(counter) if counter.is_clock())
    }
}

/// How an event is sampled: as its evsel or selector asks, else as the run does, else [`USUAL_HZ`].
///
/// # Errors
/// The period of a clock is shorter than its timer's.
pub fn settle(event: &Event, sampling: &Sampling, of_run: Option<Rate>) -> Result<Sampling> {
    let mut settled = sampling.clone();
    if sampling.count || sampling.has_raw_rate() {
        return Ok(settled);
    }
    if sampling.rate().is_none() && event.has_rate() {
        settled.set_rate(of_run.unwrap_or(Rate::Frequency(USUAL_HZ)));
    }
    if let (true, Some(Rate::Period(ns))) = (event.what.is_clock(), settled.rate())
        && ns < CLOCK_PERIOD_MIN
    {
        bail!(
            "{}: a period of {ns} ns is too short; the kernel's timer takes at least {CLOCK_PERIOD_MIN} ns: \
             use a longer period, or a rate (freq={USUAL_HZ}, -F {USUAL_HZ})",
            event.name
        );
    }
    Ok(settled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::counter;

    fn event(name: &str) -> Event {
        let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let (name, counter) = counter::parse(name, &none).unwrap().unwrap();
        Event { name, what: What::Counter(counter) }
    }

    fn rate_of(name: &str, asked: Option<Rate>, of_run: Option<Rate>) -> Option<Rate> {
        let mut sampling = Sampling::default();
        asked.into_iter().for_each(|rate| sampling.set_rate(rate));
        settle(&event(name), &sampling, of_run).unwrap().rate()
    }

    #[test]
    fn clocks_and_hardware_have_a_rate_and_counts_are_taken_each() {
        for name in ["cpu-clock", "task-clock:u", "cycles:pp", "LLC-load-misses", "r1c2"] {
            assert_eq!(rate_of(name, None, None), Some(Rate::Frequency(USUAL_HZ)), "{name}");
            let of_run = Some(Rate::Period(50_000));
            assert_eq!(rate_of(name, None, of_run), of_run, "{name}");
            let own = Some(Rate::Frequency(7));
            assert_eq!(rate_of(name, own, of_run), own, "{name}");
        }
        for name in ["page-faults", "context-switches", "cpu-migrations:u"] {
            assert_eq!(rate_of(name, None, Some(Rate::Frequency(7))), None, "{name}");
            assert_eq!(rate_of(name, Some(Rate::Period(3)), None), Some(Rate::Period(3)), "{name}");
        }
    }

    #[test]
    fn a_clock_is_not_sampled_more_often_than_its_timer_fires() {
        let mut sampling = Sampling { period: Some(1), ..Sampling::default() };
        let why = settle(&event("cpu-clock"), &sampling, None).unwrap_err().to_string();
        assert_eq!(
            why,
            "cpu-clock: a period of 1 ns is too short; the kernel's timer takes at least 10000 ns: \
             use a longer period, or a rate (freq=100, -F 100)"
        );
        assert!(settle(&event("cycles"), &sampling, None).is_ok());
        sampling.period = Some(CLOCK_PERIOD_MIN);
        assert!(settle(&event("task-clock"), &sampling, None).is_ok());
        // Its count is read, and not sampled.
        let counted = Sampling { count: true, ..Sampling::default() };
        assert_eq!(settle(&event("cpu-clock"), &counted, None).unwrap(), counted);
    }
}
