//! Thins events during a run: of every N events that the kernel counts, it writes one sample. If
//! counting costs too much, events are on in slices of time only.

use super::Live;
use crate::source::counts::Tally;
use crate::source::ring::weights::SampleWeights;
use crate::sys::clock::monotonic_ns;

impl Live {
    /// Returns the events and samples so far of the openings that can be thinned. Events that were
    /// counted since the last sample of a CPU are not included.
    pub fn tally(&self) -> Tally {
        self.weights().fold(Tally::default(), |sum, of_opening| sum.plus(of_opening.tally()))
    }

    /// Returns the weights of the openings that can be thinned.
    fn weights(&self) -> impl Iterator<Item = &SampleWeights> {
        self.opened.decoders.iter().filter_map(|decoder| decoder.weights.as_deref())
    }

    /// Returns the events so far of the openings that can be thinned, by CPU.
    pub fn events_by_cpu(&self) -> Vec<u64> {
        let mut all = Vec::new();
        self.weights().for_each(|weights| weights.add_events(&mut all));
        all
    }

    /// Returns the number of events without a sample that others stand for; None if no event can be
    /// thinned.
    pub fn thinned(&self) -> Option<u64> {
        self.weights().next().map(|_| self.tally().thinned())
    }

    /// Samples one event in N from now on, where `one_in` returns the N of an event. Costs an
    /// interrupt on the CPU of each event, some microseconds.
    pub fn thin(&self, mut one_in: impl FnMut() -> u64) {
        for open in &self.opened.events {
            let Some(weights) = &self.opened.decoders[open.opening].weights else { continue };
            let (period, before) = (one_in(), monotonic_ns());
            // An event whose period cannot be set has gone with its CPU.
            if open.event.period(period).is_ok() {
                weights.thin(open.cpu, period, [before, monotonic_ns()]);
            }
        }
    }

    /// Switches the events that can be thinned on or off, except those that a script has switched
    /// off. Costs an interrupt on the CPU of each event. Returns the middle of the time that it
    /// took, of the event clock.
    pub fn switch_thinned(&mut self, on: bool) -> u64 {
        self.is_paused = !on;
        let before = monotonic_ns();
        for open in &self.opened.events {
            let decoder = &self.opened.decoders[open.opening];
            let Some(weights) = decoder.weights.as_ref().filter(|_| decoder.is_on()) else {
                continue;
            };
            // An event that cannot be switched has gone with its CPU.
            let _ = if on { open.event.enable() } else { open.event.disable() };
            // Linux 6.18 does not start an event again that was throttled when it was disabled
            // (`perf_trace_add()`, kernel/events/core.c), unless its period is set.
            if on {
                let _ = open.event.period(weights.one_in(open.cpu));
            }
        }
        before + (monotonic_ns() - before) / 2
    }

    /// Lets each sample that is read from now on stand for so many times as many events, because
    /// its slice of time stands for that much more time.
    pub fn expand(&self, expansion: f64) {
        self.weights().for_each(|weights| weights.expand(expansion));
    }

    /// Returns whether a ring is half full.
    pub fn is_half_full(&self) -> bool {
        let mut rings = self.opened.rings.iter();
        rings.any(|ring| ring.ring.head().wrapping_sub(ring.ring.tail()) > ring.ring.capacity() / 2)
    }
}
