//! The declaration in a script file: `local m = monitor { … }`, callbacks on `m`, `return m`.
//!
//! Nothing is opened here, so `monitors` and `help` work without privilege. A misspelt key or
//! callback is an error at the script's own line.

use anyhow::{Context, Result, anyhow, bail, ensure};
use mlua::{AnyUserData, Lua, Table, UserData, Value};

use crate::base::{
    matching::nearest::{did_you_mean, nearest},
    text::units::{self, Unit},
};
use crate::event::kind::DerivedColumn;
use crate::script::load::{declared_options, group::MonitorGroup, library::BUNDLED};
use crate::script::option::{
    self, OptionSpec,
    declare::{self, at_caller, described},
    shared,
};
use crate::source::side_record::SIDE_RECORDS;

const CALLBACKS: [&str; 11] = [
    "init", "filter", "sample", "interval", "deinit", "on_fork", "on_exec", "on_exit", "on_comm",
    "on_mmap", "on_lost",
];

/// Returns the functions that a script may set on `m`.
pub fn callbacks() -> impl Iterator<Item = &'static str> {
    CALLBACKS.into_iter().chain(SIDE_RECORDS.iter().map(|one| one.callback))
}

/// Keys of `monitor {}`.
const KEYS: [&str; 14] = [
    "summary",
    "group",
    "api",
    "options",
    "order",
    "every",
    "interval",
    "pages",
    "screen",
    "idle",
    "all_tasks",
    "whole_cpus",
    "independent",
    "emits",
];

/// Version of the API that scripts see; see `docs/stability.md`.
const API: i64 = 1;

/// Maximum number of data pages of one ring that a script may request: 4 GiB of 4 KiB pages.
const MOST_PAGES: i64 = 1 << 20;

/// A loaded monitor that was not started.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// Name for the command line: `signal`.
    pub name: String,
    /// Source of the script: a path, or [`BUNDLED`].
    pub origin: String,
    /// Summary in one line.
    pub summary: String,
    /// The question that it answers.
    pub group: Option<&'static MonitorGroup>,
    /// The comment block at the start of the file, without dashes: sentences, then indented
    /// examples.
    pub doc: String,
    /// Options in order of declaration.
    pub options: Vec<OptionSpec>,
    /// Whether its events must come in order of time; `None` leaves it to the events.
    pub order: Option<bool>,
    /// Interval without `-i`, in nanoseconds.
    pub every_ns: Option<u64>,
    /// Data pages per ring without `-m`; a power of two.
    pub pages: Option<u32>,
    /// Whether its tables fill the screen if the output is a terminal.
    pub screen: bool,
    /// Explanation for a run that saw no event.
    pub idle: Option<String>,
    /// Whether `on_fork` and the like are also called for tasks that are not watched.
    pub all_tasks: bool,
    /// Whether it watches whole CPUs: single tasks cannot be selected.
    pub whole_cpus: bool,
    /// Whether each event is added to tables or printed on its own, so that a sample of the events
    /// gives estimates.
    pub independent: bool,
    /// Columns of the events that it emits for another monitor; None if it emits none.
    pub emits: Option<Vec<DerivedColumn>>,
    /// `m` itself, with the callbacks.
    pub table: Table,
}

/// A script file before it is run.
#[derive(Clone, Copy, Debug)]
pub struct ScriptSource<'a> {
    /// Name of its monitor.
    pub name: &'a str,
    /// Source of the script, for messages that belong to no line.
    pub origin: &'a str,
    /// Text of the file.
    pub text: &'a str,
}

/// Adds `monitor` and the option constructors to a script's environment.
///
/// # Errors
/// Lua is out of memory.
pub fn register(lua: &Lua, env: &Table) -> mlua::Result<()> {
    declare::register(lua, env)?;
    let monitor = lua.create_function(|lua, table: Value| {
        let declared = declaration(&table).map_err(|error| at_caller(lua, &error))?;
        let hidden = lua.create_table()?;
        hidden.raw_set("__newindex", lua.create_function(set_callback)?)?;
        hidden.raw_set("__metatable", false)?;
        hidden.raw_set(DECLARATION, lua.create_userdata(declared)?)?;
        let module = lua.create_table()?;
        module.set_metatable(Some(hidden))?;
        Ok(module)
    })?;
    env.raw_set("monitor", monitor)
}

