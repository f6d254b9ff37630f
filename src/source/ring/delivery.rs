//! Comparison of the samples that the events of one ring counted with those that arrived.

use crate::sys::perf::EventCounts;

/// Contexts of a CPU that may be writing a record: task, soft interrupt, hard interrupt, NMI.
pub(in crate::source) const IN_FLIGHT: u64 = 4;

/// Delivery state of one ring.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::source) struct Delivery {
    /// Samples read, of events that are compared.
    pub(in crate::source) taken: u64,
    /// Samples that such events had counted and not lost when they were closed.
    pub(in crate::source) of_closed: u64,
    /// Events without a record, as of the last check.
    pub(in crate::source) missing: u64,
    /// Whether the ring could not be parsed: nothing can be compared any more.
    pub(in crate::source) broken: bool,
}

impl Delivery {
    /// Compares: the open events counted `counted`, and `waiting` samples are unread. Up to `ahead`
    /// records may be in flight.
    pub(in crate::source) fn look(&mut self, counted: u64, waiting: u64, ahead: u64) {
        let received = self.taken + waiting;
        let missing = (counted + self.of_closed).saturating_sub(received);
        if !self.broken && missing > ahead {
            self.missing = self.missing.max(missing);
        }
    }

    /// Returns whether many events have no record: more than a tenth, and not only a few.
    pub(in crate::source) fn is_conspicuous(&self) -> bool {
        self.missing >= 20 && self.missing > self.taken / 10
    }

    /// Adds what an event that is being closed has counted and not lost.
    pub(in crate::source) fn close(&mut self, counts: &EventCounts) {
        self.of_closed += counts.delivered().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_events_neither_read_nor_waiting_are_missing() {
        let mut delivery = Delivery { taken: 90, ..Delivery::default() };
        delivery.look(100, 10, 0);
        assert_eq!(delivery.missing, 0);
        delivery.look(104, 10, IN_FLIGHT);
        assert_eq!(delivery.missing, 0, "they may be in flight");
        delivery.close(&EventCounts { value: 9, lost: Some(2), ..EventCounts::default() });
        delivery.look(104, 10, IN_FLIGHT);
        assert_eq!(delivery.missing, 11);
        // Missing records do not arrive later.
        delivery.look(104, 30, 0);
        assert_eq!(delivery.missing, 11);
    }

    #[test]
    fn a_ring_that_could_not_be_parsed_is_not_compared() {
        let mut delivery = Delivery { broken: true, ..Delivery::default() };
        delivery.look(100, 0, 0);
        assert_eq!(delivery.missing, 0);
    }
}
