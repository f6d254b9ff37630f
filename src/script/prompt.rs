//! Typed lines: each is compiled and run as a coroutine, which yields a request to the session for
//! anything that takes time.
//!
//! The order of calls: `begin_session`, then `enter` with a line, and `answer` for each request.
//! Between lines the session handles events, as a run does; `settle` prepares what a line has
//! declared.

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
use crate::source::counts::CountDelta;

mod limits;

/// Name of a prompt's scripts in messages.
pub const CHUNK: &str = "=prompt";

/// Number of errors that switch a handler off at a prompt, where the user can replace it.
const ERRORS: u64 = 1;

/// Default duration of `count`.
const USUAL_TIME: &str = "1s";

const PRELUDE: &str = include_str!("prelude/prompt.lua");

/// Its address marks a line's requests, among the values of any yield.
static MARK: u8 = 0;

/// Lua side of a prompt.
pub(super) struct Prompt {
    table: Table,
    line: Option<Thread>,
}

/// State of a line after it ran.
pub enum LineStep {
    /// It is finished, with these values.
    Done(Vec<Value>),
    /// It requests something and waits for [`Host::answer`].
    Asked(String, Vec<Value>),
    /// It failed.
    Failed(String),
}

/// Changes by lines since the last call.
#[derive(Debug, Default)]
pub struct Changes {
    /// First new role.
    pub first_new: usize,
    /// Roles to be reopened.
    pub narrowed: Vec<u32>,
    /// A field that a new handler reads and its event does not have: the new events must not be
    /// opened.
    pub misread: Option<anyhow::Error>,
}

impl Host {
    /// Prepares the host for lines.
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
        // Lines usually relate events sooner or later, and the order of a run cannot be changed.
        self.ordered = self.rules.order.unwrap_or(true);
        self.dispatch.tolerate(ERRORS);
        let prompt = Script {
            name: "prompt".to_owned(),
            origin: super::bundle::ScriptOrigin::Path("prompt.lua".into()),
            text: String::new(),
        };
        self.vm.search(library, &prompt);
        let native = self.vm.lua().create_table()?;
        let enough = self.enough.clone();
        // A recording has no default duration: it is replayed to its end.
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

    /// Runs a line; messages show its number.
    pub fn enter(&mut self, chunk: &str, text: &str, number: usize) -> LineStep {
        let Some(prompt) = &self.prompt else { return LineStep::Failed("no prompt".to_owned()) };
        if let Err(why) = self.free_tables(false) {
            return LineStep::Failed(why.to_string());
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
            Ok(Err(why)) => LineStep::Failed(describe_text(&why).message),
            Err(why) => LineStep::Failed(why.to_string()),
        }
    }

    /// Resumes the line that made a request.
    pub fn answer(&mut self, answer: Result<Value, String>) -> LineStep {
        let values = match answer {
            Ok(value) => [Value::Boolean(true), value],
            Err(why) => match self.vm.lua().create_string(why) {
                Ok(why) => [Value::Boolean(false), Value::String(why)],
                Err(why) => return LineStep::Failed(why.to_string()),
            },
        };
        self.resume(values.into_iter().collect())
    }

    fn resume(&mut self, values: MultiValue) -> LineStep {
        let Some(line) = self.prompt.as_ref().and_then(|prompt| prompt.line.clone()) else {
            return LineStep::Failed("no line is running".to_owned());
        };
        self.seal(false);
        let resumed = self.guard.run(Phase::Line, || line.resume::<MultiValue>(values));
        self.seal(true);
        let waits = line.status() == ThreadStatus::Resumable;
        let mut values = match resumed {
            Ok(values) => values.into_iter(),
            Err(why) => return self.end_line(LineStep::Failed(failure(&why))),
        };
        let first = values.next();
        match first {
            Some(Value::LightUserData(mark))
                if waits && mark.0.cast_const() == (&raw const MARK).cast() =>
            {
                let what = values.next().and_then(|what| Some(what.as_string()?.to_string_lossy()));
                LineStep::Asked(what.unwrap_or_default(), values.collect())
            }
            _ if waits => self.end_line(LineStep::Failed(
                "a line of the prompt cannot yield: nothing resumes it".to_owned(),
            )),
            Some(Value::Boolean(true)) => self.end_line(LineStep::Done(values.collect())),
            _ => {
                let why = values.next().and_then(|why| Some(why.as_string()?.to_string_lossy()));
                self.end_line(LineStep::Failed(describe_text(&why.unwrap_or_default()).to_string()))
            }
        }
    }

