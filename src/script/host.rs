//! The host of one script: loads it, calls its callbacks, passes batches to its handlers, collects
//! its reports.
//!
//! The order of calls is the life cycle of a monitor: `new`, `load`, `begin` (init and filter),
//! `attach` (once the batch exists), then batches and side-band records with `interval` in between,
//! then `finish`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use mlua::{Function, Table};

use super::aggregate::{self, Aggregates};
use super::bundle::{Library, Script};
use super::call::{call, explained};
use super::callback::FailureCount;
use super::callbacks::Callbacks;
use super::context::NoOutput;
use super::dispatch::Dispatch;
use super::evsel::{Declarer, Role};
use super::fault::file_name;
use super::guard::{Guard, Phase};
use super::job::Job;
use super::leaf::SharedContext;
use super::meter::Meter;
use super::monitor::{Monitor, ScriptSource};
use super::narrow::Narrowing as _;
use super::option::OptionSpec;
use super::prompt::Prompt;
use super::register;
use super::sampler::Sampler;
pub use super::setting::Setting;
use super::state::ScriptState;
use super::vm::Vm;
use crate::base::coverage::Coverage;
use crate::base::draw::Level;
use crate::event::filter::split::UserCondition;
use crate::source::batch::Addresses;
use crate::sys::cpus::online_cpus;

/// Number of handler errors of one event that switch the handler off.
pub const ERRORS_PER_HANDLER: u64 = 10;

/// Memory limit in bytes while a script is loaded; a run sets its own limit.
const MEMORY: usize = 256 << 20;

