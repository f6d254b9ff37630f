//! The prompt of a session: a host in which typed lines run, and monitors beside each other.
//!
//! Each line is compiled and run as a coroutine, which yields a request to the session for anything
//! that takes time. The order of calls: `begin`, then `enter` with a line, and `answer` for each
//! request. Between lines the session handles events, as a run does; `prepare_changes` prepares
//! what a line has declared.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use mlua::thread::ThreadStatus;
use mlua::{Function, LightUserData, Lua, MultiValue, Table, Thread, Value};

use super::host::job::Job;
use super::host::{Host, Rules, Setting};
use super::load::library::{Library, Script, ScriptOrigin};
use super::vm::guard::{Failure, Phase};
use super::vm::script_error::{describe_text, file_name};
use super::vm::trusted::address;
use crate::base::matching::nearest::{did_you_mean, nearest};
use meter::Meter;

mod changes;
mod limits;
pub mod meter;
mod monitors;
mod sink;
mod values;

/// Name of a prompt's scripts in messages.
pub const CHUNK: &str = "=prompt";

/// Number of errors that switch a handler off at a prompt, where the user can replace it.
const ERRORS: u64 = 1;

/// Default duration of `count`.
const USUAL_TIME: &str = "1s";

const PRELUDE: &str = include_str!("prelude/prompt.lua");

/// Its address marks a line's requests, among the values of any yield.
static MARK: u8 = 0;

/// A host for typed lines.
pub struct Prompt {
    /// The host in which lines and monitors run.
    pub host: Host,
    /// Lua side of the prompt.
    table: Table,
    /// The line that waits for an answer.
    line: Option<Thread>,
    /// Whether a line has seen the events that it wanted.
    enough: Rc<Cell<bool>>,
    /// The running monitors.
    jobs: Vec<Job>,
    /// When the session stops handling what the rings still hold.
    deadline: Option<Instant>,
    /// Cost of handlers.
    meter: Meter,
}

/// State of a line after it ran.
pub enum LineStep {
    /// It is finished, with these values.
    Done(Vec<Value>),
    /// It requests something and waits for [`Prompt::answer`].
    Asked(String, Vec<Value>),
    /// It failed.
    Failed(String),
}

impl Prompt {
    /// Prepares a host for lines.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn begin(
        mut host: Host,
        setting: &Setting,
        rules: Rules,
        library: &Library,
    ) -> anyhow::Result<Prompt> {
        host.configure(setting, rules)?;
        host.seal(true);
        host.may_idle = true;
        // Lines usually relate events sooner or later, and the order of a run cannot be changed.
        host.ordered = rules.order.unwrap_or(true);
        host.dispatch.tolerate(ERRORS);
        let script = Script {
            name: "prompt".to_owned(),
            origin: ScriptOrigin::Path("prompt.lua".into()),
            text: String::new(),
        };
        host.vm.search(library, &script);
        let enough = Rc::<Cell<bool>>::default();
        let native = native(&host, setting, enough.clone())?;
        let parts = (host.vm.env(), host.dispatch.exports(), native, mark());
        let table: Table = host.vm.trusted("prompt", PRELUDE, parts)?;
        host.watch_compiler()?;
        Ok(Prompt {
            host,
            table,
            line: None,
            enough,
            jobs: Vec::new(),
            deadline: None,
            meter: Meter::default(),
        })
    }

    /// Runs a line; messages show its number.
    pub fn enter(&mut self, chunk: &str, text: &str, number: usize) -> LineStep {
        if let Err(why) = self.free_tables(false) {
            return LineStep::Failed(why.to_string());
        }
        let begun = || -> mlua::Result<Result<Thread, String>> {
            let compile: Function = self.table.get("compile")?;
            let (made, why): (Option<Function>, Option<String>) =
                compile.call((text, chunk, number))?;
            let Some(made) = made else { return Ok(Err(why.unwrap_or_default())) };
            Ok(Ok(self.table.get::<Function>("start")?.call(made)?))
        };
        match begun() {
            Ok(Ok(line)) => {
                self.line = Some(line);
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
            Err(why) => match self.host.vm.lua().create_string(why) {
                Ok(why) => [Value::Boolean(false), Value::String(why)],
                Err(why) => return LineStep::Failed(why.to_string()),
            },
        };
        self.resume(values.into_iter().collect())
    }

    fn resume(&mut self, values: MultiValue) -> LineStep {
        let Some(line) = self.line.clone() else {
            return LineStep::Failed("no line is running".to_owned());
        };
        self.host.seal(false);
        let resumed = self.host.guard.run(Phase::Line, || line.resume::<MultiValue>(values));
        self.host.seal(true);
        let waits = line.status() == ThreadStatus::Resumable;
        let mut values = match resumed {
            Ok(values) => values.into_iter(),
            Err(why) => return self.end_line(LineStep::Failed(failure(&why))),
        };
        let first = values.next();
        match first {
            Some(Value::LightUserData(first)) if waits && first.0 == mark().0 => {
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
        self.line = None;
        step
    }

    /// Calls a function of the prompt's Lua side.
    fn ask<R: mlua::FromLuaMulti>(
        &self,
        function: &str,
        args: impl mlua::IntoLuaMulti,
    ) -> mlua::Result<R> {
        self.table.get::<Function>(function)?.call(args)
    }

    /// Frees unreferenced tables. No Lua may be running, but a line may be waiting.
    fn free_tables(&self, in_line: bool) -> mlua::Result<()> {
        let of_jobs = |id| self.jobs.iter().any(|job| job.tables.contains(&id));
        self.host.aggregates.free_unheld(self.host.lua(), in_line, of_jobs)
    }
}

/// Creates the native functions of the prelude.
fn native(host: &Host, setting: &Setting, enough: Rc<Cell<bool>>) -> mlua::Result<Table> {
    let lua = host.lua();
    let native = lua.create_table()?;
    // A recording has no default duration: it is replayed to its end.
    native.set("usual_time", setting.trial.is_some().then_some(USUAL_TIME))?;
    let near = |_: &Lua, (name, names): (String, Vec<String>)| {
        Ok(did_you_mean(&nearest(&name, names.iter().map(String::as_str))))
    };
    native.set("near", lua.create_function(near)?)?;
    let context = host.context.clone();
    let hidden = move |_: &Lua, role| Ok(context.with(|context| context.hidden_of(role)));
    native.set("hidden_of", lua.create_function(hidden)?)?;
    let enough = move |_: &Lua, ()| {
        enough.set(true);
        Ok(())
    };
    native.set("enough", lua.create_function(enough)?)?;
    Ok(native)
}

/// Marks a line's requests, among the values of any yield.
fn mark() -> LightUserData {
    address(&raw const MARK)
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
