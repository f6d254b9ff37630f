//! Checks sampled clocks: how many samples their running time implies, and how many arrived.
//!
//! The kernel's timer skips the ticks that it is late for, and no record shows it
//! (`perf_swevent_hrtimer()`, kernel/events/core.c). Shares are still correct then; numbers of
//! samples, and times derived from them, are too low.
//!
//! A clock of tasks runs while they run. A CPU-wide clock that excludes the idle task samples while
//! the CPU is busy according to /proc/stat; if the CPU is idle for more than a fifth of the time,
//! that count is too coarse and the clock is not checked. A clock that excludes a mode is not
//! checked either: how long the others ran is not known. Hardware counters are not checked: the
//! kernel adapts their period continuously.

use std::collections::BTreeMap;
use std::fmt;

use super::Live;
use crate::source::open::counter_reading::CounterReading;
use crate::source::open::open_event::OpenEvent;
use crate::sys::cpu_time::busy_ns;

/// Readings of the sampled clocks so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockReadings(Vec<ClockReading>);

/// One clock, on one CPU or of the watched tasks.
#[derive(Clone, Debug, PartialEq)]
struct ClockReading {
    opening: usize,
    /// None for a clock of tasks, which has one reading for all CPUs.
    cpu: Option<u32>,
    name: String,
    hz: f64,
    /// Whether it does not sample the idle task.
    without_idle: bool,
    /// Samples, including lost ones.
    came: u64,
    running_ns: u64,
    /// Nanoseconds that the CPU was not idle.
    busy_ns: u64,
}

/// A clock whose samples arrived at another rate than its running time implies.
#[derive(Clone, Debug, PartialEq)]
pub struct OffRate {
    name: String,
    hz: f64,
    expected: f64,
    came: f64,
}

/// Minimum busy part of a CPU's time for a check.
const BUSY_MIN: f64 = 0.8;
/// Minimum number of expected samples, and of seconds of running time, for a check.
const SAMPLES_MIN: f64 = 200.0;
const SECONDS_MIN: f64 = 1.0;
/// Tolerance: a part of the expected samples, and some for the beginning and the end.
const PART_MAX: f64 = 0.1;
const SAMPLES_OFF_MAX: f64 = 10.0;

impl Live {
    /// Reads the sampled clocks.
    pub fn clock_readings(&self) -> ClockReadings {
        let is_clock = |open: &&OpenEvent| self.openings[open.opening].clock_hz().is_some();
        if !self.opened.events.iter().any(|open| is_clock(&open)) {
            return ClockReadings::default();
        }
        let busy = busy_ns();
        let mut readings: BTreeMap<(usize, Option<u32>), ClockReading> = BTreeMap::new();
        for open in self.opened.events.iter().filter(is_clock) {
            let opening = &self.openings[open.opening];
            let cpu = (open.tid < 0).then_some(open.cpu);
            let Ok(counts) = open.event.read_counts() else { continue };
            let reading = readings.entry((open.opening, cpu)).or_insert_with(|| ClockReading {
                opening: open.opening,
                cpu,
                name: opening.event.name.clone(),
                hz: opening.clock_hz().unwrap_or_default(),
                without_idle: opening.excluded().idle,
                came: self.opened.decoders[open.opening].came_of(cpu),
                running_ns: 0,
                busy_ns: cpu.and_then(|cpu| busy.get(&cpu).copied()).unwrap_or_default(),
            });
            reading.running_ns += open.carried.plus(CounterReading::of(&counts)).running_ns();
            reading.came += counts.lost.unwrap_or_default();
        }
        ClockReadings(readings.into_values().collect())
    }
}

impl ClockReadings {
    /// Returns whether no clock is sampled.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns these times with the samples of a later reading, which include what the rings held
    /// when the clocks were stopped.
    pub fn with_samples_of(mut self, later: &ClockReadings) -> ClockReadings {
        for reading in &mut self.0 {
            let same =
                later.0.iter().find(|r| (r.opening, r.cpu) == (reading.opening, reading.cpu));
            reading.came = same.map_or(reading.came, |later| later.came);
        }
        self
    }

