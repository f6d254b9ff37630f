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

    /// Returns whether only interrupts raise this event: the begin or the end of an interrupt, or
    /// of a function that runs in one. perilune never causes such an event itself.
    pub fn is_only_of_interrupts(&self) -> bool {
        let Some((system, name)) = self.name.split_once(':') else { return false };
        let part = name.strip_suffix("_entry").or_else(|| name.strip_suffix("_exit"));
        part.is_some_and(|part| match system {
            "irq" => ["irq_handler", "softirq", "tasklet"].contains(&part),
            "timer" => ["timer_expire", "hrtimer_expire"].contains(&part),
            _ => system == "irq_vectors",
        })
    }
}
