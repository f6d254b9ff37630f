//! Lines that are typed: each is compiled and run as a coroutine, which asks the session for what takes time.
//!
//! The order of calls: `begin_session`, then `enter` with a line, and `answer` as long as it asks. Between lines the session
//! carries events, as a run does; what a line has declared is made ready by `settle`.

use std::time::{Duration, Instant};

use mlua::thread::ThreadStatus;
use mlua::{Function, LightUserData, MultiValue, Table, Thread, Value};

use super::bundle::{Library, Script};
use super::evsel::{Declarer, Role};
use super::fault::{describe_text, file_name};
use super::guard::{Failure, Phase};
use super::host::{Host, Rules};
use super::meter::Spent;
use super::setting::Setting;
use crate::base::draw::Report;
use crate::base::nearest::{did_you_mean, nearest};
use crate::source::counts::Count;

/// What scripts of a prompt are called in messages.
pub const CHUNK: &str = "=prompt";

/// Errors of one handler that switch it off at a prompt, where somebody can give it another.
const ERRORS: u64 = 1;

/// How long `count` counts, if nobody says.
const USUAL_TIME: &str = "1s";

const PRELUDE: &str = include_str!("prelude/prompt.lua");

/// Its address marks what a line asks, among the values of any yield.
static MARK: u8 = 0;

/// The Lua side of a prompt.
pub(super) struct Prompt {
    table: Table,
    line: Option<Thread>,
}

/// Where a line got to.
pub enum Step {
    /// It is through, with these values.
    Done(Vec<Value>),
    /// It wants something and waits for [`Host::answer`].
    Asked(String, Vec<Value>),
    /// It failed.
    Failed(String),
}

/// What lines have changed since the last look.
#[derive(Debug, Default)]
pub struct Changes {
    /// Roles that are new: from this one on.
    pub first_new: usize,
    /// Roles to be opened anew.
    pub narrowed: Vec<u32>,
    /// A field that a new handler reads and its event does not have: what is new is not to be opened.
    pub misread: Option<anyhow::Error>,
}

