//! Monitors that run at a prompt: each with its own callbacks, events and tables, in the one Lua
//! state of the host.

use std::rc::Rc;

use anyhow::{Context as _, bail};
use mlua::{Function, Table};

use super::Prompt;
use super::job::Job;
use crate::base::report::draw::Report;
use crate::event::rate::SamplingRate;
use crate::script::host::callbacks::Callbacks;
use crate::script::load::library::{Library, Script};
use crate::script::load::monitor::{Monitor, ScriptSource};
use crate::script::option::OptionSpec;
use crate::script::vm::guard::Phase;
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
        let chunk = script.chunk_name();
        let run = || self.host.vm.script(&chunk, &script.text);
        let value =
            self.host.vm.searching(library, script, || self.host.guard.run(Phase::Load, run))?;
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
        given: &[String],
    ) -> anyhow::Result<usize> {
        let table = monitor.table.clone();
        let (first_role, first_table) = (self.host.roles().len(), self.host.aggregates.len());
        table.raw_set("opt", options)?;
        self.host.sums.perins.set(perins);
        self.host.seal(false);
        self.host.begin_sources_of(&monitor.name);
        self.host.state.borrow_mut().printers.set_rank(monitor.is_bundled());
        let rate = self.set_rate(rate);
        let begun = self.host.call_init(&table, options);
        let begun = begun.and_then(|()| self.host.check_unused(options, &monitor.options, given));
        self.set_rate(rate);
        self.host.state.borrow_mut().printers.set_rank(false);
        self.host.seal(true);
        self.host.sums.perins.set(false);
        begun?;
        self.host.check_order()?;
        let callbacks = Rc::new(Callbacks::of(monitor)?);
        if let Some(callback) = callbacks.side_kinds().beyond(SideKinds::AT_PROMPT) {
            bail!(
                "{} has {callback}, whose records a prompt does not request; run it as a command",
                monitor.name
            );
        }
        let sample: Option<Function> = table.get("sample")?;
        {
            let (roles, state) = (self.host.roles(), self.host.state.borrow());
            self.host.dispatch.make_views(
                &roles,
                sample.as_ref(),
                &state.printers,
                state.per_thread,
            )?;
        }
        self.ask::<()>("adopt", first_role)?;
        let number = self.jobs.iter().map(|job| job.number).max().unwrap_or(0) + 1;
        self.host.further_callbacks.push(callbacks.clone());
        self.jobs.push(Job {
            number,
            name: monitor.name.clone(),
            roles: first_role..self.host.roles().len(),
            callbacks,
            tables: first_table..self.host.aggregates.len(),
        });
        Ok(number)
    }

    /// Sets the sampling rate of clocks and hardware events; returns the previous one.
    fn set_rate(&self, rate: Option<SamplingRate>) -> Option<SamplingRate> {
        let state = self.host.state.borrow();
        state.declarer.as_ref().and_then(|declarer| declarer.rate.replace(rate))
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
        self.host.state.borrow_mut().set_counts(counts);
        let drawn = match self.host.wanted(callback, seconds) {
            Ok(Some(wanted)) => self
                .host
                .draw_in_time(|host| host.dispatch.draw(&host.aggregates, counts, Some(&wanted))),
            _ => self
                .host
                .draw_in_time(|host| host.aggregates.draw_some(host.vm.lua(), tables.clone())),
        };
        self.host.aggregates.restart_some(tables);
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
        self.host.further_callbacks.retain(|callbacks| !Rc::ptr_eq(callbacks, &job.callbacks));
        let roles: Vec<u32> = job.roles.clone().map(|role| role as u32).collect();
        self.host.dispatch.forget(&roles)?;
        Ok(job)
    }
}
