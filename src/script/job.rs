//! Monitors that run inside a session: each with its own callbacks, events and tables, in the
//! session's one Lua state.

use std::ops::Range;

use anyhow::Context as _;
use mlua::{Function, Table};

use super::bundle::{Library, Script};
use super::call::call;
use super::callbacks::Callbacks;
use super::guard::Phase;
use super::host::Host;
use super::monitor::{Monitor, ScriptSource};
use super::option::OptionSpec;
use crate::base::draw::Report;
use crate::event::rate::SamplingRate;
use crate::source::counts::CountDelta;

/// One running monitor.
pub struct Job {
    /// Its number for the user.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its events, as roles.
    pub roles: Range<usize>,
    pub(super) callbacks: Callbacks,
    pub(super) tables: Range<usize>,
}

impl Host {
    /// Loads a monitor beside the running ones; opens nothing.
    ///
    /// # Errors
    /// The file does not load, or is not a monitor.
    pub fn load_job(
        &mut self,
        script: &Script,
        library: &Library,
        reserved: &[OptionSpec],
    ) -> anyhow::Result<Monitor> {
        let chunk = script.chunk_name();
        let run = || self.vm.script(&chunk, &script.text);
        let value = self.vm.searching(library, script, || self.guard.run(Phase::Load, run))?;
        let origin = script.shown_origin();
        let source = ScriptSource { name: &script.name, origin: &origin, text: &script.text };
        Monitor::load(source, &value, reserved)
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
        options: &Table,
        perins: bool,
        rate: Option<SamplingRate>,
    ) -> anyhow::Result<usize> {
        let table = monitor.table.clone();
        let (first_role, first_table) = (self.roles().len(), self.aggregates.len());
        table.raw_set("opt", options)?;
        self.sums.perins.set(perins);
        self.seal(false);
        self.state.borrow_mut().printers.come_with(monitor.is_bundled());
        let rate = self.set_rate(rate);
        let begun = self.init(&table, options);
        let begun = begun.and_then(|()| self.check_unused(options, &monitor.options));
        self.set_rate(rate);
        self.state.borrow_mut().printers.come_with(false);
        self.seal(true);
        self.sums.perins.set(false);
        begun?;
        self.check_order()?;
        let sample: Option<Function> = table.get("sample")?;
        {
            let (roles, state) = (self.roles(), self.state.borrow());
            self.dispatch.make_views(&roles, sample.as_ref(), &state.printers, state.per_thread)?;
        }
        self.ask_prompt::<()>("adopt", first_role)?;
        let number = self.jobs.iter().map(|job| job.number).max().unwrap_or(0) + 1;
        self.jobs.push(Job {
            number,
            name: monitor.name.clone(),
            roles: first_role..self.roles().len(),
            callbacks: Callbacks::of(monitor)?,
            tables: first_table..self.aggregates.len(),
        });
        Ok(number)
    }

    /// Sets the sampling rate of clocks and hardware events; returns the previous one.
    fn set_rate(&self, rate: Option<SamplingRate>) -> Option<SamplingRate> {
        let state = self.state.borrow();
        state.declarer.as_ref().and_then(|declarer| declarer.rate.replace(rate))
    }

    fn init(&self, table: &Table, options: &Table) -> anyhow::Result<()> {
        for name in ["init", "filter"] {
            if let Some(callback) = table.get::<Option<Function>>(name)? {
                call::<()>(&self.guard, Phase::Load, &callback, options)?;
            }
        }
        Ok(())
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
        let Some(at) = self.jobs.iter().position(|job| job.number == number) else {
            return Vec::new();
        };
        let (tables, calls) = (self.jobs[at].tables.clone(), &self.jobs[at].callbacks);
        let deinit = calls.deinit.clone().filter(|_| last);
        let callback = deinit.or_else(|| calls.interval.clone());
        self.state.borrow_mut().set_counts(counts);
        let drawn = match self.wanted(callback, seconds) {
            Ok(Some(wanted)) => self
                .draw_in_time(|host| host.dispatch.draw(&host.aggregates, counts, Some(&wanted))),
            _ => self.draw_in_time(|host| host.aggregates.draw_some(host.vm.lua(), tables.clone())),
        };
        self.aggregates.restart_some(tables);
        drawn.unwrap_or_default()
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
        let roles: Vec<u32> = job.roles.clone().map(|role| role as u32).collect();
        self.dispatch.forget(&roles)?;
        Ok(job)
    }
}