impl Host {
    /// Makes the host ready for lines.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn begin_session(
        &mut self,
        setting: &Setting,
        rules: Rules,
        library: &Library,
    ) -> anyhow::Result<()> {
        self.rules = rules;
        self.limit_memory(setting.memory)?;
        self.limit_aggregates(setting.aggregate_memory);
        self.sums.by_thread.set(setting.per_thread);
        {
            let mut state = self.state.borrow_mut();
            state.cpus.clone_from(&setting.cpus);
            state.per_thread = setting.per_thread;
            let evsels = state.evsels.clone();
            evsels.borrow_mut().sealed = true;
            state.declarer = Some(Declarer::new(setting, evsels));
        }
        // Whoever types relates events sooner or later, and a run's order cannot be changed.
        self.ordered = self.rules.order.unwrap_or(true);
        self.dispatch.tolerate(ERRORS);
        let nobody = Script {
            name: "prompt".to_owned(),
            origin: super::bundle::Origin::Path("prompt.lua".into()),
            text: String::new(),
        };
        self.vm.search(library, &nobody);
        let native = self.vm.lua().create_table()?;
        let enough = self.enough.clone();
        // A recording is played to its end.
        native.set("usual_time", setting.trial.is_some().then_some(USUAL_TIME))?;
        let near = |_: &mlua::Lua, (name, names): (String, Vec<String>)| {
            Ok(did_you_mean(&nearest(&name, names.iter().map(String::as_str))))
        };
        native.set("near", self.vm.lua().create_function(near)?)?;
        let shared = self.shared.clone();
        let hidden = move |_: &mlua::Lua, role| Ok(shared.with(|context| context.hidden_of(role)));
        native.set("hidden_of", self.vm.lua().create_function(hidden)?)?;
        native.set(
            "enough",
            self.vm.lua().create_function(move |_, ()| {
                enough.set(true);
                Ok(())
            })?,
        )?;
        let mark = LightUserData((&raw const MARK).cast_mut().cast());
        let parts = (self.vm.env(), self.dispatch.exports(), native, mark);
        let table: Table = self.vm.trusted("prompt", PRELUDE, parts)?;
        self.prompt = Some(Prompt { table, line: None });
        self.watch_compiler()
    }

    /// Runs a line, whose number stands in messages.
    pub fn enter(&mut self, chunk: &str, text: &str, number: usize) -> Step {
        let Some(prompt) = &self.prompt else { return Step::Failed("no prompt".to_owned()) };
        if let Err(why) = self.free_tables(false) {
            return Step::Failed(why.to_string());
        }
        let begun = || -> mlua::Result<Result<Thread, String>> {
            let compile: Function = prompt.table.get("compile")?;
            let (made, why): (Option<Function>, Option<String>) =
                compile.call((text, chunk, number))?;
            let Some(made) = made else { return Ok(Err(why.unwrap_or_default())) };
            Ok(Ok(prompt.table.get::<Function>("start")?.call(made)?))
        };
        match begun() {
            Ok(Ok(line)) => {
                if let Some(prompt) = &mut self.prompt {
                    prompt.line = Some(line);
                }
                self.resume(MultiValue::new())
            }
            Ok(Err(why)) => Step::Failed(describe_text(&why).message),
            Err(why) => Step::Failed(why.to_string()),
        }
    }

    /// Goes on with the line that asked.
    pub fn answer(&mut self, answer: Result<Value, String>) -> Step {
        let values = match answer {
            Ok(value) => [Value::Boolean(true), value],
            Err(why) => match self.vm.lua().create_string(why) {
                Ok(why) => [Value::Boolean(false), Value::String(why)],
                Err(why) => return Step::Failed(why.to_string()),
            },
        };
        self.resume(values.into_iter().collect())
    }

    fn resume(&mut self, values: MultiValue) -> Step {
        let Some(line) = self.prompt.as_ref().and_then(|prompt| prompt.line.clone()) else {
            return Step::Failed("no line is running".to_owned());
        };
        self.seal(false);
        let resumed = self.guard.run(Phase::Line, || line.resume::<MultiValue>(values));
        self.seal(true);
        let waits = line.status() == ThreadStatus::Resumable;
        let mut values = match resumed {
            Ok(values) => values.into_iter(),
            Err(why) => return self.end_line(Step::Failed(failure(&why))),
        };
        let first = values.next();
        match first {
            Some(Value::LightUserData(mark))
                if waits && mark.0.cast_const() == (&raw const MARK).cast() =>
            {
                let what = values.next().and_then(|what| Some(what.as_string()?.to_string_lossy()));
                Step::Asked(what.unwrap_or_default(), values.collect())
            }
            _ if waits => self.end_line(Step::Failed(
                "a line cannot yield: there is nobody to resume it".to_owned(),
            )),
            Some(Value::Boolean(true)) => self.end_line(Step::Done(values.collect())),
            _ => {
                let why = values.next().and_then(|why| Some(why.as_string()?.to_string_lossy()));
                self.end_line(Step::Failed(describe_text(&why.unwrap_or_default()).to_string()))
            }
        }
    }

    fn end_line(&mut self, step: Step) -> Step {
        if let Some(prompt) = &mut self.prompt {
            prompt.line = None;
        }
        step
    }

    pub(super) fn seal(&self, sealed: bool) {
        self.state.borrow().evsels.borrow_mut().sealed = sealed;
    }

    /// Whether the line that ran last defined something, and whether other lines may need that.
    pub fn line_defined(&self) -> (bool, bool) {
        self.ask_prompt("touched", ()).unwrap_or_default()
    }

    /// The names of the globals that were assigned, in order, and whether an event has no handler of its own.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn definitions(&self) -> mlua::Result<(Vec<String>, bool)> {
        self.ask_prompt("definitions", ())
    }

    /// What a role's handling has cost.
    pub fn spent(&self, role: usize) -> Spent {
        self.meter.of(role)
    }

    /// Whether a role's handler was switched off because it failed.
    pub fn has_failed(&self, role: usize) -> bool {
        self.dispatch.is_off(role)
    }

    /// A value as text, where it is no table of results.
    pub fn text_of(&self, value: &Value) -> String {
        let text = self.guard.run(Phase::Line, || self.ask_prompt("text_of", value));
        text.unwrap_or_else(|why| failure(&why))
    }

    /// Whether a value is an event that was declared.
    pub fn is_evsel(&self, value: &Value) -> bool {
        self.ask_prompt("is_evsel", value).unwrap_or(false)
    }

    /// The names that may stand at a place: of all words with an empty `of`, else of what that global has.
    pub fn names(&self, of: &str) -> Vec<String> {
        self.ask_prompt("names", of).unwrap_or_default()
    }

    pub(super) fn ask_prompt<R: mlua::FromLuaMulti>(
        &self,
        function: &str,
        args: impl mlua::IntoLuaMulti,
    ) -> mlua::Result<R> {
        let Some(prompt) = &self.prompt else { return Err(mlua::Error::runtime("no prompt")) };
        prompt.table.get::<Function>(function)?.call(args)
    }

    /// What a value draws; None if it is no aggregate, no counters and no report.
    pub fn drawn(
        &mut self,
        value: &Value,
        counts: &[Count],
    ) -> anyhow::Result<Option<Vec<Report>>> {
        self.state.borrow_mut().set_counts(counts);
        if !self.dispatch.can_draw(&self.aggregates, value)? {
            return Ok(None);
        }
        let wanted = std::slice::from_ref(value);
        let draw = || self.dispatch.draw(&self.aggregates, counts, Some(wanted));
        let drawn = self.guard.run(Phase::Line, draw);
        drawn.map(Some).map_err(|why| anyhow::Error::msg(failure(&why)))
    }

    /// Begins a table anew.
    pub fn restart(&self, value: &Value) {
        self.aggregates.reset_after_interval(Some(std::slice::from_ref(value)));
    }

    /// Makes views and drivers of what lines have declared, narrowed and replaced since `known` roles were known.
    ///
    /// # Errors
    /// A handler is missing, or a filter is too long for Lua.
    pub fn settle(&mut self, known: usize) -> anyhow::Result<Changes> {
        self.free_tables(true)?;
        let roles = self.roles();
        self.shared.with(|context| {
            let new = roles[known.min(roles.len())..].iter().map(|role| role.event.clone());
            context.roles.extend(new);
        });
        let state = self.state.borrow();
        self.dispatch.make_views(&roles, None, &state.printers, state.per_thread)?;
        let (narrowed, replaced) = {
            let mut evsels = state.evsels.borrow_mut();
            (std::mem::take(&mut evsels.narrowed), std::mem::take(&mut evsels.replaced))
        };
        let look = state.knows_all_fields();
        let mut misread = if look { self.dispatch.check_fields(known, false).err() } else { None };
        for index in replaced {
            let roles_of = state.evsels.borrow().indexes_of(index);
            match self.dispatch.handler_of(index, look) {
                Ok(handler) => roles_of
                    .into_iter()
                    .try_for_each(|role| self.dispatch.renew(role, handler.clone(), &roles))?,
                // The one before goes on.
                Err(why) => misread = Some(why),
            }
        }
        let narrowed = narrowed.into_iter().filter(|role| (*role as usize) < known).collect();
        Ok(Changes { first_new: known, narrowed, misread })
    }

    /// Lets go of what handled the events of roles that were closed.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn forget(&mut self, roles: &[u32]) -> mlua::Result<()> {
        self.dispatch.forget(roles)
    }

    /// Frees tables that nothing holds any more; no Lua may be running, though a line may wait.
    fn free_tables(&self, in_line: bool) -> mlua::Result<()> {
        let of_jobs = |id| self.jobs.iter().any(|job| job.tables.contains(&id));
        self.aggregates.free_unheld(self.vm.lua(), in_line, of_jobs)
    }

    /// Puts a role's handler behind the predicate that it has now, and gives it another chance if it failed.
    ///
    /// # Errors
    /// The filter is too long for Lua.
    pub fn revive(&mut self, role: u32) -> anyhow::Result<()> {
        let roles = self.roles();
        self.dispatch.renew(role as usize, None, &roles)
    }

    /// Puts back what a role was before it was narrowed in vain.
    pub fn put_back(&self, role: u32, before: Role) {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        if let Some(role) = evsels.roles.get_mut(role as usize) {
            *role = before;
        }
    }

    /// The roles of an evsel, by the index that Lua has for it.
    pub fn roles_of(&self, evsel: usize) -> Vec<u32> {
        let indexes = self.state.borrow().evsels.borrow().indexes_of(evsel);
        indexes.map(|role| role as u32).collect()
    }

    /// Lets at most so many events be handled from now on.
    pub fn limit_events(&mut self, most: Option<u64>) {
        self.rules.max_events = most;
        self.counted = 0;
        if most.is_none()
            && let Err(why) = self.dispatch.limit(u64::MAX)
        {
            self.failed(&why.to_string());
        }
    }

    /// Why handlers asked to stop, if one did or there were enough events; handling goes on after this.
    pub fn take_stop(&mut self) -> Option<String> {
        let enough = self.enough.take();
        let stop = self.state.borrow_mut().stop.take();
        if stop.is_some() {
            self.dispatch.go_on();
        }
        stop.or(enough.then(String::new))
    }

    /// Whether `show` has seen enough, or handlers asked to stop, or there were as many events as wanted.
    pub fn has_enough(&self) -> bool {
        self.enough.get() || self.satisfied()
    }

    /// From now on, events are handled for so long at a time; the next batch looks.
    pub fn hurry(&mut self, time: Option<Duration>) {
        self.deadline = time.map(|time| Instant::now() + time);
    }

    /// Whether that time is over.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Forgets timers.
    pub fn forget_timers(&mut self) {
        self.state.borrow_mut().timers.clear();
    }

    /// Sends what lines print elsewhere.
    pub fn on_print(&self, print: super::vm::Print) {
        self.vm.on_print(print);
    }
}

fn failure(why: &Failure) -> String {
    match why {
        Failure::Stopped(stopped) => match &stopped.place {
            Some(place) => format!("{}: stopped by Ctrl-C", file_name(place)),
            None => "stopped by Ctrl-C".to_owned(),
        },
        Failure::Script(error) => error.to_string(),
    }
}
