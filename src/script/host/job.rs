//! Monitors beside each other in one host: each with its own callbacks, events and tables, in one
//! Lua state. A prompt starts them by typed lines, `serve` all at once.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use anyhow::bail;
use mlua::{Function, Table, Value};

use super::Host;
use super::callbacks::Callbacks;
use super::report::CallbackFailed;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Report;
use crate::event::rate::SamplingRate;
use crate::event::sampling::StackSampling;
use crate::script::load::library::{Library, Script};
use crate::script::load::monitor::{Monitor, ScriptSource};
use crate::script::option::OptionSpec;
use crate::script::vm::guard::Phase;
use crate::source::counts::CountDelta;
use crate::source::side_record::SideKinds;

/// One monitor of several.
pub struct Job {
    /// Its number for the user.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its events, as roles.
    pub roles: Range<usize>,
    pub(in crate::script) callbacks: Rc<Callbacks>,
    /// Its tables, by number.
    pub(in crate::script) tables: Range<usize>,
    /// Its tables of counters, by number.
    pub(in crate::script) counters: Range<usize>,
    /// Errors while its reports were made.
    pub(in crate::script) report_errors: Cell<u64>,
    /// Counters of its reports whose values were scaled.
    pub(in crate::script) multiplexed: Cell<u64>,
}

/// How the monitor of a job begins.
pub struct JobOptions<'a> {
    /// The values of its options.
    pub table: &'a Table,
    /// `--perins`.
    pub perins: bool,
    /// `-F`, `-c`.
    pub rate: Option<SamplingRate>,
    /// `--call-graph`.
    pub stack: StackSampling,
    /// Long names of the options that were typed.
    pub given: &'a [String],
    /// The number of its first table: the file itself may make some.
    pub first_table: usize,
}

