//! Several monitors of one run: `serve`. Each has its own events, tables, reports and coverage;
//! they share one Lua state and one set of rings.
//!
//! The order of calls: `begin`, then `add` for each monitor that the host has loaded, `ready`,
//! `attach` (once the batch exists), then batches with `report` of each monitor in between.

mod sink;

use super::host::job::{Job, JobOptions};
use super::host::{Host, Rules, Setting};
use super::load::monitor::Monitor;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Report;
use crate::base::report::metric::MetricTable;
use crate::source::counts::CountDelta;

/// A host of several monitors.
pub struct ServedMonitors {
    /// The host.
    pub host: Host,
    jobs: Vec<Job>,
    /// Number of events of each role that were handled.
    events: Vec<u64>,
}

/// A monitor's report.
pub struct ServedReport {
    /// Its printed parts.
    pub parts: Vec<Report>,
    /// The measurements of its tables.
    pub measured: Vec<MetricTable>,
}

impl ServedMonitors {
    /// Applies the settings of the run; adds no monitor.
    ///
    /// # Errors
    /// The memory limit is too low.
    pub fn begin(host: Host, setting: &Setting, rules: Rules) -> anyhow::Result<ServedMonitors> {
        let mut host = host;
        host.configure(setting, rules)?;
        host.seal(true);
        // One monitor may fail while the others go on.
        host.may_idle = true;
        // Events of different monitors come in one order.
        host.ordered = rules.order.unwrap_or(true);
        host.sums.verbose.set(setting.verbose);
        host.sums.measured.set(true);
        Ok(ServedMonitors { host, jobs: Vec::new(), events: Vec::new() })
    }

    /// Adds a loaded monitor under a name.
    ///
    /// # Errors
    /// An error of `init` or `filter`, no event, an event that does not exist, or an event without
    /// a handler.
    pub fn add(
        &mut self,
        name: &str,
        monitor: &Monitor,
        options: &JobOptions<'_>,
    ) -> anyhow::Result<()> {
        self.host.aggregates.begin_names();
        let job = self.host.begin_job(monitor, options, None)?;
        self.host.check_any_event(job.roles.start)?;
        self.jobs.push(Job { number: self.jobs.len() + 1, name: name.to_owned(), ..job });
        Ok(())
    }

    /// Ends the declarations.
    ///
    /// # Errors
    /// A handler reads a field that its event does not have, or an aggregate cannot begin.
    pub fn ready(&mut self) -> anyhow::Result<()> {
        let host = &mut self.host;
        let roles = host.roles();
        let events = roles.iter().map(|role| role.event.clone()).collect();
        host.context.with(|context| context.roles = events);
        host.aggregates.begin().map_err(anyhow::Error::msg)?;
        self.events = vec![0; roles.len()];
        let state = host.state.borrow();
        host.dispatch.request_fields(&mut state.evsels.borrow_mut())?;
        host.dispatch.check_fields(0, false)
    }

    /// Returns the monitors.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns the report of a monitor. `last` marks the report at the end of the run.
    pub fn report(
        &mut self,
        at: usize,
        seconds: f64,
        counts: &[CountDelta],
        last: bool,
    ) -> ServedReport {
        let Some(job) = self.jobs.get(at) else {
            return ServedReport { parts: Vec::new(), measured: Vec::new() };
        };
        let parts = self.host.job_report(job, seconds, counts, last);
        ServedReport { parts, measured: self.host.take_measured() }
    }

    /// Ends the reports of an interval.
    pub fn end_reports(&mut self) {
        self.host.end_reports();
    }

    /// Returns the coverage of a monitor. `all` is that of the run; `lost` counts the losses of the
    /// monitor's own events, if the kernel counts them.
    pub fn coverage(&self, at: usize, all: &Coverage, lost: Option<u64>) -> Coverage {
        let Some(job) = self.jobs.get(at) else { return *all };
        let own = self.host.job_coverage(job, all);
        let received: u64 = self.events.get(job.roles.clone()).unwrap_or_default().iter().sum();
        let events = received.saturating_sub(own.filtered) + own.events;
        Coverage { events, lost: lost.unwrap_or(all.lost), ..own }
    }

    /// Returns whether every handler and callback of a monitor is on.
    pub fn is_up(&self, at: usize) -> bool {
        self.jobs.get(at).is_some_and(|job| self.host.is_job_whole(job))
    }
}
