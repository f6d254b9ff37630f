//! The functions that declare options in a script: `duration { "than", unit = "ms", help = "…" }`.
//!
//! A function checks its table immediately, so an error has the line of the declaration. Its result
//! is opaque to the script and goes into the `options` of `monitor {}`. The function itself is also
//! the type of an attribute: `attrs = { key = expr }`.

use anyhow::{Context, Result, anyhow, bail, ensure};
use mlua::{Lua, Table, UserData, Value};

use super::{AttrKind, Attrs, GroupCount, LOADS, OptionKind, OptionSpec, value};
use crate::base::{
    matching::nearest::{did_you_mean, nearest},
    text::units::{self, Unit},
};

/// The functions, and the keys that each takes in addition to [`KEYS`].
const CONSTRUCTORS: [(&str, &[&str]); 13] = [
    ("flag", &["load"]),
    ("number", &[]),
    ("integer", &["least"]),
    ("port", &[]),
    ("percent", &[]),
    ("duration", &["unit", "least"]),
    ("size", &[]),
    ("text", &[]),
    ("text_file", &[]),
    ("choice", &["of"]),
    ("expr", &[]),
    ("event", &["attrs"]),
    ("events", &["groups", "attrs"]),
];

/// Keys that every function takes.
const KEYS: [&str; 6] = ["short", "help", "value", "default", "required", "positional"];

/// Adds the functions to a script's environment.
///
/// # Errors
/// Lua is out of memory.
pub fn register(lua: &Lua, env: &Table) -> mlua::Result<()> {
    let constructors = lua.create_table()?;
    for (name, own_keys) in CONSTRUCTORS {
        let all = constructors.clone();
        let constructor = lua.create_function(move |lua, table: Value| {
            let constructor = OptionConstructor { name, own_keys, all: &all };
            constructor.declare(&table, place(lua)).map_err(|error| at_caller(lua, &error))
        })?;
        constructors.raw_set(&constructor, name)?;
        env.raw_set(name, constructor)?;
    }
    Ok(())
}

/// Returns an error at the line of the Lua code that called this function.
pub(in crate::script) fn at_caller(lua: &Lua, error: &anyhow::Error) -> mlua::Error {
    mlua::Error::runtime(match place(lua) {
        Some(place) => format!("{place}: {error:#}"),
        None => format!("{error:#}"),
    })
}

/// Returns the line of the Lua code that called this function: `signal.lua:3`. None if the caller
/// is not Lua code.
fn place(lua: &Lua) -> Option<String> {
    lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src?.into_owned();
        Some(format!("{source}:{}", frame.current_line()?))
    })?
}

/// Returns how a message names the type of a value.
pub fn described(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nothing",
        Value::Boolean(_) => "true or false",
        Value::Integer(_) | Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Table(_) => "a table",
        Value::Function(_) => "a function",
        _ => "userdata",
    }
}

struct OptionConstructor<'a> {
    name: &'static str,
    own_keys: &'static [&'static str],
    /// Name of each function by the function itself: identifies the types in `attrs`.
    all: &'a Table,
}

impl UserData for OptionSpec {}

impl OptionConstructor<'_> {
    fn declare(&self, table: &Value, place: Option<String>) -> Result<OptionSpec> {
        let constructor = self.name;
        let Value::Table(table) = table else {
            bail!(
                "{constructor} takes a table, not {}; {constructor} {{ \"long-name\", \
                 help = \"…\" }}",
                described(table)
            );
        };
        self.check_keys(table)?;
        let long = match table.raw_get::<Value>(1)? {
            Value::String(long) => long.to_str()?.to_owned(),
            _ => {
                bail!("{constructor} has no name; {constructor} {{ \"long-name\", help = \"…\" }}")
            }
        };
        let option = OptionSpec {
            kind: self.kind(table)?,
            short: letter(table)?,
            help: text(table, "help")?.unwrap_or_default(),
            value_name: text(table, "value")?,
            default: default(table)?,
            least: if self.name == "duration" { text(table, "least")? } else { None },
            required: flag(table, "required")?,
            positional: flag(table, "positional")?,
            load: load(table)?,
            place,
            ..OptionSpec::new(&long, OptionKind::Flag, "")
        };
        option.check().with_context(|| format!("option '{long}'"))?;
        Ok(option)
    }

    fn check_keys(&self, table: &Table) -> Result<()> {
        let constructor = self.name;
        let known = || KEYS.iter().chain(self.own_keys).copied();
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(1) => {}
                Value::String(key) => {
                    let key = key.to_str()?;
                    if !known().any(|k| k == &*key) {
                        let hint = did_you_mean(&nearest(&key, known()));
                        bail!("{constructor} has no '{}'{hint}", &*key);
                    }
                }
                _ => bail!("{constructor} takes one name; write a {constructor} for each option"),
            }
        }
        Ok(())
    }

    fn kind(&self, table: &Table) -> Result<OptionKind> {
        Ok(match self.name {
            "flag" => OptionKind::Flag,
            "number" => OptionKind::Number,
            "integer" => OptionKind::Whole(least_count(table)?),
            "port" => OptionKind::Port,
            "percent" => OptionKind::Percent,
            "duration" => OptionKind::Duration(unit(table)?),
            "size" => OptionKind::Size,
            "text" => OptionKind::Text,
            "text_file" => OptionKind::TextFile,
            "choice" => OptionKind::Choice { of: choices(table)?, bare: None },
            "expr" => OptionKind::Expr,
            "event" => OptionKind::Event { attrs: self.attrs(table)? },
            _ => OptionKind::Events { groups: groups(table)?, attrs: self.attrs(table)? },
        })
    }

    /// Reads the attributes: names with a declaring function as type.
    fn attrs(&self, table: &Table) -> Result<Attrs> {
        let mut attrs = Attrs::new();
        let list = read(table, "attrs", "a table", |value| value.as_table().cloned())?;
        let Some(list) = list else { return Ok(attrs) };
        for pair in list.pairs::<Value, Value>() {
            let (name, constructor) = pair?;
            let Value::String(name) = name else { bail!("attrs is {{ name = expr, … }}") };
            let name = name.to_str()?.to_owned();
            let constructor: Option<String> = match constructor.is_function() {
                true => self.all.raw_get(constructor)?,
                false => None,
            };
            let attr = match constructor.as_deref() {
                Some("flag") => AttrKind::Flag,
                Some("expr") => AttrKind::Expr,
                Some("text") => AttrKind::Text,
                _ => bail!("attribute '{name}' must be expr, text or flag"),
            };
            attrs.insert(name, attr);
        }
        Ok(attrs)
    }
}

