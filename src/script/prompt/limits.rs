//! Limits of a line of the prompt: number of events, time, and requests to stop.

use std::time::{Duration, Instant};

use super::Prompt;

impl Prompt {
    /// Limits the number of events that are handled from now on.
    pub fn limit_events(&mut self, most: Option<u64>) {
        self.host.rules.max_events = most;
        self.host.counted = 0;
        if most.is_none()
            && let Err(why) = self.host.dispatch.limit(u64::MAX)
        {
            self.host.failed(&why.to_string());
        }
    }

    /// Returns why handlers asked to stop, if one did or enough events came; events are handled
    /// again afterwards.
    pub fn take_stop(&mut self) -> Option<String> {
        let enough = self.enough.take();
        let stop = self.host.state.borrow_mut().stop.take();
        if stop.is_some() {
            self.host.dispatch.go_on();
        }
        stop.or(enough.then(String::new))
    }

    /// Returns whether `show` has seen enough, handlers asked to stop, or the event limit is
    /// reached.
    pub fn has_enough(&self) -> bool {
        self.enough.get() || self.host.satisfied()
    }

    /// Limits the time for which events are handled; checked before each batch.
    pub fn set_deadline(&mut self, time: Option<Duration>) {
        self.deadline = time.map(|time| Instant::now() + time);
    }

    /// Returns whether that time is over.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
