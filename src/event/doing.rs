//! Whose doing an event is: of some its task is only whoever had the CPU.

use super::catalog::Event;

impl Event {
    /// Whether the scheduler tells it: the time line of a CPU would have holes without those of its events that it had while we ran:
    /// it would switch to us and never away.
    pub fn is_a_switch(&self) -> bool {
        self.name.starts_with("sched:")
    }

    /// Whether interrupts tell it, which happen to whoever has the CPU: without those that we had it for, a timer is late by what
    /// nobody saw. What we set or ask for ourselves, outside of an interrupt, is our own doing.
    pub fn is_interrupt(&self) -> bool {
        let systems = ["timer", "irq", "irq_vectors"];
        self.name.split_once(':').is_some_and(|(system, _)| systems.contains(&system))
    }
}
