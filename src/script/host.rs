//! The host of one script: loads it, calls its callbacks, carries batches to its handlers, gathers what it draws.
//!
//! The order of calls is the life of a monitor: `new`, `load`, `begin` (init and filter), `attach` (once the batch
//! exists), then batches and side-band records with `interval` in between, then `finish`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use mlua::{Function, Table};

use super::aggregate::{self, Aggregates};
use super::bundle::{Library, Script};
use super::call::{call, explained};
use super::callback::Strikes;
use super::callbacks::Callbacks;
use super::context::Nowhere;
use super::control::Period;
use super::dispatch::Dispatch;
use super::evsel::{Declarer, Role};
use super::fault::file_name;
use super::guard::{Guard, Phase};
use super::job::Job;
use super::leaf::Shared;
use super::meter::Meter;
use super::monitor::{Monitor, Source};
use super::narrow::Narrowing as _;
use super::option::OptionSpec;
use super::prompt::Prompt;
use super::sampler::Sampler;
pub use super::setting::Setting;
use super::state::State;
use super::vm::Vm;
use super::words_of_run;
use crate::base::coverage::Coverage;
use crate::base::draw::Level;
use crate::event::filter::split::Rest;
use crate::source::batch::Addresses;
use crate::sys::cpus::online_cpus;

/// Handler errors of one event after which its handler is switched off.
pub const ERRORS_PER_HANDLER: u64 = 10;

/// Bytes that a script may hold while it is loaded; a run sets its own limit.
const MEMORY: usize = 256 << 20;

/// A script and everything it runs in.
pub struct Host {
    pub(super) vm: Vm,
    pub(super) guard: Guard,
    pub(super) aggregates: Aggregates,
    pub(super) sums: aggregate::Shared,
    pub(super) state: Rc<RefCell<State>>,
    pub(super) shared: Shared,
    pub(super) dispatch: Dispatch,
    pub(super) monitor: Option<Monitor>,
    pub(super) callbacks: Callbacks,
    /// How often what draws columns has failed.
    pub(super) drawing: Strikes,
    pub(super) coverage: Coverage,
    pub(super) rules: Rules,
    pub(super) ordered: bool,
    pub(super) finishing: bool,
    /// Whether it was said that the aggregates have no more memory.
    pub(super) said_full: bool,
    /// Events that `-N` counts.
    pub(super) counted: u64,
    /// The lines of a session; none in a run.
    pub(super) prompt: Option<Prompt>,
    /// Whether a line has seen the events that it wanted.
    pub(super) enough: Rc<Cell<bool>>,
    /// Monitors that a session has started.
    pub(super) jobs: Vec<Job>,
    /// When a session has other things to do than to handle what the rings still hold.
    pub(super) deadline: Option<Instant>,
    /// What handlers cost, in a session.
    pub(super) meter: Meter,
    /// What LuaJIT makes of the script, where that is watched.
    pub(super) uncompiled: Option<Function>,
    pub(super) sampler: Option<Sampler>,
}

/// How events are to be handled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// In order of time across events and CPUs, or as they come; None leaves it to the script.
    pub order: Option<bool>,
    /// End after so many.
    pub max_events: Option<u64>,
}

impl Host {
    /// A Lua machine with every word of the runtime, and no script yet.
    pub fn new(allow_unsafe: bool) -> anyhow::Result<Self> {
        let vm = Vm::new(super::vm::Limits { memory: MEMORY })?;
        vm.unsafe_mode(allow_unsafe)?;
        let state = Rc::new(RefCell::new(State::default()));
        let shared = Shared::idle();
        let highest = online_cpus().last().copied().unwrap_or(0);
        let sums = aggregate::Shared { cpus: highest + 1, ..aggregate::Shared::default() };
        let words = vm.lua().create_table()?;
        shared.share(&sums);
        let aggregates = Aggregates::register(vm.lua(), &words, sums.clone())?;
        let dispatch = words_of_run::register(&vm, &state, &shared, &aggregates, &words)?;
        vm.collect_from_now_on()?;
        let mut guard = Guard::new(&vm)?;
        guard.recover_with(dispatch.recovery()?);
        Ok(Host {
            vm,
            guard,
            aggregates,
            sums,
            state,
            shared,
            dispatch,
            monitor: None,
            callbacks: Callbacks::default(),
            drawing: Strikes::default(),
            coverage: Coverage::default(),
            rules: Rules::default(),
            ordered: false,
            finishing: false,
            said_full: false,
            counted: 0,
            prompt: None,
            enough: Rc::default(),
            jobs: Vec::new(),
            deadline: None,
            meter: Meter::default(),
            uncompiled: None,
            sampler: None,
        })
    }