/// A script and everything that it runs in.
pub struct Host {
    pub(super) vm: Vm,
    pub(super) guard: Guard,
    pub(super) aggregates: Aggregates,
    pub(super) sums: aggregate::AggregateSettings,
    pub(super) state: Rc<RefCell<ScriptState>>,
    pub(super) shared: SharedContext,
    pub(super) dispatch: Dispatch,
    pub(super) monitor: Option<Monitor>,
    pub(super) callbacks: Callbacks,
    /// Failures of the functions that draw columns.
    pub(super) drawing: FailureCount,
    pub(super) coverage: Coverage,
    pub(super) rules: Rules,
    pub(super) ordered: bool,
    pub(super) finishing: bool,
    /// Whether it was reported that the aggregates are out of memory.
    pub(super) reported_full: bool,
    /// Number of events for `-N`.
    pub(super) counted: u64,
    /// The prompt of a session; none in a run.
    pub(super) prompt: Option<Prompt>,
    /// Whether a line has seen the events that it wanted.
    pub(super) enough: Rc<Cell<bool>>,
    /// Monitors that a session has started.
    pub(super) jobs: Vec<Job>,
    /// When a session stops handling what the rings still hold.
    pub(super) deadline: Option<Instant>,
    /// Cost of handlers, in a session.
    pub(super) meter: Meter,
    /// Reports LuaJIT's compilation of the script, if that is watched.
    pub(super) uncompiled: Option<Function>,
    pub(super) sampler: Option<Sampler>,
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
        let vm = Vm::new(super::vm::Limits { memory: MEMORY })?;
        vm.unsafe_mode(allow_unsafe)?;
        let state = Rc::new(RefCell::new(ScriptState::default()));
        let shared = SharedContext::idle();
        let highest = online_cpus().last().copied().unwrap_or(0);
        let sums = aggregate::AggregateSettings {
            cpus: highest + 1,
            ..aggregate::AggregateSettings::default()
        };
        let words = vm.lua().create_table()?;
        shared.share(&sums);
        let aggregates = Aggregates::register(vm.lua(), &words, sums.clone())?;
        let dispatch = register::register(&vm, &state, &shared, &aggregates, &words)?;
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
            drawing: FailureCount::default(),
            coverage: Coverage::default(),
            rules: Rules::default(),
            ordered: false,
            finishing: false,
            reported_full: false,
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
        self.shared.with(|context| context.out = Box::new(NoOutput));
        std::mem::forget(self.vm.lua().clone());
    }

    /// Returns the context, which holds output and tasks.
    pub fn shared(&self) -> &SharedContext {
        &self.shared
    }

    /// Returns the guard, which knows of Ctrl-C.
    pub fn guard(&self) -> &Guard {
        &self.guard
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
        let ordered = self.monitor.as_ref().and_then(|m| m.order).unwrap_or(related);
        // The meaning of an address depends on the mappings and execs before it, which may be in
        // other rings. Calls by watched tasks are filtered in user space, so that a task's fork has
        // to come before its calls.
        let filters_calls = setting.per_thread
            && (events.iter().any(|e| e.kind().is_probe()) || self.callbacks.of_watched_tasks());
        self.ordered = self.rules.order.unwrap_or(ordered || self.takes_stacks() || filters_calls);
        self.check_order()?;
        self.shared.with(|context| context.roles = events);
        let sample: Option<Function> = table.get("sample")?;
        let (roles, state) = (self.roles(), self.state.borrow());
        self.dispatch.make_views(&roles, sample.as_ref(), &state.printers, setting.per_thread)?;
        // Bundled monitors are skipped: tests check them against their kernel's types, and a check
        // takes a millisecond or more.
        if setting.catalog.is_whole() { self.dispatch.check_fields(0, is_bundled) } else { Ok(()) }
    }

    /// Returns the roles that the script declared.
    pub fn roles(&self) -> Vec<Role> {
        self.state.borrow().evsels.borrow().roles.clone()
    }

    /// Returns whether mmap records are wanted: by the script, or to resolve stacks.
    pub fn wants_mmap(&self) -> bool {
        self.callbacks.on_mmap.is_some() || self.takes_stacks()
    }

    /// Returns whether any event takes its call chain or names functions.
    pub fn takes_stacks(&self) -> bool {
        let state = self.state.borrow();
        let named = |role: &Role| role.sampling.stack.is_some() || role.sampling.functions;
        state.evsels.borrow().roles.iter().any(named)
    }

    /// Filters in user space what the kernel refused to filter: a condition, or the whole filter of
    /// a role. It becomes part of the role's predicate. Must be called before `attach`.
    ///
    /// # Errors
    /// A condition that only the kernel can evaluate.
    pub fn filter_here(&mut self, role: u32, refused: Option<UserCondition>) -> anyhow::Result<()> {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        evsels.roles.get_mut(role as usize).map_or(Ok(()), |role| role.take_over(refused))
    }

    /// Attaches every handler to its driver, over the arrays of the batch.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn attach(&mut self, addresses: Addresses) -> anyhow::Result<()> {
        self.dispatch.attach(addresses, &self.roles())
    }

    /// Returns the roles to switch on or off, as requested since the last call.
    pub fn take_switches(&mut self) -> BTreeMap<u32, bool> {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        std::mem::take(&mut evsels.switches)
    }

    /// Returns whether events come in order of time.
    pub fn ordered(&self) -> bool {
        self.ordered
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

    /// Returns whether the run is to end.
    pub fn ended(&self) -> bool {
        self.guard.interrupted() || self.satisfied()
    }

    /// Returns whether no further event is wanted: `stop` was called, or `-N` is reached.
    pub(super) fn satisfied(&self) -> bool {
        self.state.borrow().stop.is_some()
            || self.rules.max_events.is_some_and(|max| self.counted >= max)
    }

    /// Returns the number of the script's failures so far.
    pub fn errors(&self) -> u64 {
        self.dispatch.errors()
    }

    /// Returns what was seen and missed so far. `lost` is the kernel's own count, if there is one:
    /// it includes losses at the end, which no record reports.
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

    /// Returns the number of starts of relations without any end, if the ends may be of other
    /// tasks.
    pub fn starts_without_any_end(&self) -> u64 {
        self.aggregates.starts_without_any_end()
    }

    /// Sets the current time of the run, for timers, notes and alerts. The stacks that are printed
    /// until the next call count as one drawing.
    pub fn set_now(&mut self, now: f64) {
        self.shared.with(|context| {
            context.now = now;
            if context.programs.is_some() {
                context.naming.borrow_mut().begin();
            }
        });
    }

    /// Returns whether the handlers and the callbacks for tasks are switched off, and nothing is
    /// counted. A timer alone gets no new data.
    pub(super) fn is_idle(&self) -> bool {
        let counts = || self.state.borrow().evsels.borrow().roles.iter().any(|r| r.sampling.count);
        self.prompt.is_none() && self.dispatch.spent() && !self.callbacks.see_tasks() && !counts()
    }

    /// Ends a run in which nothing would reach the script any more.
    pub(super) fn end_idle(&mut self) {
        if self.state.borrow().stop.is_some() {
            return;
        }
        self.state.borrow_mut().stop = Some(String::new());
        let why = "every handler is switched off, so the run ends; fix the errors above";
        self.shared.with(|context| context.note(Level::Error, why));
    }

    /// Prints and counts a failure that does not belong to one event.
    pub(super) fn failed(&mut self, why: &str) {
        self.dispatch.count_error();
        self.shared.with(|context| context.note(Level::Error, why));
    }
}
