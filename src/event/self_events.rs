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

    /// Returns whether this event is raised only in interrupts: the start or the end of one, or of
    /// a function that runs in one. It is never perilune's own event, even if it interrupts
    /// perilune.
    pub fn is_raised_only_by_interrupts(&self) -> bool {
        let Some((system, name)) = self.name.split_once(':') else { return false };
        let part = name.strip_suffix("_entry").or_else(|| name.strip_suffix("_exit"));
        part.is_some_and(|part| match system {
            "irq" => ["irq_handler", "softirq", "tasklet"].contains(&part),
            "timer" => ["timer_expire", "hrtimer_expire"].contains(&part),
            _ => system == "irq_vectors",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind::DerivedEvent;

    #[test]
    fn the_start_and_the_end_of_interrupts_are_never_own_events() {
        let is_foreign = |name: &str| {
            let event = DerivedEvent::new(name, &[], None);
            Event::new(name, event).is_raised_only_by_interrupts()
        };
        for name in ["irq:softirq_entry", "irq:tasklet_exit", "irq:irq_handler_exit"] {
            assert!(is_foreign(name), "{name}");
        }
        for name in ["timer:timer_expire_entry", "irq_vectors:local_timer_exit"] {
            assert!(is_foreign(name), "{name}");
        }
        for name in ["irq:softirq_raise", "timer:timer_start", "timer:hrtimer_start"] {
            assert!(!is_foreign(name), "{name}");
        }
        for name in ["irq_vectors:vector_alloc", "syscalls:sys_enter_read", "softirq_entry"] {
            assert!(!is_foreign(name), "{name}");
        }
    }
}
