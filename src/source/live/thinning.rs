//! Thins events during a run: of every N events that the kernel counts, it writes one sample.

use super::Live;
use crate::source::counts::Tally;
use crate::sys::clock::monotonic_ns;

impl Live {
    /// Returns the events and samples so far of the openings that can be thinned. Events that were
    /// counted since the last sample of a CPU are not included.
    pub fn tally(&self) -> Tally {
        let weights = self.opened.decoders.iter().filter_map(|decoder| decoder.weights.as_ref());
        weights.fold(Tally::default(), |sum, of_opening| sum.plus(of_opening.tally()))
    }

    /// Returns the number of events without a sample that others stand for; None if no event can be
    /// thinned.
    pub fn thinned(&self) -> Option<u64> {
        let weighed = self.opened.decoders.iter().any(|decoder| decoder.weights.is_some());
        weighed.then(|| self.tally().thinned())
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
}
