//! Report deadlines, and the run's own overhead.

use std::time::Instant;

use super::request::RunRequest;
use crate::base::report::coverage::Coverage;
use crate::base::report::run_stats::{BudgetStats, JitStats, Stats};
use crate::base::text::units::human_ns;
use crate::script::context::timers::last_due;
use crate::script::host::Host;
use crate::sys::{machine, sched};

/// Deadlines of reports and timers, in nanoseconds since the start of the run.
pub(super) struct Schedule {
    interval: f64,
    interval_at: f64,
    /// An extra report that was requested; infinite without one.
    asked_at: f64,
    pub(super) last: f64,
    pub(super) end: f64,
}

impl Schedule {
    pub(super) fn new(request: &RunRequest) -> Self {
        let interval = request.interval_ns().map_or(f64::INFINITY, |ns| ns as f64);
        let end = request.options.duration_ns.map_or(f64::INFINITY, |ns| ns as f64);
        Schedule { interval, interval_at: interval, asked_at: f64::INFINITY, last: 0.0, end }
    }

    pub(super) fn next(&self, host: &Host) -> f64 {
        self.report_or_end().min(host.next_timer().unwrap_or(f64::INFINITY))
    }

    /// Returns when the next report is due.
    pub(super) fn report_at(&self) -> f64 {
        self.interval_at.min(self.asked_at)
    }

    /// Returns when the next report is due, or when the run ends, if that is sooner.
    pub(super) fn report_or_end(&self) -> f64 {
        self.report_at().min(self.end)
    }

    /// Requests an extra report at `now`. The regular ones are not moved.
    pub(super) fn ask(&mut self, now: f64) {
        self.asked_at = self.asked_at.min(now);
    }

    /// Skips the reports that were missed while the process was stopped: one report covers the
    /// whole pause.
    pub(super) fn skip_missed(&mut self, now: f64) {
        self.interval_at = last_due(self.interval_at, self.interval, now);
    }

    /// Returns the nanoseconds between two reports; infinite if there is only one.
    pub(super) fn interval(&self) -> f64 {
        self.interval
    }

    /// Advances to the next report. Returns the length of the finished interval in seconds.
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

/// CPU time and scheduling delay of this process since the events were enabled.
pub(super) struct Overhead {
    cpu_before_ns: u64,
    waited_before_ns: Option<u64>,
    start_ms: f64,
}

impl Overhead {
    pub(super) fn start(started: Instant) -> Self {
        let start_ms = started.elapsed().as_secs_f64() * 1e3;
        let waited_before_ns = sched::waited_ns();
        Overhead { cpu_before_ns: machine::own_cpu_ns(), waited_before_ns, start_ms }
    }

    /// Returns a hint if events were lost because this process waited for a CPU, in a run of
    /// `run_ns` nanoseconds. A larger ring would not help then.
    pub(super) fn starvation_hint(&self, run_ns: f64, realtime: bool) -> Option<String> {
        let waited = sched::waited_ns()?.saturating_sub(self.waited_before_ns?);
        let fix = match realtime {
            false => "run with --realtime",
            true => {
                "the real-time budget was used up or not granted; reduce the number of events with \
                 a filter"
            }
        };
        too_long(waited, run_ns).then(|| {
            let waited = human_ns(waited);
            format!("events were lost while perilune waited {waited} for a CPU; {fix}")
        })
    }

    pub(super) fn stats(
        &self,
        coverage: &Coverage,
        compiler: JitStats,
        budget: Option<BudgetStats>,
        report_cpu_ns: u64,
    ) -> Stats {
        let own_cpu_ns = machine::own_cpu_ns();
        let used = own_cpu_ns.saturating_sub(self.cpu_before_ns + report_cpu_ns);
        let received = coverage.events + coverage.filtered;
        Stats {
            events: coverage.events,
            own_cpu_ns,
            ns_per_event: (received >= ENOUGH).then(|| used as f64 / received as f64),
            report_cpu_ns,
            lost: coverage.lost,
            max_rss_kb: machine::max_rss_kb(),
            start_ms: self.start_ms,
            compiler,
            budget,
            program_ns: None,
        }
    }
}

/// Below this many events the fixed cost of a run dominates, so ns/event is not reported.
const ENOUGH: u64 = 1000;

/// Returns whether the wait was a significant share of the run, which needs a few percent of a CPU.
fn too_long(waited_ns: u64, run_ns: f64) -> bool {
    const PART: f64 = 0.1;
    waited_ns as f64 > PART * run_ns
}
