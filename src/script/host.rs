//! The host of one script: loads it, calls its callbacks, passes batches to its handlers, collects
//! its reports.
//!
//! The order of calls is the life cycle of a monitor: `new`, `load`, `begin` (init and filter),
//! `attach` (once the batch exists), then batches and side-band records with `interval` in between,
//! then `finish`.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context as _, bail};
use mlua::{Function, Table};

use super::aggregate::{AggregateSettings, Aggregates};
use super::api;
use super::context::shared::SharedContext;
use super::context::sql::RunEvents;
use super::context::state::ScriptState;
use super::dispatch::Dispatch;
use super::evsel::role::Role;
use super::load::library::{Library, Script};
use super::load::monitor::{Monitor, ScriptSource};
use super::option::OptionSpec;
use super::vm::call::{call, explained};
use super::vm::callback::FailureCount;
use super::vm::guard::{Guard, Phase};
use super::vm::script_error::file_name;
use super::vm::{Limits, Print, Vm};
use crate::base::event::slot::Slot;
use crate::base::report::{
    coverage::Coverage, draw::Level, metric::MetricTable, run_stats::JitStats,
};
use crate::source::batch::Addresses;
use crate::sys::cpus::online_cpus;
use callbacks::Callbacks;
use compiler::CompilerWatch;
use memory::FullWarnings;
pub use setting::Setting;

mod callback;
pub(super) mod callbacks;
mod compiler;
mod counts;
mod coverage;
mod evsels;
mod flame;
mod history;
mod idle;
pub mod job;
mod memory;
mod pairs;
mod printers;
pub(in crate::script) mod report;
mod sample_parts;
mod setting;
mod side_band;
mod sink;
mod sources;
mod timers;

/// Memory limit in bytes while a script is loaded; a run sets its own limit.
const MEMORY: usize = 256 << 20;

/// A script and everything that it runs in.
pub struct Host {
    pub(super) vm: Vm,
    pub(super) guard: Guard,
    pub(super) aggregates: Aggregates,
    pub(super) sums: AggregateSettings,
    pub(super) state: Rc<RefCell<ScriptState>>,
    pub(super) context: SharedContext,
    pub(super) dispatch: Dispatch,
    monitor: Option<Monitor>,
    callbacks: Rc<Callbacks>,
    /// Callbacks of the monitors that run at a prompt.
    pub(super) further_callbacks: Vec<Rc<Callbacks>>,
    /// Failures of the functions that draw columns.
    drawing: FailureCount,
    coverage: Coverage,
    /// The lost records at which states were dropped last.
    lost_before: u64,
    pub(super) rules: Rules,
    pub(super) ordered: bool,
    /// Whether the run goes on although nothing would reach the script any more, as at a prompt.
    pub(super) may_idle: bool,
    finishing: bool,
    /// Warnings about full tables that were given.
    full_warnings: FullWarnings,
    /// Number of events for `-N`.
    pub(super) counted: u64,
    compiler: CompilerWatch,
    /// Measurements of the last report, with `--prometheus`.
    measured: Vec<MetricTable>,
    /// Slots of a batch while monitors derive events of it.
    slots: Vec<Slot>,
}

/// How events are handled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// In order of time across events and CPUs, or as they come; `None` leaves it to the script.
    pub order: Option<bool>,
    /// End of the run after this many events.
    pub max_events: Option<u64>,
}

impl Host {
    /// Creates a Lua VM with every function of the runtime, and no script.
    ///
    /// # Errors
    /// Lua is out of memory, the runtime's own Lua failed, or there is another guard.
    pub fn new(allow_unsafe: bool) -> anyhow::Result<Self> {
        let vm = Vm::new(Limits { memory: MEMORY })?;
        vm.unsafe_mode(allow_unsafe)?;
        let state = Rc::new(RefCell::new(ScriptState::default()));
        let context = SharedContext::idle();
        let highest = online_cpus().last().copied().unwrap_or(0);
        let sums = AggregateSettings { cpus: highest + 1, ..AggregateSettings::default() };
        context.share(&sums);
        sums.sql.read_from(Box::new(RunEvents(context.clone())));
        let globals = vm.lua().create_table()?;
        let aggregates = Aggregates::register(vm.lua(), &globals, sums.clone())?;
        let trusted = api::register(&vm, &state, &context, &aggregates, &globals)?;
        let dispatch = Dispatch::new(trusted, context.clone());
        vm.collect_from_now_on()?;
        let mut guard = Guard::new(&vm)?;
        guard.recover_with(dispatch.recovery()?);
        Ok(Host {
            vm,
            guard,
            aggregates,
            sums,
            state,
            context,
            dispatch,
            monitor: None,
            callbacks: Rc::default(),
            further_callbacks: Vec::new(),
            drawing: FailureCount::default(),
            coverage: Coverage::default(),
            lost_before: 0,
            rules: Rules::default(),
            ordered: false,
            may_idle: false,
            finishing: false,
            full_warnings: FullWarnings::default(),
            counted: 0,
            compiler: CompilerWatch::default(),
            measured: Vec::new(),
            slots: Vec::new(),
        })
    }

