//! What a script file declares: `local m = monitor { … }`, callbacks on `m`, `return m`.
//!
//! Nothing is opened here, so `monitors` and `help` work without privilege. A misspelt key or callback is
//! an error at the script's own line.

use anyhow::{Context, Result, anyhow, bail, ensure};
use mlua::{AnyUserData, Lua, Table, UserData, Value};

use super::bundle::BUNDLED;
use super::option::{
    self, OptionSpec,
    declare::{self, described},
    shared,
};
use crate::base::{
    nearest::{did_you_mean, nearest},
    units::{self, Unit},
};

/// The functions that a script may put on `m`.
pub const CALLBACKS: [&str; 11] = [
    "init", "filter", "sample", "interval", "deinit", "on_fork", "on_exec", "on_exit", "on_comm",
    "on_mmap", "on_lost",
];

/// The keys of `monitor {}`.
const KEYS: [&str; 9] =
    ["summary", "options", "order", "every", "interval", "pages", "screen", "idle", "all_tasks"];

/// Data pages of one ring that a script may ask for: 4 GiB of 4 KiB pages.
const MOST_PAGES: i64 = 1 << 20;

/// A loaded monitor, not started.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// The name it is called by: `signal`.
    pub name: String,
    /// Where the script comes from: a path, or a word for the bundled ones.
    pub origin: String,
    /// One line.
    pub summary: String,
    /// The comment block at the file's head, without dashes: sentences, then indented example lines.
    pub doc: String,
    /// Its options, in the order declared.
    pub options: Vec<OptionSpec>,
    /// Whether its events have to come in the order of time; none leaves it to the events.
    pub order: Option<bool>,
    /// The interval when `-i` is not given, in nanoseconds.
    pub every_ns: Option<u64>,
    /// Data pages per ring when `-m` is not given; a power of two.
    pub pages: Option<u32>,
    /// Whether its tables fill the screen where results go to a terminal.
    pub screen: bool,
    /// Why a run may see no event, for one that saw none.
    pub idle: Option<String>,
    /// Whether `on_fork` and the like are called for tasks that are not watched, too.
    pub all_tasks: bool,
    /// `m` itself, with the callbacks.
    pub table: Table,
}

/// A script file before it is run.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name that its monitor is called by.
    pub name: &'a str,
    /// Where it comes from; stands in messages that belong to no line.
    pub origin: &'a str,
    /// The file.
    pub text: &'a str,
}

/// Puts `monitor` and the words of options into a script's environment.
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

/// Where the declaration stands in the metatable of `m`, which a script cannot reach.
const DECLARATION: &str = "declaration";

/// What `monitor {}` was given.
#[derive(Clone, Debug, Default)]
struct Declaration {
    summary: Option<String>,
    options: Vec<OptionSpec>,
    order: Option<bool>,
    every_ns: Option<u64>,
    pages: Option<u32>,
    screen: bool,
    idle: Option<String>,
    all_tasks: bool,
}

impl UserData for Declaration {}

impl Monitor {
    /// Whether it ships with the runtime.
    pub fn is_bundled(&self) -> bool {
        self.origin == BUNDLED
    }

    /// The monitor that running `source` returned. `taken` are the host's own options.
    ///
    /// Errors are one line, and begin with the script's line where there is one.
    pub fn load(source: Source<'_>, returned: &Value, taken: &[OptionSpec]) -> Result<Monitor> {
        let origin = source.origin;
        let declared = match returned {
            Value::Table(table) => declared_by(table).map(|d| (table.clone(), d)),
            _ => None,
        };
        let (table, mut declared) = declared.with_context(|| {
            format!(
                "{origin}: returns {}, not a monitor; begin with `local m = monitor {{ … }}` and end with `return m`",
                described(returned)
            )
        })?;
        shared::add_rate(&mut declared.options);
        option::check_names(&declared.options, taken)?;
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
            doc,
            options: declared.options,
            order: declared.order,
            every_ns: declared.every_ns,
            pages: declared.pages,
            screen: declared.screen,
            idle: declared.idle,
            all_tasks: declared.all_tasks,
            table,
        })
    }

    /// The callback of that name, if the script has it.
    pub fn callback(&self, name: &str) -> Option<mlua::Function> {
        self.table.raw_get(name).ok()
    }

    /// Makes the options' values visible to the script as `m.opt`.
    pub fn set_opt(&self, opt: &Table) -> mlua::Result<()> {
        self.table.raw_set("opt", opt)
    }

    /// Whether it has the shared option of that name, and not one of its own.
    pub fn has_shared(&self, long: &str) -> bool {
        self.option(long).is_some_and(|option| option.place.is_none())
    }

    /// The option of that long name.
    pub fn option(&self, long: &str) -> Option<&OptionSpec> {
        self.options.iter().find(|o| o.long == long)
    }
}

fn declared_by(table: &Table) -> Option<Declaration> {
    let hidden = table.metatable()?.raw_get::<AnyUserData>(DECLARATION).ok()?;
    hidden.borrow::<Declaration>().ok().map(|d| d.clone())
}

