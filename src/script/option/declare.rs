//! The words with which a script declares an option: `duration { "than", unit = "ms", help = "…" }`.
//!
//! A word checks its table at once, so an error stands at the line of the declaration. What it returns is
//! opaque to the script and goes into the `options` of `monitor {}`. The bare word is the kind of an
//! attribute: `attrs = { key = expr }`.

use anyhow::{Context, Result, anyhow, bail, ensure};
use mlua::{Lua, Table, UserData, Value};

use super::{Attr, Attrs, Groups, Kind, LOADS, OptionSpec, value};
use crate::base::{
    nearest::{did_you_mean, nearest},
    units::Unit,
};

/// The words and the keys that each takes beside [`KEYS`].
const WORDS: [(&str, &[&str]); 10] = [
    ("flag", &["load"]),
    ("number", &[]),
    ("percent", &[]),
    ("duration", &["unit"]),
    ("size", &[]),
    ("text", &[]),
    ("choice", &["of"]),
    ("expr", &[]),
    ("event", &["attrs"]),
    ("events", &["groups", "attrs"]),
];

/// The keys of every word.
const KEYS: [&str; 6] = ["short", "help", "value", "default", "required", "positional"];

/// Puts the words into a script's environment, as functions.
pub fn register(lua: &Lua, env: &Table) -> mlua::Result<()> {
    let words = lua.create_table()?;
    for (name, own_keys) in WORDS {
        let all = words.clone();
        let word = lua.create_function(move |lua, table: Value| {
            let word = Word { name, own_keys, all: &all };
            let place = place(lua);
            word.declare(&table, place.clone()).map_err(|error| match place {
                Some(place) => mlua::Error::runtime(format!("{place}: {error:#}")),
                None => mlua::Error::runtime(format!("{error:#}")),
            })
        })?;
        words.raw_set(&word, name)?;
        env.raw_set(name, word)?;
    }
    Ok(())
}

/// Where the Lua code that called this function stands: `signal.lua:3`. None if it is no Lua code.
pub fn place(lua: &Lua) -> Option<String> {
    lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src?.into_owned();
        Some(format!("{source}:{}", frame.current_line()?))
    })?
}

/// A value as a message names it.
pub fn described(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nothing",
        Value::Boolean(_) => "true or false",
        Value::Integer(_) | Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Table(_) => "a table",
        Value::Function(_) => "a function",
        _ => "a value of the host",
    }
}

struct Word<'a> {
    name: &'static str,
    own_keys: &'static [&'static str],
    /// The name of each word by its function: what a bare word in `attrs` is.
    all: &'a Table,
}

impl UserData for OptionSpec {}

impl Word<'_> {
    fn declare(&self, table: &Value, place: Option<String>) -> Result<OptionSpec> {
        let word = self.name;
        let Value::Table(table) = table else {
            bail!(
                "{word} takes a table, not {}; {word} {{ \"long-name\", help = \"…\" }}",
                described(table)
            );
        };
        self.check_keys(table)?;
        let long = match table.raw_get::<Value>(1)? {
            Value::String(long) => long.to_str()?.to_owned(),
            _ => bail!("{word} has no name; {word} {{ \"long-name\", help = \"…\" }}"),
        };
        let option = OptionSpec {
            kind: self.kind(table)?,
            short: letter(table)?,
            help: text(table, "help")?.unwrap_or_default(),
            value_name: text(table, "value")?,
            default: default(table)?,
            required: flag(table, "required")?,
            positional: flag(table, "positional")?,
            load: load(table)?,
            place,
            ..OptionSpec::new(&long, Kind::Flag, "")
        };
        option.check().with_context(|| format!("option '{long}'"))?;
        Ok(option)
    }

    fn check_keys(&self, table: &Table) -> Result<()> {
        let word = self.name;
        let known = || KEYS.iter().chain(self.own_keys).copied();
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(1) => {}
                Value::String(key) => {
                    let key = key.to_str()?;
                    if !known().any(|k| k == &*key) {
                        let hint = did_you_mean(&nearest(&key, known()));
                        bail!("{word} has no '{}'{hint}", &*key);
                    }
                }
                _ => bail!("{word} takes one name; write a {word} for each option"),
            }
        }
        Ok(())
    }

    fn kind(&self, table: &Table) -> Result<Kind> {
        Ok(match self.name {
            "flag" => Kind::Flag,
            "number" => Kind::Number,
            "percent" => Kind::Percent,
            "duration" => Kind::Duration(unit(table)?),
            "size" => Kind::Size,
            "text" => Kind::Text,
            "choice" => Kind::Choice { of: choices(table)?, bare: None },
            "expr" => Kind::Expr,
            "event" => Kind::Event { attrs: self.attrs(table)? },
            _ => Kind::Events { groups: groups(table)?, attrs: self.attrs(table)? },
        })
    }

    /// Names and bare words.
    fn attrs(&self, table: &Table) -> Result<Attrs> {
        let list = match table.raw_get::<Value>("attrs")? {
            Value::Nil => return Ok(Attrs::new()),
            Value::Table(list) => list,
            other => bail!("attrs is a table, not {}", described(&other)),
        };
        let mut attrs = Attrs::new();
        for pair in list.pairs::<Value, Value>() {
            let (name, word) = pair?;
            let Value::String(name) = name else { bail!("attrs is {{ name = expr, … }}") };
            let name = name.to_str()?.to_owned();
            let word: Option<String> = match word.is_function() {
                true => self.all.raw_get(word)?,
                false => None,
            };
            let attr = match word.as_deref() {
                Some("flag") => Attr::Flag,
                Some("expr") => Attr::Expr,
                Some("text") => Attr::Text,
                _ => bail!("attribute '{name}' is one of the words expr, text and flag"),
            };
            attrs.insert(name, attr);
        }
        Ok(attrs)
    }
}

