//! When a run reports, and what it has cost by then.

use std::time::Instant;

use super::request::RunRequest;
use crate::base::coverage::Coverage;
use crate::base::draw::{Compiler, Stats};
use crate::base::units::human_ns;
use crate::script::host::Host;
use crate::script::state::turns_missed;
use crate::sys::{machine, slice};

/// When the next report or timer is due, in nanoseconds of the run.
pub(super) struct Pace {
    interval: f64,
    interval_at: f64,
    /// When a report was asked for beside those; infinite if none was.
    asked_at: f64,
    pub(super) last: f64,
    pub(super) end: f64,
}

impl Pace {
    pub(super) fn new(request: &RunRequest) -> Self {
        let interval = request.interval_ns().map_or(f64::INFINITY, |ns| ns as f64);
        let end = request.host.duration_ns.map_or(f64::INFINITY, |ns| ns as f64);
        Pace { interval, interval_at: interval, asked_at: f64::INFINITY, last: 0.0, end }
    }

    pub(super) fn next(&self, host: &Host) -> f64 {
        self.report_at().min(host.next_timer().unwrap_or(f64::INFINITY)).min(self.end)
    }

    /// When the next report is due.
    pub(super) fn report_at(&self) -> f64 {
        self.interval_at.min(self.asked_at)
    }

    /// Has a report drawn at `now`. The others stay where they are.
    pub(super) fn ask(&mut self, now: f64) {
        self.asked_at = self.asked_at.min(now);
    }

    /// After a pause (a stopped process) there is one report over the whole time, not one for each turn that was missed.
    pub(super) fn skip_missed(&mut self, now: f64) {
        self.interval_at += turns_missed(self.interval_at, self.interval, now) * self.interval;
    }

    /// Passes an interval's boundary; gives its length in seconds.
    pub(super) fn turn(&mut self, now: f64) -> f64 {
        let seconds = (now - self.last) / 1e9;
        self.last = now;
        if self.interval_at <= now {
            self.interval_at += self.interval;
        }
        self.asked_at = f64::INFINITY;
        seconds
    }
}

/// What this process has used since the events were enabled, and how long it was kept from it.
pub(super) struct Cost {
    cpu_before_ns: u64,
    waited_before_ns: Option<u64>,
    start_ms: f64,
}

impl Cost {
    pub(super) fn start(started: Instant) -> Self {
        let start_ms = started.elapsed().as_secs_f64() * 1e3;
        let waited_before_ns = slice::waited_ns();
        Cost { cpu_before_ns: machine::own_cpu_ns(), waited_before_ns, start_ms }
    }

    /// What to say of a run that lost events in so many nanoseconds, if that is because others had the CPUs: a larger ring
    /// does not help then.
    pub(super) fn kept_waiting(&self, run_ns: f64, realtime: bool) -> Option<String> {
        let waited = slice::waited_ns()?.saturating_sub(self.waited_before_ns?);
        let instead = match realtime {
            false => "--realtime lets it go first",
            true => {
                "it had used its part of a CPU, or may not go first; take fewer events, by a filter"
            }
        };
        too_long(waited, run_ns).then(|| {
            let waited = human_ns(waited);
            format!("events were lost while perilune waited for a CPU, {waited} in all: {instead}")
        })
    }

    pub(super) fn stats(&self, coverage: &Coverage, compiler: Compiler) -> Stats {
        let own_cpu_ns = machine::own_cpu_ns();
        let used = own_cpu_ns.saturating_sub(self.cpu_before_ns);
        let received = coverage.events + coverage.filtered;
        Stats {
            events: coverage.events,
            own_cpu_ns,
            ns_per_event: (received >= ENOUGH).then(|| used as f64 / received as f64),
            lost: coverage.lost,
            max_rss_kb: machine::max_rss_kb(),
            start_ms: self.start_ms,
            compiler,
        }
    }
}

/// Of fewer events the cost of each would be what the run costs without any.
const ENOUGH: u64 = 1000;

/// Whether a run was kept from the CPU for a part of its time that matters. It uses a few percent of one.
fn too_long(waited_ns: u64, run_ns: f64) -> bool {
    const PART: f64 = 0.1;
    waited_ns as f64 > PART * run_ns
}
