//! Events that perilune causes itself, and which of them a run must not exclude.

use super::kind::Event;

impl Event {
    /// Returns whether this is a scheduler event (`sched:*`).
    ///
    /// Scheduler events are never excluded for perilune's own threads: a switch to perilune without
    /// the switch away from it would leave a gap in the timeline of that CPU.
    pub fn is_scheduler_event(&self) -> bool {
        self.name.starts_with("sched:")
    }

    /// Returns whether the kernel takes its slow path for system calls while this event is open.
    pub fn is_of_system_calls(&self) -> bool {
        let systems = ["raw_syscalls", "syscalls", "syscall"];
        self.name.split_once(':').is_some_and(|(system, _)| systems.contains(&system))
    }

    /// Returns whether this event can be raised by an interrupt (`timer:*`, `irq:*`,
    /// `irq_vectors:*`).
    ///
    /// Such an event belongs to the interrupted task. Excluding those that interrupt perilune would
    /// make a timer look late. Only those that perilune raises outside of an interrupt are its own.
    pub fn is_interrupt(&self) -> bool {
        let systems = ["timer", "irq", "irq_vectors"];
        self.name.split_once(':').is_some_and(|(system, _)| systems.contains(&system))
    }
}
