//! The value of an option: from the words typed, with their units, to what a script sees.

use anyhow::{Context, Result, anyhow, bail, ensure};
use indexmap::IndexMap;

use super::{Attrs, Groups, Kind, OptionSpec, detail::Detail};
use crate::base::{nearest, units};
use crate::event::filter::split::Split;
use crate::event::sampling::Walk;
use crate::event::selector::Selector;

/// The values of all options of a monitor, by long name, in the order of declaration.
pub type Values = IndexMap<String, OptionValue>;

/// What an option was given.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// Not given, and without a default.
    Absent,
    /// Whether a flag was given.
    Flag(bool),
    /// How often a repeated flag was given.
    Count(u64),
    /// A number; of [`Kind::Whole`] without a fraction.
    Number(f64),
    /// A share in percent.
    Percent(f64),
    /// A duration in nanoseconds.
    DurationNs(u64),
    /// A size in bytes.
    Bytes(u64),
    /// Text.
    Text(String),
    /// One of the option's words.
    Choice(String),
    /// What is shown around something that took long.
    Detail(Detail),
    /// An expression, not parsed yet.
    Expr(String),
    /// A selector, not parsed yet.
    Event(String),
    /// Selectors as typed, one text per `-e`, not parsed yet.
    Events(Vec<String>),
}

impl OptionValue {
    /// Whether it says anything: neither absent nor a flag that is off.
    pub fn is_given(&self) -> bool {
        !matches!(self, OptionValue::Absent | OptionValue::Flag(false) | OptionValue::Count(0))
    }
}

/// The value that was typed, in the option's own unit. Errors begin with the option.
pub fn parse(option: &OptionSpec, text: &str) -> Result<OptionValue> {
    parse_kind(&option.kind, text).with_context(|| option.typed())
}

fn parse_kind(kind: &Kind, text: &str) -> Result<OptionValue> {
    ensure!(!text.trim().is_empty(), "the value is empty; leave the option away or give it one");
    Ok(match kind {
        Kind::Flag | Kind::Repeated => bail!("takes no value; leave `{text}` away"),
        Kind::Number => OptionValue::Number(number(text)?),
        Kind::Whole(least) => OptionValue::Number(whole(text, *least)? as f64),
        Kind::Percent => {
            let share = units::parse_percent(text)?;
            ensure!((0.0..=100.0).contains(&share), "`{text}` is no share of a whole; 0 to 100");
            OptionValue::Percent(share)
        }
        Kind::Duration(bare) => OptionValue::DurationNs(units::parse_duration(text, *bare)?),
        Kind::Size => OptionValue::Bytes(units::parse_size(text)?),
        Kind::Text | Kind::List => OptionValue::Text(text.to_owned()),
        Kind::Choice { of, .. } => OptionValue::Choice(one_of(of, text)?),
        Kind::CallGraph => {
            Walk::parse(text)?;
            OptionValue::Choice(text.to_owned())
        }
        Kind::Detail => OptionValue::Detail(Detail::parse(text)?),
        Kind::Expr => OptionValue::Expr(text.to_owned()),
        Kind::Event { attrs } => {
            let all = selectors(attrs, text)?;
            ensure!(all.len() == 1, "`{text}` is several events; one is taken");
            OptionValue::Event(text.to_owned())
        }
        Kind::Events { attrs, .. } => {
            selectors(attrs, text)?;
            OptionValue::Events(vec![text.to_owned()])
        }
    })
}

/// How durations without a unit were taken, of which another monitor may have another:
/// `--than 10: taken as 10ms`.
///
/// Not of `-i`, which is in milliseconds everywhere.
pub fn bare_durations(option: &OptionSpec, text: &str) -> Vec<String> {
    let taken = match &option.kind {
        Kind::Duration(bare) if option.long != "interval" => {
            units::bare_duration(text, *bare).into_iter().collect()
        }
        Kind::Detail => Detail::bare_durations(text),
        _ => Vec::new(),
    };
    let join = if option.kind == Kind::Detail { "=" } else { " " };
    let note = |taken: String| format!("{}{join}{text}: taken as {taken}", option.typed());
    taken.into_iter().map(note).collect()
}

/// The selectors of a comma list; whether their events exist is asked later.
///
/// # Errors
/// A selector that does not parse, a filter with a joint that is not one, or an attribute that the option does not know.
pub fn selectors(attrs: &Attrs, text: &str) -> Result<Vec<Selector>> {
    let known: Vec<&str> = attrs.keys().map(String::as_str).collect();
    let all = Selector::parse_list(text).map_err(|why| anyhow!("{why}"))?;
    for one in &all {
        one.check_attrs(&known)?;
        if let Some(filter) = &one.filter {
            Split::check_joints(filter).map_err(|why| anyhow!("{}: {why}", one.name))?;
        }
    }
    Ok(all)
}

