//! Whether a ring's CPU is online, and its events in service.

/// State of a ring's CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::source) struct Presence {
    /// Whether it was offline at the last check.
    offline: bool,
    /// Whether its events could not be reopened: this was reported, and is not retried until the
    /// CPU has been offline again.
    pub(in crate::source) given_up: bool,
    /// Last reading of its dummy: the time on the event clock, and for how many nanoseconds the
    /// dummy had been enabled.
    read: Option<(u64, u64)>,
}

impl Presence {
    /// Returns whether the CPU was offline at the last check.
    pub(in crate::source) fn is_offline(&self) -> bool {
        self.offline
    }

    /// Returns the state of a CPU that is offline.
    pub(in crate::source) fn offline() -> Presence {
        Presence { offline: true, ..Presence::default() }
    }

    /// Returns the state of a CPU whose dummy is enabled at `now`.
    pub(in crate::source) fn since(now: u64) -> Presence {
        Presence { read: Some((now, 0)), ..Presence::default() }
    }

    /// Returns whether a dummy that has been enabled for `enabled` ns by now was out of service
    /// since it was last read.
    pub(in crate::source) fn was_away(&mut self, now: u64, enabled: u64) -> bool {
        let before = self.read.replace((now, enabled));
        before.is_some_and(|(then, served)| {
            let (passed, served) = (now.saturating_sub(then), enabled.saturating_sub(served));
            passed > served + MISSING_NS
        })
    }
}

/// A dummy that lacks less than this of the elapsed time was in service all the time.
const MISSING_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dummy_enabled_for_less_than_the_elapsed_time_was_out_of_service() {
        const MS: u64 = 1_000_000;
        let mut presence = Presence::since(5 * MS);
        assert!(!presence.was_away(1005 * MS, 1000 * MS));
        assert!(!presence.was_away(2005 * MS, 1990 * MS), "read slightly late");
        assert!(presence.was_away(3005 * MS, 2400 * MS));
        // It is reported once.
        assert!(!presence.was_away(4005 * MS, 3400 * MS));
        assert!(!Presence::default().was_away(9 * MS, 0), "no earlier reading to compare with");
    }
}