    /// Runs a file and stores the monitor that it returns; opens nothing.
    ///
    /// # Errors
    /// The script's error, the reason why it was stopped, or a file that does not return a valid
    /// monitor.
    pub fn load(
        &mut self,
        script: &Script,
        library: &Library,
        reserved: &[OptionSpec],
    ) -> anyhow::Result<&Monitor> {
        self.vm.search(library, script);
        let (vm, guard) = (&self.vm, &self.guard);
        let chunk = script.chunk_name();
        let file = Some(file_name(chunk.trim_start_matches('@')));
        let value = guard
            .run(Phase::Load, || vm.script(&chunk, &script.text))
            .map_err(|why| explained(why, file))?;
        let origin = script.shown_origin();
        let source = ScriptSource { name: &script.name, origin: &origin, text: &script.text };
        let monitor = Monitor::load(source, &value, reserved)?;
        Ok(self.monitor.insert(monitor))
    }

    /// Leaks Lua, and what its functions hold, until the process ends: tearing it down would take
    /// half as long as building it up.
    pub fn leave(self) {
        self.context.close_output();
        std::mem::forget(self.vm.lua().clone());
    }

    /// Returns the context, which holds output and tasks.
    pub fn context(&self) -> &SharedContext {
        &self.context
    }

    /// Calls `init` and `filter` with the options; afterwards the roles are known.
    ///
    /// # Errors
    /// An error of `init` or `filter`, a memory limit that is too low, no event, an event without a
    /// handler, a typed event that does not exist, a misspelt field, or declarations that
    /// contradict the setting.
    pub fn begin(
        &mut self,
        options: &Table,
        setting: &Setting,
        rules: Rules,
    ) -> anyhow::Result<()> {
        let monitor = self.monitor.as_ref().context("no monitor is loaded")?;
        let (table, is_bundled) = (monitor.table.clone(), monitor.is_bundled());
        let specs = monitor.options.clone();
        self.state.borrow_mut().printers.set_rank(is_bundled);
        self.configure(setting, rules)?;
        self.sums.perins.set(setting.perins);
        self.sums.verbose.set(setting.verbose);
        self.sums.totals.set(setting.totals);
        self.sums.measured.set(setting.metrics);
        table.raw_set("opt", options)?;
        self.begin_sources();
        self.call_init(&table, options)?;
        self.check_unused(options, &specs, &setting.given)?;
        let callbacks = self.monitor.as_ref().map(Callbacks::of).transpose()?;
        self.callbacks = Rc::new(callbacks.unwrap_or_default());
        self.seal(true);
        self.check_any_event(0)?;
        let events: Vec<_> = self.roles().iter().map(|r| r.event.clone()).collect();
        self.want_flames(setting)?;
        let related = events.len() > 1 || self.has_state();
        let declared = self.monitor.as_ref().and_then(|m| m.order);
        // The meaning of an address depends on the mappings and execs before it, which may be in
        // other rings. Calls by watched tasks are filtered in user space, so that a task's fork has
        // to come before its calls.
        let roles = self.roles();
        let is_filtered_here = |role: &Role| {
            let event = &role.event;
            event.kind().is_probe()
                || event.is_with_user_text(&role.sampling)
                || role.task.is_some()
        };
        let filters_calls =
            setting.some_tasks && (roles.iter().any(is_filtered_here) || self.calls_for_tasks());
        let ordered = declared.unwrap_or(related) || self.sources_need_order() || setting.timeline;
        self.context.with(|context| context.roles = events);
        self.aggregates.begin().map_err(anyhow::Error::msg)?;
        let sample: Option<Function> = table.get("sample")?;
        let (roles, state) = (self.roles(), self.state.borrow());
        self.dispatch.make_views(&roles, sample.as_ref(), &state.printers, setting.per_thread)?;
        // The record that names a task may be in another ring than its events.
        let ordered = ordered || self.takes_stacks() || filters_calls;
        self.ordered = match self.rules.order {
            Some(order) => order,
            None if ordered || state.evsels.borrow().reads_names() => true,
            None => {
                let (reads_names, prints) = self.dispatch.reads_names(self.vm.env())?;
                reads_names || prints && declared.is_none()
            }
        };
        self.check_order()?;
        // Bundled monitors are skipped: tests check them against their kernel's types, and a check
        // takes a millisecond or more.
        if setting.trial.is_some() {
            self.dispatch.request_fields(&mut state.evsels.borrow_mut())?;
        }
        if setting.catalog.is_whole() { self.dispatch.check_fields(0, is_bundled) } else { Ok(()) }
    }