impl OptionSpec {
    /// What holds within one declaration. Names are judged when all options are known.
    fn check(&self) -> Result<()> {
        if self.kind == Kind::Flag {
            let more = self.value_name.is_some() || self.default.is_some();
            ensure!(
                !more && !self.required && !self.positional,
                "a flag is off unless it is given: it has only short, help and load"
            );
        }
        ensure!(
            !(self.required && self.default.is_some()),
            "with a default it cannot be required; take one out"
        );
        ensure!(!(self.positional && self.short.is_some()), "a positional option has no letter");
        if let Some(default) = &self.default {
            value::parse_all(self, &[default]).context("default")?;
        }
        Ok(())
    }
}

fn load(table: &Table) -> Result<Option<&'static str>> {
    let Some(name) = text(table, "load")? else { return Ok(None) };
    let known = LOADS.into_iter().find(|load| *load == name);
    known.map(Some).with_context(|| format!("load '{name}' is none of {}", LOADS.join(", ")))
}

fn text(table: &Table, key: &str) -> Result<Option<String>> {
    match table.raw_get::<Value>(key)? {
        Value::Nil => Ok(None),
        Value::String(text) => Ok(Some(text.to_str()?.to_owned())),
        other => bail!("{key} is text, not {}", described(&other)),
    }
}

fn flag(table: &Table, key: &str) -> Result<bool> {
    match table.raw_get::<Value>(key)? {
        Value::Nil => Ok(false),
        Value::Boolean(on) => Ok(on),
        other => bail!("{key} is true or false, not {}", described(&other)),
    }
}

fn letter(table: &Table) -> Result<Option<char>> {
    let Some(text) = text(table, "short")? else { return Ok(None) };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(letter), None) if letter.is_ascii_alphanumeric() => Ok(Some(letter)),
        _ => bail!("short is one letter, not '{text}'"),
    }
}

/// A default is written as it would be typed, or as a number.
fn default(table: &Table) -> Result<Option<String>> {
    match table.raw_get::<Value>("default")? {
        Value::Nil => Ok(None),
        Value::String(text) => Ok(Some(text.to_str()?.to_owned())),
        Value::Integer(number) => Ok(Some(number.to_string())),
        Value::Number(number) => Ok(Some(number.to_string())),
        other => bail!("default is text or a number, not {}", described(&other)),
    }
}

/// The unit of a bare number; nanoseconds, which is what a script computes in, unless it says otherwise.
fn unit(table: &Table) -> Result<Unit> {
    let Some(suffix) = text(table, "unit")? else { return Ok(Unit::Nanosecond) };
    let known = Unit::ALL.map(Unit::suffix).join(", ");
    Unit::from_suffix(&suffix).ok_or_else(|| anyhow!("no unit '{suffix}'; {known} are known"))
}

fn choices(table: &Table) -> Result<Vec<String>> {
    let wanted = "choice needs its words: of = { \"delay\", \"pair\" }";
    let Value::Table(list) = table.raw_get("of")? else { bail!(wanted) };
    let words = list.sequence_values::<String>().collect::<mlua::Result<Vec<_>>>()?;
    ensure!(!words.is_empty(), wanted);
    Ok(words)
}

/// `1`, `"2.."` or `"2..4"`.
fn groups(table: &Table) -> Result<Groups> {
    let wrong = "groups is a number, \"2..\" or \"2..4\"";
    let text = match table.raw_get::<Value>("groups")? {
        Value::Nil => return Ok(Groups::ANY),
        Value::Integer(number) => number.to_string(),
        Value::String(text) => text.to_str()?.to_owned(),
        _ => bail!(wrong),
    };
    let (least, most) = text.split_once("..").unwrap_or((&text, &text));
    let least = least.parse::<usize>().map_err(|_| anyhow!(wrong))?;
    let most =
        if most.is_empty() { usize::MAX } else { most.parse().map_err(|_| anyhow!(wrong))? };
    ensure!((1..=most).contains(&least), wrong);
    Ok(Groups { least, most })
}
