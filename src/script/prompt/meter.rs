//! Cost of handlers at a prompt: the CPU time of each batch, shared among its events.
//!
//! The clock is read once per batch, because a read per event would cost more than the event. If a
//! batch holds events of several roles, its time is shared in proportion to the cost of their
//! events so far; batches of one role, and batches with other shares, correct the estimate.

use std::time::Duration;

use crate::base::event::slot::Slot;

/// Time spent, by role.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    roles: Vec<Spent>,
    counts: Vec<u32>,
}

/// Number of events of a role, and the time in its handler.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Number of events.
    pub events: u64,
    /// Nanoseconds, including the driver and the predicate.
    pub ns: f64,
}

impl Spent {
    /// Returns the nanoseconds per event.
    pub fn each(&self) -> f64 {
        if self.events == 0 { 1.0 } else { self.ns / self.events as f64 }
    }
}

impl Meter {
    /// Adds a batch that was handled in this time.
    pub(in crate::script) fn add(&mut self, slots: &[Slot], time: Duration) {
        self.counts.fill(0);
        for slot in slots {
            let role = usize::from(slot.ev);
            if role >= self.counts.len() {
                self.counts.resize(role + 1, 0);
                self.roles.resize(role + 1, Spent::default());
            }
            self.counts[role] += 1;
        }
        let both = || self.roles.iter().zip(&self.counts).filter(|(_, count)| **count > 0);
        let weight: f64 = both().map(|(spent, count)| spent.each() * f64::from(*count)).sum();
        let ns = time.as_nanos() as f64 / weight.max(f64::MIN_POSITIVE);
        for (spent, count) in self.roles.iter_mut().zip(&self.counts).filter(|(_, n)| **n > 0) {
            spent.ns += spent.each() * f64::from(*count) * ns;
            spent.events += u64::from(*count);
        }
    }

    /// Returns the cost of a role's events.
    pub fn of(&self, role: usize) -> Spent {
        self.roles.get(role).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_batch_is_divided_in_proportion_to_earlier_costs() {
        let slots = |roles: &[u16]| -> Vec<Slot> {
            roles.iter().map(|ev| Slot { ev: *ev, ..Slot::EMPTY }).collect()
        };
        let mut meter = Meter::default();
        let time = Duration::from_nanos;
        meter.add(&slots(&[0, 0]), time(20));
        meter.add(&slots(&[2]), time(90));
        assert_eq!((meter.of(0).each(), meter.of(2).each()), (10.0, 90.0));
        meter.add(&slots(&[0, 2]), time(200));
        assert_eq!((meter.of(0).ns, meter.of(2).ns), (40.0, 270.0));
        assert_eq!((meter.of(0).events, meter.of(1).events, meter.of(9).events), (3, 0, 0));
    }
}