    /// Applies the settings and rules of a run or a prompt.
    pub(super) fn configure(&mut self, setting: &Setting, rules: Rules) -> anyhow::Result<()> {
        self.rules = rules;
        self.limit_memory(setting.memory)?;
        self.limit_aggregates(setting.aggregate_memory);
        self.sums.by_thread.set(setting.per_thread);
        if setting.estimated {
            if !self.aggregates.is_empty() {
                bail!(
                    "--budget: the script declares a table before m.init is called, which would \
                     count each record once; declare it inside m.init, or omit --budget"
                );
            }
            self.sums.weight.vary();
        }
        let mut state = self.state.borrow_mut();
        state.cpus.clone_from(&setting.cpus);
        state.per_thread = setting.per_thread;
        state.some_tasks = setting.some_tasks;
        let evsels = state.evsels.clone();
        state.declarer = Some(setting.declarer(evsels, self.vm.loader().library()));
        Ok(())
    }

    /// Calls `init` and `filter` of a monitor.
    pub(super) fn call_init(&self, monitor: &Table, options: &Table) -> anyhow::Result<()> {
        for name in ["init", "filter"] {
            if let Some(callback) = monitor.get::<Option<Function>>(name)? {
                call::<()>(&self.guard, Phase::Load, &callback, options)?;
            }
        }
        Ok(())
    }

    /// Attaches every handler to its driver, over the arrays of the batch.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn attach(&mut self, addresses: Addresses) -> anyhow::Result<()> {
        self.dispatch.attach(addresses, &self.roles())
    }

    /// Returns whether a callback is called for watched tasks only.
    pub fn calls_for_tasks(&self) -> bool {
        let mut all = std::iter::once(&self.callbacks).chain(&self.further_callbacks);
        all.any(|callbacks| callbacks.of_watched_tasks())
    }

    /// Returns whether only some tasks are watched.
    pub fn watches_some_tasks(&self) -> bool {
        self.state.borrow().some_tasks
    }

    /// Returns whether events come in order of time.
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// Redirects the output of `print`.
    pub fn on_print(&self, print: Print) {
        self.vm.on_print(print);
    }

    /// Returns the Lua state, for callers that make the options' table.
    pub fn lua(&self) -> &mlua::Lua {
        self.vm.lua()
    }

    /// Enters the last stage, in which only what the rings still hold is handled: the Ctrl-C that
    /// ended the run does not cut it short.
    pub fn finishing(&mut self) {
        self.finishing = true;
    }

    /// Returns whether the user has interrupted the run.
    pub fn interrupted(&self) -> bool {
        self.guard.interrupted()
    }

    /// Returns whether every handler and callback of the monitor is on.
    pub fn is_whole(&self) -> bool {
        !self.dispatch.any_off(0..usize::MAX) && self.callbacks.are_on()
    }

    /// Returns whether the run is to end.
    pub fn ended(&self) -> bool {
        self.guard.interrupted() || self.satisfied()
    }

    /// Returns whether no further event is wanted: `stop` was called, or `-N` is reached.
    pub(super) fn satisfied(&self) -> bool {
        self.state.borrow().stop.is_some()
            || self.rules.max_events.is_some_and(|max| self.counted >= max)
    }

    /// Starts to record LuaJIT's attempts to compile.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn watch_compiler(&mut self) -> anyhow::Result<()> {
        self.compiler.record(&self.vm)
    }

    /// Starts to sample whether the script is compiled or interpreted. No other thread of the
    /// process may take the profiler's signal.
    ///
    /// # Errors
    /// The signal handler of the profiler cannot be changed.
    pub fn sample_interpreter(&mut self) -> anyhow::Result<()> {
        self.compiler.sample(&self.vm)
    }

    /// Returns the script lines that are not compiled, with the reason; nothing unless LuaJIT is
    /// watched.
    pub fn uncompiled(&self) -> Vec<String> {
        self.compiler.uncompiled()
    }

    /// Returns LuaJIT's counters as far as it is watched.
    pub fn compiler(&self) -> JitStats {
        self.compiler.stats()
    }

    /// Sets the current time of the run, for timers, notes and alerts. The stacks that are printed
    /// until the next call count as one drawing.
    pub fn set_now(&mut self, now: f64) {
        self.context.with(|context| {
            context.now = now;
            if context.programs.is_some() {
                context.naming.borrow_mut().begin();
            }
        });
    }

    /// Prints and counts a failure that does not belong to one event.
    pub(super) fn failed(&mut self, why: &str) {
        self.dispatch.count_error();
        self.context.note(Level::Error, why);
    }
}