impl OptionSpec {
    /// Checks the declaration on its own. Names are checked once all options are known.
    fn check(&self) -> Result<()> {
        if self.kind == OptionKind::Flag {
            let more = self.value_name.is_some() || self.default.is_some();
            ensure!(
                !more && !self.required && !self.positional,
                "a flag has only short, help and load: it is off unless given"
            );
        }
        ensure!(
            !(self.required && self.default.is_some()),
            "with a default it cannot be required; remove one"
        );
        ensure!(
            !(self.positional && self.short.is_some()),
            "a positional option cannot have `short`"
        );
        if let Some(least) = &self.least {
            units::parse_duration_with_unit(least).context("least")?;
        }
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

/// Reads the value of a key; None if it is absent. `parse` returns None for a value of another type
/// than the `wanted` one.
fn read<T>(
    table: &Table,
    key: &str,
    wanted: &str,
    parse: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>> {
    match table.raw_get::<Value>(key)? {
        Value::Nil => Ok(None),
        value => match parse(&value) {
            Some(parsed) => Ok(Some(parsed)),
            None => bail!("{key} is {wanted}, not {}", described(&value)),
        },
    }
}

fn text(table: &Table, key: &str) -> Result<Option<String>> {
    Ok(read(table, key, "text", |value| value.as_string().map(owned))?.transpose()?)
}

fn owned(text: &mlua::LuaString) -> mlua::Result<String> {
    Ok(text.to_str()?.to_owned())
}

fn flag(table: &Table, key: &str) -> Result<bool> {
    Ok(read(table, key, "true or false", Value::as_boolean)?.unwrap_or(false))
}

fn letter(table: &Table) -> Result<Option<char>> {
    let Some(text) = text(table, "short")? else { return Ok(None) };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(letter), None) if letter.is_ascii_alphanumeric() => Ok(Some(letter)),
        _ => bail!("short is one letter, not '{text}'"),
    }
}

/// Reads the default: text as it would be typed, or a number.
fn default(table: &Table) -> Result<Option<String>> {
    let typed = |value: &Value| match value {
        Value::String(text) => Some(owned(text)),
        Value::Integer(number) => Some(Ok(number.to_string())),
        Value::Number(number) => Some(Ok(number.to_string())),
        _ => None,
    };
    Ok(read(table, "default", "text or a number", typed)?.transpose()?)
}

/// Reads the unit of a number without a suffix; the default is nanoseconds, the unit of scripts.
fn unit(table: &Table) -> Result<Unit> {
    let Some(suffix) = text(table, "unit")? else { return Ok(Unit::Nanosecond) };
    let known = Unit::ALL.map(Unit::suffix).join(", ");
    Unit::from_suffix(&suffix).ok_or_else(|| anyhow!("no unit '{suffix}'; {known} are known"))
}

/// Reads the minimum of a count; the default is 1.
fn least_count(table: &Table) -> Result<u64> {
    match table.raw_get::<Value>("least")? {
        Value::Nil => Ok(1),
        Value::Integer(least) if least >= 0 => Ok(least as u64),
        _ => bail!("least is a whole number from 0"),
    }
}

fn choices(table: &Table) -> Result<Vec<String>> {
    let wanted = "choice needs its values: of = { \"delay\", \"pair\" }";
    let Value::Table(list) = table.raw_get("of")? else { bail!(wanted) };
    let constructors = list.sequence_values::<String>().collect::<mlua::Result<Vec<_>>>()?;
    ensure!(!constructors.is_empty(), wanted);
    Ok(constructors)
}

/// Reads the number of groups: `1`, `"2.."` or `"2..4"`.
fn groups(table: &Table) -> Result<GroupCount> {
    let wrong = "groups is a number, \"2..\" or \"2..4\"";
    let text = match table.raw_get::<Value>("groups")? {
        Value::Nil => return Ok(GroupCount::ANY),
        Value::Integer(number) => number.to_string(),
        Value::String(text) => text.to_str()?.to_owned(),
        _ => bail!(wrong),
    };
    let (least, most) = text.split_once("..").unwrap_or((&text, &text));
    let least = least.parse::<usize>().map_err(|_| anyhow!(wrong))?;
    let most =
        if most.is_empty() { usize::MAX } else { most.parse().map_err(|_| anyhow!(wrong))? };
    ensure!((1..=most).contains(&least), wrong);
    Ok(GroupCount { least, most })
}
