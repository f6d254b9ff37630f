//! Events that a session has missed: reported as they are lost, on request, and at its end.

use super::Session;
use crate::base::report::coverage::Coverage;

impl Session<'_> {
    /// Returns the events received and missed since the session began.
    pub(super) fn coverage(&mut self, all: bool) -> Coverage {
        let lost = self.source.lost(all);
        let coverage = self.prompt.host.coverage(lost);
        // Each error was shown when it happened.
        let coverage = Coverage { errors: 0, ..coverage };
        self.source.add_to(coverage)
    }

    /// Reports what was missed since the last report, at most once per `every` nanoseconds.
    pub(super) fn report_losses(&mut self, every: f64) {
        let now = self.source.now();
        if now - self.reported_at < every {
            return;
        }
        let coverage = self.coverage(false);
        let since = coverage.since(&self.reported);
        self.reported_at = now;
        self.reported = coverage;
        self.prompt.host.context().draw(now, |out, stamp| out.coverage(stamp, &since, false));
        self.flush();
    }

    /// Reports what was missed in total.
    pub(super) fn end(&mut self) {
        let coverage = self.coverage(true);
        let now = self.source.now();
        self.prompt.host.context().draw(now, |out, stamp| out.coverage(stamp, &coverage, true));
        self.flush();
    }
}