/// The value of an option that was given as often as there are texts, at least once.
pub fn parse_all(option: &OptionSpec, texts: &[&str]) -> Result<OptionValue> {
    match &option.kind {
        Kind::Events { groups, .. } => {
            for text in texts {
                parse(option, text)?;
            }
            count_groups(*groups, texts.len()).with_context(|| option.typed())?;
            Ok(OptionValue::Events(texts.iter().map(|t| (*t).to_owned()).collect()))
        }
        Kind::List => parse(option, &texts.join(",")),
        _ => parse(option, texts.first().copied().unwrap_or_default()),
    }
}

fn count_groups(groups: Groups, given: usize) -> Result<()> {
    let Groups { least, most } = groups;
    let given_times = if given == 1 { "once".to_owned() } else { format!("{given} times") };
    ensure!(
        given <= most || most > 1,
        "given {given_times}; give it once, the events joined by ','"
    );
    ensure!(given <= most, "given {given_times}; {most} are the most");
    ensure!(given >= least, "given {given_times}; it takes at least {least}, each with its events");
    Ok(())
}

fn number(text: &str) -> Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => bail!("`{text}` is not a number; for example 1000 or 0.5"),
    }
}

fn whole(text: &str, least: u64) -> Result<u64> {
    let example = format!("a whole number of at least {least}");
    let digits = text.trim();
    let parsed = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok());
    match parsed.flatten() {
        // What a double holds exactly, which is also what a script can be given.
        Some(number) if number >= least && number <= 1 << 53 => Ok(number),
        Some(number) if number >= least => bail!("`{text}` is too large; at most {}", 1u64 << 53),
        _ => bail!("`{text}` is not {example}"),
    }
}

fn one_of(of: &[String], text: &str) -> Result<String> {
    if let Some(word) = of.iter().find(|word| *word == text) {
        return Ok(word.clone());
    }
    let near = nearest::nearest(text, of.iter().map(String::as_str));
    let hint = nearest::did_you_mean(&near);
    bail!("`{text}` is none of {}{hint}", of.join(", "))
}

/// The table that a script is given as `opt`, with a key for each option: `call_graph` for `--call-graph`.
///
/// A flag is true or false, and an absent value is false, never nil. Numbers are numbers: durations in
/// nanoseconds, sizes in bytes. Selectors and expressions, which have to be parsed first, are left out
/// where they were given: see [`unparsed`].
pub fn to_lua(lua: &mlua::Lua, values: &Values) -> mlua::Result<mlua::Table> {
    let table = lua.create_table()?;
    for (long, value) in values {
        let key = lua_name(long);
        match value {
            OptionValue::Absent => table.raw_set(key, false)?,
            OptionValue::Flag(on) => table.raw_set(key, *on)?,
            OptionValue::Number(n) | OptionValue::Percent(n) => table.raw_set(key, *n)?,
            OptionValue::Count(n) | OptionValue::DurationNs(n) | OptionValue::Bytes(n) => {
                table.raw_set(key, *n as f64)?;
            }
            OptionValue::Text(text) | OptionValue::Choice(text) => {
                table.raw_set(key, text.as_str())?;
            }
            OptionValue::Detail(detail) => table.raw_set(key, detail.to_lua(lua)?)?,
            OptionValue::Expr(_) | OptionValue::Event(_) | OptionValue::Events(_) => {}
        }
    }
    Ok(table)
}

/// What [`to_lua`] leaves out: key in the table, declaration, and the `Expr`, `Event` or `Events` as typed.
pub fn unparsed<'a>(
    options: &'a [OptionSpec],
    values: &'a Values,
) -> impl Iterator<Item = (String, &'a OptionSpec, &'a OptionValue)> {
    options.iter().filter_map(|option| {
        let value = values.get(&option.long)?;
        let raw =
            matches!(value, OptionValue::Expr(_) | OptionValue::Event(_) | OptionValue::Events(_));
        raw.then(|| (lua_name(&option.long), option, value))
    })
}

/// An option's key in `opt`: dashes become underscores, and a Lua keyword gets one at its end (`opt.end_`).
pub fn lua_name(long: &str) -> String {
    let name = long.replace('-', "_");
    if KEYWORDS.contains(&name.as_str()) { name + "_" } else { name }
}

/// The words that cannot follow a dot (Lua 5.2 manual, section 3.1; `goto` as LuaJIT takes it).
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];
