//! Monitors that run at a prompt: each with its own callbacks, events and tables, in the one Lua
//! state of the host.

use std::rc::Rc;

use anyhow::Context as _;

use super::Prompt;
use crate::base::report::draw::Report;
use crate::script::host::job::{Job, JobOptions};
use crate::script::load::library::{Library, Script};
use crate::script::load::monitor::Monitor;
use crate::script::option::OptionSpec;
use crate::source::counts::CountDelta;
use crate::source::side_record::SideKinds;

impl Prompt {
    /// Loads a monitor beside the running ones; opens nothing.
    ///
    /// # Errors
    /// The file does not load, or is not a monitor.
    pub fn load_job(
        &self,
        script: &Script,
        library: &Library,
        reserved: &[OptionSpec],
    ) -> anyhow::Result<Monitor> {
        self.host.load_beside(script, library, reserved)
    }

    /// Calls a loaded monitor's `init` and `filter`, and makes its handlers. The session opens its
    /// events afterwards.
    ///
    /// # Errors
    /// An error of `init` or `filter`, a typed event that does not exist, or an event without a
    /// handler. No job is added then.
    pub fn begin_job(
        &mut self,
        monitor: &Monitor,
        options: &JobOptions<'_>,
    ) -> anyhow::Result<usize> {
        let job = self.host.begin_job(monitor, options, Some(SideKinds::AT_PROMPT))?;
        self.ask::<()>("adopt", job.roles.start)?;
        let number = self.jobs.iter().map(|job| job.number).max().unwrap_or(0) + 1;
        self.jobs.push(Job { number, ..job });
        Ok(number)
    }

    /// Returns the running monitors.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns a job's report and restarts its tables. `last` marks the report at its end.
    pub fn job_report(
        &mut self,
        number: usize,
        seconds: f64,
        counts: &[CountDelta],
        last: bool,
    ) -> Vec<Report> {
        let Some(job) = self.jobs.iter().find(|job| job.number == number) else {
            return Vec::new();
        };
        self.host.job_report(job, seconds, counts, last)
    }

    /// Removes a job, whose events were closed.
    ///
    /// # Errors
    /// No job has this number.
    pub fn end_job(&mut self, number: usize) -> anyhow::Result<Job> {
        let at = self.jobs.iter().position(|job| job.number == number);
        let at =
            at.with_context(|| format!("stop: there is no monitor {number}; `jobs` lists them"))?;
        let job = self.jobs.remove(at);
        self.host.further_callbacks.retain(|callbacks| !Rc::ptr_eq(callbacks, &job.callbacks));
        let roles: Vec<u32> = job.roles.clone().map(|role| role as u32).collect();
        self.host.dispatch.forget(&roles)?;
        Ok(job)
    }
}
