//! What a session has missed: told as it happens, when somebody asks, and at its end.

use super::Session;
use crate::base::coverage::Coverage;

impl Session<'_> {
    /// What was seen and missed since the session began.
    pub(super) fn coverage(&mut self, all: bool) -> Coverage {
        let lost = self.source.lost(all);
        let coverage = self.host.coverage(lost);
        // Each error was shown when it happened.
        let coverage = Coverage { errors: 0, ..coverage };
        self.source.add_to(coverage)
    }

    /// Says what was missed since it was said last, no more often than `every`.
    pub(super) fn tell_losses(&mut self, every: f64) {
        let now = self.source.now();
        if now - self.told_at < every {
            return;
        }
        let coverage = self.coverage(false);
        let since = coverage.since(&self.told);
        self.told_at = now;
        self.told = coverage;
        self.host.shared().with(|context| {
            let stamp = context.clock.stamp(context.clock.clock_ns(now));
            context.out.coverage(stamp, &since, false);
        });
        self.flush();
    }

    /// Says what was missed all in all.
    pub(super) fn end(&mut self) {
        let coverage = self.coverage(true);
        let now = self.source.now();
        self.host.shared().with(|context| {
            let stamp = context.clock.stamp(context.clock.clock_ns(now));
            context.out.coverage(stamp, &coverage, true);
        });
        self.flush();
    }
}