    /// Runs a file and takes the monitor that it returns; nothing is opened.
    pub fn load(
        &mut self,
        script: &Script,
        library: &Library,
        taken: &[OptionSpec],
    ) -> anyhow::Result<&Monitor> {
        self.vm.search(library, script);
        let (vm, guard) = (&self.vm, &self.guard);
        let chunk = script.chunk_name();
        let file = Some(file_name(chunk.trim_start_matches('@')));
        let value = guard
            .run(Phase::Load, || vm.script(&chunk, &script.text))
            .map_err(|why| explained(why, file))?;
        let origin = script.shown_origin();
        let source = Source { name: &script.name, origin: &origin, text: &script.text };
        let monitor = Monitor::load(source, &value, taken)?;
        Ok(self.monitor.insert(monitor))
    }

    /// Leaves Lua, and what its functions hold, to the end of the process: to take it apart would cost half of what it cost to
    /// build it up.
    pub fn leave(self) {
        self.shared.with(|context| context.out = Box::new(Nowhere));
        std::mem::forget(self.vm.lua().clone());
    }

    /// The context that output and tasks live in.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The guard, which knows of Ctrl-C.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Calls `init` and `filter` with the options: after this, the roles are known.
    pub fn begin(
        &mut self,
        options: &Table,
        setting: &Setting,
        rules: Rules,
    ) -> anyhow::Result<()> {
        let monitor = self.monitor.as_ref().context("no monitor is loaded")?;
        let (table, is_bundled) = (monitor.table.clone(), monitor.is_bundled());
        let specs = monitor.options.clone();
        self.state.borrow_mut().printers.come_with(is_bundled);
        self.rules = rules;
        self.limit_memory(setting.memory)?;
        self.limit_aggregates(setting.aggregate_memory);
        self.sums.perins.set(setting.perins);
        self.sums.verbose.set(setting.verbose);
        self.sums.by_thread.set(setting.per_thread);
        self.sums.totals.set(setting.totals);
        {
            let mut state = self.state.borrow_mut();
            state.cpus.clone_from(&setting.cpus);
            state.per_thread = setting.per_thread;
            state.declarer = Some(Declarer::new(setting, state.evsels.clone()));
        }
        table.raw_set("opt", options)?;
        for name in ["init", "filter"] {
            if let Some(callback) = table.get::<Option<Function>>(name)? {
                call::<()>(&self.guard, Phase::Load, &callback, options)?;
            }
        }
        self.check_unused(options, &specs)?;
        self.callbacks = self.monitor.as_ref().map(Callbacks::of).transpose()?.unwrap_or_default();
        self.state.borrow().evsels.borrow_mut().sealed = true;
        ensure!(!self.roles().is_empty(), "init declares no event: call evsel in it");
        let events: Vec<_> = self.roles().iter().map(|r| r.event.clone()).collect();
        self.want_flames(setting)?;
        let related = events.len() > 1 || self.has_state();
        let wish = self.monitor.as_ref().and_then(|m| m.order).unwrap_or(related);
        // What an address means depends on the mappings and execs before it, which other rings may hold. Whether a function was
        // called by a watched task is told here, so that its fork has to come before its calls.
        let told_apart = setting.per_thread
            && (events.iter().any(|e| e.function().is_some()) || self.callbacks.of_watched_tasks());
        self.ordered = self.rules.order.unwrap_or(wish || self.takes_stacks() || told_apart);
        self.check_order()?;
        self.shared.with(|context| context.roles = events);
        let sample: Option<Function> = table.get("sample")?;
        let (roles, state) = (self.roles(), self.state.borrow());
        self.dispatch.make_views(&roles, sample.as_ref(), &state.printers, setting.per_thread)?;
        // The bundled ones are checked against their kernel's types when they are tested, and it takes a millisecond or more.
        if setting.catalog.is_whole() { self.dispatch.check_fields(0, is_bundled) } else { Ok(()) }
    }

    /// The roles that the script declared.
    pub fn roles(&self) -> Vec<Role> {
        self.state.borrow().evsels.borrow().roles.clone()
    }

    /// Whether records of mapped files are wanted: by the script, or to make sense of stacks.
    pub fn wants_mmap(&self) -> bool {
        self.callbacks.on_mmap.is_some() || self.takes_stacks()
    }

    /// Whether any event has its call chain taken, or its functions named.
    pub fn takes_stacks(&self) -> bool {
        let state = self.state.borrow();
        let named = |role: &Role| role.sampling.stack.is_some() || role.sampling.functions;
        state.evsels.borrow().roles.iter().any(named)
    }

