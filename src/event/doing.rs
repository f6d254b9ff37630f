//! Whose doing an event is: of some its task is only whoever had the CPU.

use super::catalog::Event;

impl Event {
    /// Whether the time line of a CPU would have holes without those that it had while we ran: it would switch to us and never
    /// away, its timers would expire and never be set anew.
    pub fn is_of_the_cpu(&self) -> bool {
        self.name.starts_with("sched:") || self.is_interrupt()
    }

    /// Whether it happens to whoever has the CPU, which says nothing of whose doing it is.
    pub fn is_interrupt(&self) -> bool {
        let systems = ["timer", "irq", "irq_vectors"];
        self.name.split_once(':').is_some_and(|(system, _)| systems.contains(&system))
    }
}
