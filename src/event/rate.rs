//! How often an event is sampled: at each occurrence, or at a rate.
//!
//! Tracepoints, functions, breakpoints and software counters are sampled at each occurrence.
//! Clocks and hardware counters count nanoseconds, cycles or instructions, which are too frequent
//! for a sample each; they are sampled at a rate.

use anyhow::{Result, bail};

use crate::event::kind::Event;
use crate::event::sampling::Sampling;
pub use crate::event::sampling::SamplingRate;

/// Default sampling frequency in samples per second.
pub const DEFAULT_HZ: u64 = 100;

/// Minimum sampling period of a clock in nanoseconds: the kernel's timer raises a shorter period to
/// this value (`perf_swevent_start_hrtimer()`, kernel/events/core.c).
pub const CLOCK_PERIOD_MIN: u64 = 10_000;

impl Sampling {
    /// Returns the requested rate.
    pub fn rate(&self) -> Option<SamplingRate> {
        self.freq.map(SamplingRate::Frequency).or(self.period.map(SamplingRate::Period))
    }

    /// Sets the requested rate.
    pub fn set_rate(&mut self, rate: SamplingRate) {
        (self.freq, self.period) = match rate {
            SamplingRate::Frequency(hz) => (Some(hz), None),
            SamplingRate::Period(events) => (None, Some(events)),
        };
    }

    /// Returns whether a field of perf_event_attr sets the rate directly.
    fn has_raw_rate(&self) -> bool {
        let is_rate = |name: &str| matches!(name, "sample_freq" | "sample_period");
        self.fields.iter().any(|(name, _)| is_rate(name))
    }
}

/// Returns how an event is sampled. The rate is that of its evsel or selector, else that in its
/// name, else the run's, else [`DEFAULT_HZ`].
///
/// # Errors
/// The period of a clock is shorter than [`CLOCK_PERIOD_MIN`].
pub fn resolve_rate(
    event: &Event,
    sampling: &Sampling,
    of_run: Option<SamplingRate>,
) -> Result<Sampling> {
    let mut resolved = sampling.clone();
    if sampling.count || sampling.has_raw_rate() {
        return Ok(resolved);
    }
    if sampling.rate().is_none() {
        let default = of_run.unwrap_or(SamplingRate::Frequency(DEFAULT_HZ));
        let default = event.kind().has_rate().then_some(default);
        if let Some(rate) = event.kind().rate().or(default) {
            resolved.set_rate(rate);
        }
    }
    if let (true, Some(SamplingRate::Period(ns))) = (event.kind().is_clock(), resolved.rate())
        && ns < CLOCK_PERIOD_MIN
    {
        bail!(
            "{}: a period of {ns} ns is too short; the kernel's timer needs at least \
             {CLOCK_PERIOD_MIN} ns: use a longer period, or a rate (freq={DEFAULT_HZ}, \
             -F {DEFAULT_HZ})",
            event.name
        );
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind::{EventFiles, parse};

    fn event(name: &str) -> Event {
        parse(name, &EventFiles::NONE).unwrap().unwrap()
    }

    fn rate_of(
        name: &str,
        requested: Option<SamplingRate>,
        of_run: Option<SamplingRate>,
    ) -> Option<SamplingRate> {
        let mut sampling = Sampling::default();
        requested.into_iter().for_each(|rate| sampling.set_rate(rate));
        resolve_rate(&event(name), &sampling, of_run).unwrap().rate()
    }

    #[test]
    fn only_clocks_and_hardware_counters_get_a_default_rate() {
        for name in ["cpu-clock", "task-clock:u", "cycles:pp", "LLC-load-misses", "r1c2"] {
            assert_eq!(
                rate_of(name, None, None),
                Some(SamplingRate::Frequency(DEFAULT_HZ)),
                "{name}"
            );
            let of_run = Some(SamplingRate::Period(50_000));
            assert_eq!(rate_of(name, None, of_run), of_run, "{name}");
            let own = Some(SamplingRate::Frequency(7));
            assert_eq!(rate_of(name, own, of_run), own, "{name}");
        }
        for name in ["page-faults", "context-switches", "cpu-migrations:u"] {
            assert_eq!(rate_of(name, None, Some(SamplingRate::Frequency(7))), None, "{name}");
            assert_eq!(
                rate_of(name, Some(SamplingRate::Period(3)), None),
                Some(SamplingRate::Period(3)),
                "{name}"
            );
        }
    }

    #[test]
    fn a_clock_is_not_sampled_more_often_than_its_timer_fires() {
        let mut sampling = Sampling { period: Some(1), ..Sampling::default() };
        let why = resolve_rate(&event("cpu-clock"), &sampling, None).unwrap_err().to_string();
        assert_eq!(
            why,
            "cpu-clock: a period of 1 ns is too short; the kernel's timer needs at least 10000 ns: \
             use a longer period, or a rate (freq=100, -F 100)"
        );
        assert!(resolve_rate(&event("cycles"), &sampling, None).is_ok());
        sampling.period = Some(CLOCK_PERIOD_MIN);
        assert!(resolve_rate(&event("task-clock"), &sampling, None).is_ok());
        // A counted event is read, not sampled, so its rate stays unset.
        let counted = Sampling { count: true, ..Sampling::default() };
        assert_eq!(resolve_rate(&event("cpu-clock"), &counted, None).unwrap(), counted);
    }
}