    /// Returns the clocks whose samples since `before` arrived at another rate than their running
    /// time implies.
    pub fn off_rate_since(&self, before: &ClockReadings) -> Vec<OffRate> {
        let mut clocks: BTreeMap<usize, (OffRate, f64)> = BTreeMap::new();
        for now in &self.0 {
            let same = before.0.iter().find(|r| (r.opening, r.cpu) == (now.opening, now.cpu));
            let since =
                |of: fn(&ClockReading) -> u64| of(now).saturating_sub(same.map_or(0, of)) as f64;
            let (running, busy) = (since(|r| r.running_ns) / 1e9, since(|r| r.busy_ns) / 1e9);
            let is_judged = now.cpu.is_none() || busy >= running * BUSY_MIN;
            if !is_judged {
                continue;
            }
            let seconds = match now.cpu {
                Some(_) if now.without_idle => busy.min(running),
                _ => running,
            };
            let empty = OffRate { name: now.name.clone(), hz: now.hz, expected: 0.0, came: 0.0 };
            let (clock, all) = clocks.entry(now.opening).or_insert((empty, 0.0));
            clock.expected += seconds * now.hz;
            clock.came += since(|r| r.came);
            *all += seconds;
        }
        let is_off = |(clock, seconds): &(OffRate, f64)| {
            let off = (clock.came - clock.expected).abs();
            *seconds >= SECONDS_MIN
                && clock.expected >= SAMPLES_MIN
                && off > clock.expected * PART_MAX + SAMPLES_OFF_MAX
        };
        clocks.into_values().filter(is_off).map(|(clock, _)| clock).collect()
    }
}

impl fmt::Display for OffRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OffRate { name, hz, expected, came } = self;
        write!(
            f,
            "{name}: {came:.0} samples arrived, but its running time implies {expected:.0} \
             ({hz:.0} per second): "
        )?;
        match came < expected {
            true => f.write_str(
                "the machine's timers were late; shares are right, but sample counts and times \
                 derived from them are too low",
            ),
            false => f.write_str("sample counts and times derived from them are too high"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(cpu: Option<u32>, came: u64, running_ms: u64, busy_ms: u64) -> ClockReading {
        let (running_ns, busy_ns) = (running_ms * 1_000_000, busy_ms * 1_000_000);
        let (name, hz, without_idle) = ("cpu-clock".to_owned(), 499.0, cpu.is_some());
        ClockReading { opening: 0, cpu, name, hz, without_idle, came, running_ns, busy_ns }
    }

    fn judged(readings: &[ClockReading]) -> Vec<String> {
        let now = ClockReadings(readings.to_vec());
        let off = now.off_rate_since(&ClockReadings::default());
        off.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_clock_of_tasks_is_judged_by_their_running_time() {
        assert_eq!(judged(&[clock(None, 998, 2000, 0)]), [""; 0]);
        assert_eq!(judged(&[clock(None, 900, 2000, 0)]), [""; 0], "a tenth is not reported");
        assert_eq!(
            judged(&[clock(None, 450, 2000, 0)]),
            ["cpu-clock: 450 samples arrived, but its running time implies 998 (499 per second): \
              the machine's timers were late; shares are right, but sample counts and times \
              derived from them are too low"]
        );
        assert!(judged(&[clock(None, 1200, 2000, 0)])[0].ends_with("too high"));
    }

    #[test]
    fn short_and_idle_runs_are_not_judged() {
        assert_eq!(judged(&[clock(None, 0, 900, 0)]), [""; 0], "less than a second");
        assert_eq!(judged(&[clock(None, 0, 0, 0)]), [""; 0], "tasks that slept");
        assert_eq!(judged(&[clock(Some(0), 10, 10_000, 100)]), [""; 0], "an idle CPU");
        assert_eq!(
            judged(&[clock(Some(0), 100, 10_000, 7000)]),
            [""; 0],
            "not busy enough to be judged"
        );
        assert_eq!(judged(&[]), [""; 0]);
    }

    #[test]
    fn busy_cpus_are_judged_by_their_busy_time_and_idle_ones_are_ignored() {
        let idle = clock(Some(1), 3, 10_000, 50);
        assert_eq!(judged(&[clock(Some(0), 4490, 10_000, 9000), idle.clone()]), [""; 0]);
        let off = judged(&[clock(Some(0), 2250, 10_000, 10_000), idle]);
        assert!(
            off[0]
                .starts_with("cpu-clock: 2250 samples arrived, but its running time implies 4990")
        );
    }

    #[test]
    fn only_later_samples_are_judged_including_those_left_in_the_rings() {
        let before = ClockReadings(vec![clock(None, 450, 2000, 0)]);
        let now = ClockReadings(vec![clock(None, 450, 4000, 0)]);
        assert_eq!(now.off_rate_since(&before).len(), 1);
        let drained = ClockReadings(vec![clock(None, 450 + 998, 4100, 0)]);
        assert_eq!(now.with_samples_of(&drained).off_rate_since(&before), []);
    }
}