/// Key of the declaration in the metatable of `m`, which a script cannot reach.
const DECLARATION: &str = "declaration";

/// The arguments of `monitor {}`.
#[derive(Clone, Debug, Default)]
struct MonitorDeclaration {
    summary: Option<String>,
    group: Option<&'static MonitorGroup>,
    options: Vec<OptionSpec>,
    order: Option<bool>,
    every_ns: Option<u64>,
    pages: Option<u32>,
    screen: bool,
    idle: Option<String>,
    all_tasks: bool,
    whole_cpus: bool,
    independent: bool,
    emits: Option<Vec<DerivedColumn>>,
}

impl UserData for MonitorDeclaration {}

impl Monitor {
    /// Returns whether it ships with the runtime.
    pub fn is_bundled(&self) -> bool {
        self.origin == BUNDLED
    }

    /// Returns the monitor that running `source` returned. `reserved` are the host's own options.
    ///
    /// # Errors
    /// The script does not return a monitor, has no `init`, or has a reserved option name. An
    /// error is one line and begins with the script's line, if there is one.
    pub fn load(
        source: ScriptSource<'_>,
        returned: &Value,
        reserved: &[OptionSpec],
    ) -> Result<Monitor> {
        let origin = source.origin;
        let declared = match returned {
            Value::Table(table) => declared_by(table).map(|d| (table.clone(), d)),
            _ => None,
        };
        let (table, mut declared) = declared.with_context(|| {
            format!(
                "{origin}: returns {}, not a monitor; begin with `local m = monitor {{ … }}` and \
                 end with `return m`",
                described(returned)
            )
        })?;
        shared::add_rate(&mut declared.options);
        option::check_names(&declared.options, reserved)?;
        let init = table.raw_get::<Value>("init")?;
        ensure!(
            init.is_function(),
            "{origin}: has no init; declare its events in `function m.init(opt)`"
        );
        let doc = doc(source.text);
        Ok(Monitor {
            name: source.name.to_owned(),
            origin: origin.to_owned(),
            summary: declared.summary.unwrap_or_else(|| first_sentence(&doc)),
            group: declared.group,
            doc,
            options: declared.options,
            order: declared.order,
            every_ns: declared.every_ns,
            pages: declared.pages,
            screen: declared.screen,
            idle: declared.idle,
            all_tasks: declared.all_tasks,
            whole_cpus: declared.whole_cpus,
            independent: declared.independent,
            emits: declared.emits,
            table,
        })
    }

    /// Returns whether it has the shared option of that name, and not one of its own.
    pub fn has_shared(&self, long: &str) -> bool {
        self.option(long).is_some_and(|option| option.place.is_none())
    }

    /// Returns the option of that long name.
    pub fn option(&self, long: &str) -> Option<&OptionSpec> {
        self.options.iter().find(|o| o.long == long)
    }
}

fn declared_by(table: &Table) -> Option<MonitorDeclaration> {
    let hidden = table.metatable()?.raw_get::<AnyUserData>(DECLARATION).ok()?;
    hidden.borrow::<MonitorDeclaration>().ok().map(|d| d.clone())
}

