//! What handlers cost at a prompt: the CPU time of each batch, shared among its events.
//!
//! The clock is read once a batch, since reading it once an event would cost more than the event. Where a batch holds events
//! of several roles, its time is shared in proportion to what their events have cost so far; batches of one role,
//! and batches with other shares, set that right.

use std::time::Duration;

use crate::base::slot::Slot;

/// What was spent, by role.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    roles: Vec<Spent>,
    counts: Vec<u32>,
}

/// Events of a role, and the time in its handler.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Events.
    pub events: u64,
    /// Nanoseconds, the driver and the predicate included.
    pub ns: f64,
}

impl Spent {
    /// Nanoseconds an event.
    pub fn each(&self) -> f64 {
        if self.events == 0 { 1.0 } else { self.ns / self.events as f64 }
    }
}

impl Meter {
    /// A batch was handled in this time.
    pub(super) fn add(&mut self, slots: &[Slot], time: Duration) {
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

    /// What a role's events have cost.
    pub fn of(&self, role: usize) -> Spent {
        self.roles.get(role).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_batch_costs_is_shared_by_what_events_cost_before() {
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