impl Host {
    /// Loads a monitor beside the running ones; opens nothing.
    ///
    /// # Errors
    /// The file does not load, or is not a monitor.
    pub fn load_beside(
        &self,
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

    /// Returns the number of tables so far.
    pub fn tables(&self) -> usize {
        self.aggregates.len()
    }

    /// Calls a loaded monitor's `init` and `filter`, and makes its handlers. Its events are opened
    /// afterwards. `available` are the records that its callbacks may ask for.
    ///
    /// # Errors
    /// An error of `init` or `filter`, a typed event that does not exist, an event without a
    /// handler, or a callback whose records are not available.
    pub(in crate::script) fn begin_job(
        &mut self,
        monitor: &Monitor,
        options: &JobOptions<'_>,
        available: Option<SideKinds>,
    ) -> anyhow::Result<Job> {
        let table = monitor.table.clone();
        let (first_role, first_table) = (self.roles().len(), options.first_table);
        let first_counters = self.dispatch.counter_tables_len()?;
        table.raw_set("opt", options.table)?;
        self.sums.perins.set(options.perins);
        self.seal(false);
        self.begin_sources_of(&monitor.name);
        self.state.borrow_mut().printers.set_rank(monitor.is_bundled());
        let before = self.set_sampling(options.rate, options.stack);
        let begun = self
            .call_init(&table, options.table)
            .and_then(|()| self.check_unused(options.table, &monitor.options, options.given));
        if let Some((rate, stack)) = before {
            self.set_sampling(rate, stack);
        }
        self.state.borrow_mut().printers.set_rank(false);
        self.seal(true);
        self.sums.perins.set(false);
        begun?;
        self.check_order()?;
        let callbacks = Rc::new(Callbacks::of(monitor)?);
        if let Some(callback) = available.and_then(|all| callbacks.side_kinds().beyond(all)) {
            bail!(
                "{} has {callback}, whose records a prompt does not request; run it as a command",
                monitor.name
            );
        }
        let sample: Option<Function> = table.get("sample")?;
        {
            let (roles, state) = (self.roles(), self.state.borrow());
            let per_thread = state.per_thread;
            self.dispatch.make_views(&roles, sample.as_ref(), &state.printers, per_thread)?;
        }
        self.further_callbacks.push(callbacks.clone());
        Ok(Job {
            number: 0,
            name: monitor.name.clone(),
            roles: first_role..self.roles().len(),
            callbacks,
            tables: first_table..self.aggregates.len(),
            counters: first_counters..self.dispatch.counter_tables_len()?,
            report_errors: Cell::default(),
            multiplexed: Cell::default(),
        })
    }

    /// Sets the sampling of events that do not set their own; returns the previous one.
    fn set_sampling(
        &self,
        rate: Option<SamplingRate>,
        stack: StackSampling,
    ) -> Option<(Option<SamplingRate>, StackSampling)> {
        let state = self.state.borrow();
        let declarer = state.declarer.as_ref()?;
        Some((declarer.rate.replace(rate), declarer.stack.replace(stack)))
    }

    /// Returns a job's report, and restarts what was drawn. `last` marks the report at its end.
    pub(in crate::script) fn job_report(
        &mut self,
        job: &Job,
        seconds: f64,
        counts: &[CountDelta],
        last: bool,
    ) -> Vec<Report> {
        let errors = self.dispatch.errors();
        let is_own = |count: &&CountDelta| job.roles.contains(&(count.role as usize));
        let counts: Vec<CountDelta> = counts.iter().filter(is_own).copied().collect();
        let scaled = counts.iter().filter(|count| count.scaled).count() as u64;
        job.multiplexed.set(job.multiplexed.get() + scaled);
        self.state.borrow_mut().set_counts(&counts);
        let deinit = job.callbacks.deinit.clone().filter(|_| last);
        let callback = deinit.or_else(|| job.callbacks.interval.clone());
        let wanted = self.wanted(callback, seconds);
        let drawn = match &wanted {
            Ok(wanted) => self.draw_in_time(|host| job.draw(host, &counts, wanted.as_deref())),
            Err(CallbackFailed) => None,
        };
        let (drawn, wanted) = match drawn {
            Some(drawn) => (drawn, wanted.unwrap_or_default()),
            None => (self.aggregates.draw_each_that_can(self.vm.lua(), job.tables.clone()), None),
        };
        let ids = match &wanted {
            Some(wanted) => self.aggregates.chosen(Some(wanted)),
            None => job.tables.clone().collect(),
        };
        self.measure(&ids);
        self.aggregates.restart_drawn(ids);
        job.report_errors.set(job.report_errors.get() + self.dispatch.errors() - errors);
        drawn
    }

    /// Ends the reports of an interval: frees what no table needs any more.
    pub(in crate::script) fn end_reports(&mut self) {
        self.context.with(crate::script::context::RunContext::note_missing_names);
        self.note_full_budget();
        if let Err(why) = self.aggregates.sweep() {
            self.failed(&why.to_string());
        }
    }

    /// Returns the coverage of a job: its own counts, and those of `all` that may concern every
    /// job, such as records that could not be decoded.
    pub(in crate::script) fn job_coverage(&self, job: &Job, all: &Coverage) -> Coverage {
        let own = self.aggregates.counts_of(job.tables.clone());
        let side = job.callbacks.failures_beside_reports();
        Coverage {
            events: own.events,
            filtered: self.dispatch.filtered(job.roles.clone()),
            unmatched: own.unmatched,
            unsafe_: own.unsafe_,
            exited: own.exited,
            // The strings and stacks of keys are shared.
            evicted: own.evicted + self.shared_evictions(),
            disordered: all.disordered + own.disordered,
            multiplexed: job.multiplexed.get(),
            clamped: own.clamped,
            truncated: if self.takes_stacks_in(&job.roles) { all.truncated } else { 0 },
            starts: own.starts,
            open: own.open,
            errors: self.dispatch.errors_of(job.roles.clone()) + side + job.report_errors.get(),
            ..*all
        }
    }

    /// Returns whether every handler and callback of a job is on.
    pub(in crate::script) fn is_job_whole(&self, job: &Job) -> bool {
        !self.dispatch.any_off(job.roles.clone()) && job.callbacks.are_on()
    }
}

impl Job {
    fn draw(
        &self,
        host: &Host,
        counts: &[CountDelta],
        wanted: Option<&[Value]>,
    ) -> mlua::Result<Vec<Report>> {
        if wanted.is_some() {
            return host.dispatch.draw(&host.aggregates, counts, wanted);
        }
        let mut reports = host.aggregates.draw_some(host.vm.lua(), self.tables.clone())?;
        let counters = self.counters.clone();
        reports.extend(host.dispatch.draw_counters_of(&host.aggregates, counters, counts)?);
        Ok(reports)
    }
}