fn at_caller(lua: &Lua, error: &anyhow::Error) -> mlua::Error {
    mlua::Error::runtime(match declare::place(lua) {
        Some(place) => format!("{place}: {error:#}"),
        None => format!("{error:#}"),
    })
}

/// `function m.NAME`: only a callback may be put on `m`, so that a misspelt one is not silently ignored.
fn set_callback(lua: &Lua, (module, key, value): (Table, Value, Value)) -> mlua::Result<()> {
    let name = match &key {
        Value::String(name) => name.to_string_lossy(),
        other => other.to_string()?,
    };
    let refused = if name == "opt" {
        Some(anyhow!("m.opt is the host's: it holds the options' values; use another local"))
    } else if !CALLBACKS.contains(&name.as_str()) {
        let near = nearest(&name, CALLBACKS.into_iter());
        let near: Vec<String> = near.iter().map(|callback| format!("m.{callback}")).collect();
        Some(match near.is_empty() {
            true => anyhow!("no callback 'm.{name}'; only callbacks stand on m, make it a local"),
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

fn declaration(table: &Value) -> Result<Declaration> {
    let Value::Table(table) = table else {
        bail!("monitor takes a table, not {}; monitor {{ summary = \"…\" }}", described(table));
    };
    let mut declared = Declaration::default();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Value::String(key) = key else {
            bail!("monitor takes named values only; options stand in options = {{ … }}");
        };
        let key = key.to_str()?;
        let wrong =
            |wanted: &str| anyhow!("monitor's {} is {wanted}, not {}", &*key, described(&value));
        match (&*key, &value) {
            ("summary", Value::String(text)) => declared.summary = Some(one_line(&text.to_str()?)?),
            ("summary", _) => return Err(wrong("a line of text")),
            ("options", Value::Table(list)) => declared.options = options(list)?,
            ("options", _) => return Err(wrong("a table")),
            ("order", Value::Boolean(on)) => declared.order = Some(*on),
            ("order", _) => return Err(wrong("true or false")),
            ("screen", Value::Boolean(on)) => declared.screen = *on,
            ("screen", _) => return Err(wrong("true or false")),
            ("all_tasks", Value::Boolean(on)) => declared.all_tasks = *on,
            ("all_tasks", _) => return Err(wrong("true or false")),
            ("idle", Value::String(text)) => declared.idle = Some(one_line(&text.to_str()?)?),
            ("idle", _) => return Err(wrong("a line of text")),
            ("pages", _) => declared.pages = Some(pages(&value)?),
            ("every" | "interval", _) => {
                ensure!(
                    declared.every_ns.is_none(),
                    "monitor has both every and interval; take one out"
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

fn one_line(text: &str) -> Result<String> {
    let line = text.trim();
    ensure!(!line.is_empty() && !line.contains('\n'), "monitor's summary is one line of text");
    Ok(line.to_owned())
}

/// What was declared by a word, and shared options by name.
fn options(list: &Table) -> Result<Vec<OptionSpec>> {
    let mut options = Vec::new();
    for pair in list.pairs::<Value, Value>() {
        let (key, value) = pair?;
        ensure!(
            matches!(key, Value::Integer(_)),
            "options is a list; write text {{ \"name\", … }} instead of name = …"
        );
        options.push(match &value {
            Value::String(name) => {
                options.extend(shared_options(&name.to_str()?)?);
                continue;
            }
            Value::UserData(declared) => match declared.borrow::<OptionSpec>() {
                Ok(option) => option.clone(),
                Err(_) => bail!("options holds a value of the host that is no option"),
            },
            Value::Function(_) => bail!("a word of options needs its table: flag {{ \"name\" }}"),
            other => bail!(
                "options holds words such as flag {{ \"name\" }} and names of shared options, not {}",
                described(other)
            ),
        });
    }
    Ok(options)
}

fn shared_options(name: &str) -> Result<Vec<OptionSpec>> {
    let found = shared::find(name);
    if !found.is_empty() {
        return Ok(found);
    }
    let all = shared::options();
    let names: Vec<&str> = all.iter().map(|o| o.long.as_str()).collect();
    let near = nearest(name, names.iter().copied());
    let hint = match near.is_empty() {
        true => format!("; there are {}", names.join(", ")),
        false => did_you_mean(&near),
    };
    bail!("no shared option '{name}'{hint}")
}

fn pages(value: &Value) -> Result<u32> {
    match value {
        Value::Integer(n) if (1..=MOST_PAGES).contains(n) => Ok((*n as u32).next_power_of_two()),
        _ => bail!("monitor's pages is a whole number from 1 to {MOST_PAGES}"),
    }
}

/// A number counts milliseconds, as `-i` does.
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

/// The leading comment lines without dashes and their one blank; a `#!` line and annotations are left out.
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

/// The first line of the doc, without its full stop.
fn first_sentence(doc: &str) -> String {
    doc.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