/// Handles `function m.NAME`: only callbacks may be set on `m`, so that a misspelt one is not
/// silently ignored.
fn set_callback(lua: &Lua, (module, key, value): (Table, Value, Value)) -> mlua::Result<()> {
    let name = match &key {
        Value::String(name) => name.to_string_lossy(),
        other => other.to_string()?,
    };
    let refused = if name == "opt" {
        Some(anyhow!("m.opt holds the values of the options; use another name"))
    } else if !callbacks().any(|one| one == name) {
        let near = nearest(&name, callbacks());
        let near: Vec<String> = near.iter().map(|callback| format!("m.{callback}")).collect();
        Some(match near.is_empty() {
            true => anyhow!("no callback 'm.{name}'; m holds only callbacks; make it a local"),
            false => anyhow!("no callback 'm.{name}'{}", did_you_mean(&strs(&near))),
        })
    } else if !value.is_function() && !value.is_nil() {
        Some(anyhow!("m.{name} is a function, not {}", described(&value)))
    } else {
        None
    };
    match refused {
        Some(error) => Err(at_caller(lua, &error)),
        None => module.raw_set(key, value),
    }
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn declaration(table: &Value) -> Result<MonitorDeclaration> {
    let Value::Table(table) = table else {
        bail!("monitor takes a table, not {}; monitor {{ summary = \"…\" }}", described(table));
    };
    let mut declared = MonitorDeclaration::default();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Value::String(key) = key else {
            bail!("monitor takes named values only; put options into options = {{ … }}");
        };
        let key = key.to_str()?;
        let wrong =
            |wanted: &str| anyhow!("monitor's {} is {wanted}, not {}", &*key, described(&value));
        match (&*key, &value) {
            ("summary", Value::String(text)) => {
                declared.summary = Some(one_line(&key, &text.to_str()?)?);
            }
            ("summary", _) => return Err(wrong("a line of text")),
            ("group", _) => declared.group = Some(MonitorGroup::parse(&value)?),
            ("api", Value::Integer(..1)) => bail!("monitor's api is a version: 1 or more"),
            ("api", Value::Integer(version)) => ensure!(
                *version <= API,
                "monitor needs version {version} of the API, and this perilune has version {API}; \
                 update perilune"
            ),
            ("api", _) => return Err(wrong("a whole number")),
            ("options", Value::Table(list)) => declared.options = declared_options::options(list)?,
            ("options", _) => return Err(wrong("a table")),
            ("order", Value::Boolean(on)) => declared.order = Some(*on),
            ("screen", Value::Boolean(on)) => declared.screen = *on,
            ("all_tasks", Value::Boolean(on)) => declared.all_tasks = *on,
            ("whole_cpus", Value::Boolean(on)) => declared.whole_cpus = *on,
            ("independent", Value::Boolean(on)) => declared.independent = *on,
            ("order" | "screen" | "all_tasks" | "whole_cpus" | "independent", _) => {
                return Err(wrong("true or false"));
            }
            ("idle", Value::String(text)) => declared.idle = Some(one_line(&key, &text.to_str()?)?),
            ("idle", _) => return Err(wrong("a line of text")),
            ("emits", Value::Table(list)) => {
                declared.emits = Some(declared_options::columns(list)?);
            }
            ("emits", _) => return Err(wrong("a table")),
            ("pages", _) => declared.pages = Some(pages(&value)?),
            ("every" | "interval", _) => {
                ensure!(
                    declared.every_ns.is_none(),
                    "monitor has both every and interval; remove one"
                );
                declared.every_ns = Some(every(&value).context(key.to_string())?);
            }
            _ => {
                let hint = did_you_mean(&nearest(&key, KEYS.into_iter()));
                bail!("monitor has no '{}'{hint}", &*key);
            }
        }
    }
    Ok(declared)
}

fn one_line(key: &str, text: &str) -> Result<String> {
    let line = text.trim();
    ensure!(!line.is_empty() && !line.contains('\n'), "monitor's {key} must be one line of text");
    Ok(line.to_owned())
}

fn pages(value: &Value) -> Result<u32> {
    match value {
        Value::Integer(n) if (1..=MOST_PAGES).contains(n) => Ok((*n as u32).next_power_of_two()),
        _ => bail!("monitor's pages is a whole number from 1 to {MOST_PAGES}"),
    }
}

/// Parses the interval in nanoseconds; a number is in milliseconds, as for `-i`.
fn every(value: &Value) -> Result<u64> {
    let text = match value {
        Value::String(text) => text.to_str()?.to_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) => n.to_string(),
        other => bail!("a duration such as \"1s\", not {}", described(other)),
    };
    let ns = units::parse_duration(&text, Unit::Millisecond)?;
    ensure!(ns >= 1_000_000, "`{text}` is too short; at least 1ms");
    Ok(ns)
}

/// Returns the leading comment lines without dashes and the blank after them; omits a `#!` line and
/// annotations.
fn doc(text: &str) -> String {
    let lines = text.lines().skip_while(|line| line.starts_with("#!"));
    let comments =
        lines.map_while(|line| line.strip_prefix("--")).take_while(|l| !l.starts_with("[["));
    let bodies = comments.map(|line| line.strip_prefix('-').unwrap_or(line));
    let kept = bodies.filter(|body| !body.starts_with('@'));
    let lines: Vec<&str> =
        kept.map(|body| body.strip_prefix(' ').unwrap_or(body).trim_end()).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Returns the first line of the doc, without its full stop.
fn first_sentence(doc: &str) -> String {
    doc.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