    /// Takes over what the kernel refused to filter: a condition, or all of a role's filter. It is part of the role's
    /// predicate from here on. To be called before `attach`.
    ///
    /// # Errors
    /// A condition that only the kernel could tell.
    pub fn filter_here(&mut self, role: u32, refused: Option<Rest>) -> anyhow::Result<()> {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        evsels.roles.get_mut(role as usize).map_or(Ok(()), |role| role.take_over(refused))
    }

    /// Puts every handler on its driver, over the arrays of the batch.
    pub fn attach(&mut self, addresses: Addresses) -> anyhow::Result<()> {
        self.dispatch.attach(addresses, &self.roles())
    }

    /// Roles to turn on or off, asked for since the last call.
    pub fn take_switches(&mut self) -> BTreeMap<u32, bool> {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        std::mem::take(&mut evsels.switches)
    }

    /// Whether events come in order of time.
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// The machine, for whoever makes the options' table.
    pub fn lua(&self) -> &mlua::Lua {
        self.vm.lua()
    }

    /// From here on only what the rings still hold is handled: the Ctrl-C that ended the run does not cut that short.
    pub fn finishing(&mut self) {
        self.finishing = true;
    }

    /// Whether somebody has asked to end.
    pub fn interrupted(&self) -> bool {
        self.guard.interrupted()
    }

    /// Whether the run is to end.
    pub fn ended(&self) -> bool {
        self.guard.interrupted() || self.satisfied()
    }

    /// Whether no further event is wanted: `stop` was called, or `-N` is reached.
    pub(super) fn satisfied(&self) -> bool {
        self.state.borrow().stop.is_some()
            || self.rules.max_events.is_some_and(|max| self.counted >= max)
    }

    /// Failures of the script so far.
    pub fn errors(&self) -> u64 {
        self.dispatch.errors()
    }

    /// What was seen and missed so far. `lost` is the kernel's own count where there is one: it also knows of
    /// losses at the end, which no record tells.
    pub fn coverage(&self, lost: Option<u64>) -> Coverage {
        let open = self.aggregates.counts();
        let filtered = self.dispatch.filtered();
        Coverage {
            events: self.coverage.events.saturating_sub(filtered),
            filtered,
            lost: lost.unwrap_or(self.coverage.lost),
            unmatched: open.unmatched,
            unsafe_: open.unsafe_,
            exited: open.exited,
            evicted: open.evicted + self.forgotten(),
            disordered: open.disordered,
            undefined: self.state.borrow().undefined.get() as u64,
            clamped: open.clamped,
            starts: open.starts,
            open: open.open,
            errors: self.dispatch.errors(),
            ..self.coverage
        }
    }

    /// Starts of relations that found no end, where the ends may be of other tasks.
    pub fn starts_without_any_end(&self) -> u64 {
        self.aggregates.starts_without_any_end()
    }

    /// Sets the run's present, which timers, notes and alerts go by. The stacks that are printed until it is set again are one
    /// drawing.
    pub fn set_now(&mut self, now: f64) {
        self.shared.with(|context| {
            context.now = now;
            if context.programs.is_some() {
                context.naming.borrow_mut().begin();
            }
        });
    }

    /// When the next timer of `every` is due.
    pub fn next_timer(&self) -> Option<f64> {
        self.state.borrow().next_timer()
    }

    /// Leaves out the turns of timers that were missed up to `now`, but for the last.
    pub fn skip_missed_timers(&mut self, now: f64) {
        self.state.borrow_mut().skip_missed(now);
    }

    /// Calls the timers that are due. One that returns a period has it from this turn on.
    pub fn fire_timers(&mut self, now: f64) {
        let due = self.state.borrow_mut().due(now);
        for (callback, time) in due {
            let period = self.call_back::<Option<Period>>(&callback, Phase::Handler, time);
            if let Some(period) = period.flatten() {
                self.state.borrow_mut().set_period(&callback, time, period.ns);
            }
        }
    }

    /// Whether its handlers and callbacks for tasks were switched off, and it counts nothing. A
    /// timer alone has no news.
    pub(super) fn is_idle(&self) -> bool {
        let counts = || self.state.borrow().evsels.borrow().roles.iter().any(|r| r.sampling.count);
        self.prompt.is_none() && self.dispatch.spent() && !self.callbacks.see_tasks() && !counts()
    }

    /// Ends a run that would go on without seeing anything.
    pub(super) fn end_idle(&mut self) {
        if self.state.borrow().stop.is_some() {
            return;
        }
        self.state.borrow_mut().stop = Some(String::new());
        let why = "every handler is switched off, so the run ends: nothing would reach the script \
                   any more; mend the errors above";
        self.shared.with(|context| context.note(Level::Error, why));
    }

    /// Shows and counts a failure that is not of one event.
    pub(super) fn failed(&mut self, why: &str) {
        self.dispatch.count_error();
        self.shared.with(|context| context.note(Level::Error, why));
    }
}
