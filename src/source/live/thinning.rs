//! Thins events during a run: of every N events that the kernel counts, it writes one sample. If
//! counting costs too much, events are on in slices of time only.

use std::time::Duration;

use super::Live;
use crate::source::counts::{CpuEvents, SwitchedEvents, Tally};
use crate::source::open::open_event::OpenEvent;
use crate::source::request::Opening;
use crate::source::ring::weights::SampleWeights;
use crate::sys::clock::monotonic_ns;

/// An N of which no moment contains enough events for a second sample of a CPU.
const RAREST: u64 = 1 << 40;

impl Live {
    /// Returns the events and samples so far of the openings that can be thinned. Events that were
    /// counted since the last sample of a CPU are not included.
    pub fn tally(&self) -> Tally {
        self.weights().fold(Tally::default(), |sum, of_opening| sum.plus(of_opening.tally()))
    }

    /// Returns the number of those events that are system calls, as [`Live::tally`].
    pub fn system_calls(&self) -> u64 {
        // A call has an event at its entry, and one at its return.
        let is_of = |opening: &Opening, end: &str| {
            opening.event.is_of_system_calls() && opening.event.name.contains(end)
        };
        let has_entries = self.openings.iter().any(|opening| is_of(opening, "sys_enter"));
        let end = if has_entries { "sys_enter" } else { "sys_" };
        let all = self.openings.iter().zip(&self.opened.decoders);
        let calls = all.filter(|(opening, _)| is_of(opening, end));
        calls.filter_map(|(_, decoder)| Some(decoder.weights.as_deref()?.tally().events)).sum()
    }

    /// Returns the weights of the openings that can be thinned.
    fn weights(&self) -> impl Iterator<Item = &SampleWeights> {
        self.opened.decoders.iter().filter_map(|decoder| decoder.weights.as_deref())
    }

    /// Returns the events that can be thinned, with the weights of their openings.
    fn thinnable(&self) -> impl Iterator<Item = (&OpenEvent, &SampleWeights)> {
        self.opened
            .events
            .iter()
            .filter_map(|open| Some((open, self.opened.decoders[open.opening].weights.as_deref()?)))
    }

    /// Returns whether a script has not switched an event off.
    fn is_requested(&self, open: &OpenEvent) -> bool {
        self.opened.decoders[open.opening].is_on()
    }

    /// Returns the time of the first sample since the last call, of the event clock; `u64::MAX` if
    /// there was none.
    pub fn take_first_sample(&self) -> u64 {
        self.weights().map(SampleWeights::take_first).min().unwrap_or(u64::MAX)
    }

    /// Returns the number of events without a sample that others stand for; None if no event can be
    /// thinned.
    pub fn thinned(&self) -> Option<u64> {
        self.weights().next().map(|_| self.tally().thinned())
    }

    /// Counts the events that can be thinned for a moment, with next to no samples, before they are
    /// enabled for the run. Returns how many there were, and how many nanoseconds it lasted.
    ///
    /// An event that cannot be used is not counted: it has gone with its CPU.
    pub fn count_before_run(&mut self, moment: Duration) -> (u64, f64) {
        let thinnable = || self.thinnable().filter(|(open, _)| self.is_requested(open));
        let begin = monotonic_ns();
        for (open, _) in thinnable() {
            // The kernel writes a sample of the first event at most.
            let _ = open.event.period(RAREST).and_then(|()| open.event.enable());
        }
        std::thread::sleep(moment);
        let mut events = 0;
        for (open, _) in thinnable() {
            let _ = open.event.disable();
            events += open.event.read_counts().map_or(0, |counts| counts.value);
            let _ = open.event.reset().and_then(|()| open.event.period(1));
        }
        let lasted = monotonic_ns() - begin;
        for ring in &mut self.opened.rings {
            ring.head = ring.ring.head();
            ring.at = ring.head;
            ring.ring.release(ring.at);
        }
        (events, lasted as f64)
    }

    /// Samples one event in N from now on, where `one_in` returns the N of an event. Costs an
    /// interrupt on the CPU of each event, some microseconds, and four if N was 1.
    pub fn thin(&self, mut one_in: impl FnMut() -> u64) {
        for (open, weights) in self.thinnable() {
            let (period, before) = (one_in(), monotonic_ns());
            let is_first = weights.one_in(open.cpu) == 1 && period > 1;
            // At the next event, Linux divides the count by the period before
            // (`perf_swevent_set_period()`, kernel/events/core.c). With a period of 1 the result is
            // 2, and the second sample may throttle the event: no event is counted until the next
            // tick, which an idle CPU does not have. An event that is disabled meanwhile begins
            // with the new period.
            let is_on = self.is_enabled && !self.is_paused && self.is_requested(open);
            let restarts = is_first && is_on;
            if restarts {
                let _ = open.event.disable();
            }
            let is_set = open.event.period(period).is_ok();
            if restarts {
                // The second period ends a throttling from before.
                let _ = open.event.enable().and_then(|()| open.event.period(period));
            }
            // An event whose period cannot be set has gone with its CPU.
            if is_set {
                weights.thin(open.cpu, period, [before, monotonic_ns()]);
            }
        }
    }

    /// Switches the events that can be thinned on or off, except those that a script has switched
    /// off. Costs an interrupt on the CPU of each event. Returns the middle of the time that it
    /// took, and the events until then.
    pub fn switch_thinned(&mut self, on: bool) -> SwitchedEvents {
        self.is_paused = !on;
        // Counts of events that are off are read without an interrupt.
        let counted = on.then(|| self.counted_by_cpu());
        let before = monotonic_ns();
        for (open, weights) in self.thinnable().filter(|(open, _)| self.is_requested(open)) {
            // An event that cannot be switched has gone with its CPU.
            let _ = if on { open.event.enable() } else { open.event.disable() };
            // Linux 6.18 does not start an event again that was throttled when it was disabled
            // (`perf_trace_add()`, kernel/events/core.c), unless its period is set.
            if on {
                let _ = open.event.period(weights.one_in(open.cpu));
            }
        }
        let at = before + (monotonic_ns() - before) / 2;
        SwitchedEvents { at, by_cpu: counted.unwrap_or_else(|| self.counted_by_cpu()) }
    }

    /// Returns the events of each CPU that the kernel has counted, and how many of them have a
    /// record with the current N.
    fn counted_by_cpu(&self) -> Vec<CpuEvents> {
        let mut by_cpu = Vec::new();
        for (open, weights) in self.thinnable() {
            let at = open.cpu as usize;
            by_cpu.resize(by_cpu.len().max(at + 1), CpuEvents::default());
            let all = open.event.read_counts().map_or(0, |counts| counts.value);
            by_cpu[at].all += all;
            by_cpu[at].sampled += all / weights.one_in(open.cpu).max(1);
        }
        by_cpu
    }

    /// Lets each sample that is read from now on stand for so many times as many events, because
    /// its slice of time stands for that much more time.
    pub fn expand(&self, expansion: f64) {
        self.weights().for_each(|weights| weights.expand(expansion));
    }

    /// Lets samples before a time of the event clock stand for nothing.
    pub fn measure_from(&self, time: u64) {
        self.weights().for_each(|weights| weights.measure_from(time));
    }

    /// Returns whether a ring is half full.
    pub fn is_half_full(&self) -> bool {
        let mut rings = self.opened.rings.iter();
        rings.any(|ring| ring.ring.head().wrapping_sub(ring.ring.tail()) > ring.ring.capacity() / 2)
    }
}