    fn end_line(&mut self, step: LineStep) -> LineStep {
        if let Some(prompt) = &mut self.prompt {
            prompt.line = None;
        }
        step
    }

    pub(super) fn seal(&self, sealed: bool) {
        self.state.borrow().evsels.borrow_mut().sealed = sealed;
    }

    /// Returns whether the last line defined something, and whether other lines may need it.
    pub fn line_defined(&self) -> (bool, bool) {
        self.ask_prompt("touched", ()).unwrap_or_default()
    }

    /// Returns the names of the globals that were assigned, in order, and whether an event has no
    /// handler of its own.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn definitions(&self) -> mlua::Result<(Vec<String>, bool)> {
        self.ask_prompt("definitions", ())
    }

    /// Returns the cost of a role's handler.
    pub fn spent(&self, role: usize) -> Spent {
        self.meter.of(role)
    }

    /// Returns whether a role's handler was switched off because it failed.
    pub fn has_failed(&self, role: usize) -> bool {
        self.dispatch.is_off(role)
    }

    /// Returns a value as text, if it is not a table of results.
    pub fn text_of(&self, value: &Value) -> String {
        let text = self.guard.run(Phase::Line, || self.ask_prompt("text_of", value));
        text.unwrap_or_else(|why| failure(&why))
    }

    /// Returns whether a value is an event that was declared.
    pub fn is_evsel(&self, value: &Value) -> bool {
        self.ask_prompt("is_evsel", value).unwrap_or(false)
    }

    /// Returns the names that may be completed: all globals if `of` is empty, else the fields of
    /// that global.
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

    /// Returns what a value draws; `None` if it is not an aggregate, counters or a report.
    ///
    /// # Errors
    /// Drawing failed or was stopped.
    pub fn drawn(
        &mut self,
        value: &Value,
        counts: &[CountDelta],
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

    /// Restarts a table.
    pub fn restart(&self, value: &Value) {
        self.aggregates.reset_after_interval(Some(std::slice::from_ref(value)));
    }

    /// Creates views and drivers for what lines have declared, narrowed and replaced since there
    /// were `known` roles.
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
                // The previous handler stays.
                Err(why) => misread = Some(why),
            }
        }
        let narrowed = narrowed.into_iter().filter(|role| (*role as usize) < known).collect();
        Ok(Changes { first_new: known, narrowed, misread })
    }

    /// Drops the handlers of roles that were closed.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn forget(&mut self, roles: &[u32]) -> mlua::Result<()> {
        self.dispatch.forget(roles)
    }

    /// Frees unreferenced tables. No Lua may be running, but a line may be waiting.
    fn free_tables(&self, in_line: bool) -> mlua::Result<()> {
        let of_jobs = |id| self.jobs.iter().any(|job| job.tables.contains(&id));
        self.aggregates.free_unheld(self.vm.lua(), in_line, of_jobs)
    }

    /// Attaches a role's handler again, behind its current predicate, and switches it on if it had
    /// failed.
    ///
    /// # Errors
    /// The filter is too long for Lua.
    pub fn revive(&mut self, role: u32) -> anyhow::Result<()> {
        let roles = self.roles();
        self.dispatch.renew(role as usize, None, &roles)
    }

    /// Restores a role after narrowing it failed.
    pub fn put_back(&self, role: u32, before: Role) {
        let state = self.state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        if let Some(role) = evsels.roles.get_mut(role as usize) {
            *role = before;
        }
    }

    /// Returns the roles of an evsel, by its index in Lua.
    pub fn roles_of(&self, evsel: usize) -> Vec<u32> {
        let indexes = self.state.borrow().evsels.borrow().indexes_of(evsel);
        indexes.map(|role| role as u32).collect()
    }

    /// Removes all timers.
    pub fn forget_timers(&mut self) {
        self.state.borrow_mut().timers.clear();
    }

    /// Redirects the output of `print`.
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
