//! Option values: parsing with units, and conversion to Lua.

use anyhow::{Context, Result, anyhow, bail, ensure};
use indexmap::IndexMap;

use super::{Attrs, GroupCount, OptionKind, OptionSpec, detail::DetailOption};
use crate::base::text::lua::field_name;
use crate::base::{matching::nearest, text::units};
use crate::event::filter::split::Split;
use crate::event::sampling::CallGraph;
use crate::event::selector::Selector;

/// The values of all options of a monitor, by long name, in the order of declaration.
pub type OptionValues = IndexMap<String, OptionValue>;

/// The value of one option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// Not given, and without a default.
    Absent,
    /// Whether a flag was given.
    Flag(bool),
    /// How often a repeatable flag was given.
    Count(u64),
    /// A number, without a fraction for [`OptionKind::Whole`].
    Number(f64),
    /// A share in percent.
    Percent(f64),
    /// A duration in nanoseconds.
    DurationNs(u64),
    /// A size in bytes.
    Bytes(u64),
    /// Text.
    Text(String),
    /// One of the option's fixed values.
    Choice(String),
    /// The events to print around a long delay.
    Detail(DetailOption),
    /// An expression, not parsed yet.
    Expr(String),
    /// A selector, not parsed yet.
    Event(String),
    /// Selectors as typed, one text per `-e`, not parsed yet.
    Events(Vec<String>),
}

impl OptionValue {
    /// Returns whether a value was given: not absent, and not a flag that is off.
    pub fn is_given(&self) -> bool {
        !matches!(self, OptionValue::Absent | OptionValue::Flag(false) | OptionValue::Count(0))
    }
}

/// Parses a value that was typed, in the option's own unit.
///
/// # Errors
/// The value is empty, malformed or below the minimum; the error begins with the option.
pub fn parse(option: &OptionSpec, text: &str) -> Result<OptionValue> {
    ensure!(
        option.long != "freq" || text != "max",
        "{}: `max` is not a number; write the rate: sysctl kernel.perf_event_max_sample_rate \
         prints the highest one",
        option.typed()
    );
    let value = parse_kind(&option.kind, text).with_context(|| option.typed())?;
    if let (OptionValue::DurationNs(ns), Some(least)) = (&value, &option.least) {
        let too_short = *ns < units::parse_duration_with_unit(least)?;
        ensure!(!too_short, "{}: `{text}` is too short; use {least} or more", option.typed());
    }
    Ok(value)
}

fn parse_kind(kind: &OptionKind, text: &str) -> Result<OptionValue> {
    ensure!(!text.trim().is_empty(), "the value is empty; pass one or omit the option");
    Ok(match kind {
        OptionKind::Flag | OptionKind::Repeated => bail!("takes no value; omit `{text}`"),
        OptionKind::Number => OptionValue::Number(number(text)?),
        OptionKind::Whole(least) => OptionValue::Number(whole(text, *least)? as f64),
        OptionKind::Port => OptionValue::Number(port(text)?),
        OptionKind::Percent => {
            let share = units::parse_percent(text)?;
            ensure!((0.0..=100.0).contains(&share), "`{text}` is not a percentage from 0 to 100");
            OptionValue::Percent(share)
        }
        OptionKind::Duration(bare) => OptionValue::DurationNs(units::parse_duration(text, *bare)?),
        OptionKind::Size => OptionValue::Bytes(units::parse_size(text)?),
        OptionKind::Text | OptionKind::TextFile | OptionKind::List => {
            OptionValue::Text(text.to_owned())
        }
        OptionKind::Choice { of, .. } => OptionValue::Choice(one_of(of, text)?),
        OptionKind::CallGraph => {
            CallGraph::parse(text)?;
            OptionValue::Choice(text.to_owned())
        }
        OptionKind::Detail => OptionValue::Detail(DetailOption::parse(text)?),
        OptionKind::Expr => OptionValue::Expr(text.to_owned()),
        OptionKind::Event { attrs } => {
            let all = selectors(attrs, text)?;
            ensure!(all.len() == 1, "`{text}` selects several events; one is expected");
            OptionValue::Event(text.to_owned())
        }
        OptionKind::Events { attrs, .. } => {
            selectors(attrs, text)?;
            OptionValue::Events(vec![text.to_owned()])
        }
    })
}

/// Returns notes on durations without a unit, since the unit differs between monitors:
/// `--than 10: read as 10ms`.
///
/// There is no note for `-i`, which is in milliseconds everywhere.
pub fn bare_durations(option: &OptionSpec, text: &str) -> Vec<String> {
    let meanings = match &option.kind {
        OptionKind::Duration(bare) if option.long != "interval" => {
            units::bare_duration(text, *bare).into_iter().collect()
        }
        OptionKind::Detail => DetailOption::bare_durations(text),
        _ => Vec::new(),
    };
    let join = if option.kind == OptionKind::Detail { "=" } else { " " };
    let note = |meaning: String| format!("{}{join}{text}: read as {meaning}", option.typed());
    meanings.into_iter().map(note).collect()
}

/// Parses a comma-separated list of selectors. Does not check whether their events exist.
///
/// # Errors
/// A selector does not parse, its filter has an invalid operator between conditions, or it has an
/// attribute that is not in `attrs`.
pub fn selectors(attrs: &Attrs, text: &str) -> Result<Vec<Selector>> {
    let known: Vec<&str> = attrs.keys().map(String::as_str).collect();
    let all = Selector::parse_list(text).map_err(|why| anyhow!("{why}"))?;
    for one in &all {
        one.check_attrs(&known)?;
        if let Some(filter) = &one.filter {
            Split::check_structure(filter).map_err(|why| anyhow!("{}: {why}", one.name))?;
        }
    }
    Ok(all)
}

/// Parses all occurrences of an option; `texts` has at least one.
///
/// # Errors
/// A value does not parse, or the option was given too often or not often enough.
pub fn parse_all(option: &OptionSpec, texts: &[&str]) -> Result<OptionValue> {
    match &option.kind {
        OptionKind::Events { groups, .. } => {
            for text in texts {
                parse(option, text)?;
            }
            count_groups(*groups, texts.len()).with_context(|| option.typed())?;
            Ok(OptionValue::Events(texts.iter().map(|t| (*t).to_owned()).collect()))
        }
        OptionKind::List => parse(option, &texts.join(",")),
        _ => parse(option, texts.first().copied().unwrap_or_default()),
    }
}

fn count_groups(groups: GroupCount, given: usize) -> Result<()> {
    let GroupCount { least, most } = groups;
    let given_times = if given == 1 { "once".to_owned() } else { format!("{given} times") };
    ensure!(
        given <= most || most > 1,
        "given {given_times}; give it once, the events joined by ','"
    );
    ensure!(given <= most, "given {given_times}; at most {most}");
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
        // A double holds these numbers exactly, and Lua has only doubles.
        Some(number) if number >= least && number <= 1 << 53 => Ok(number),
        Some(number) if number >= least => bail!("`{text}` is too large; at most {}", 1u64 << 53),
        _ => {
            let is_scaled = digits.len() > 1
                && digits[..digits.len() - 1].bytes().all(|b| b.is_ascii_digit())
                && digits.ends_with(['k', 'K', 'm', 'M', 'g', 'G']);
            let form = if is_scaled { "; write it without a suffix, such as 1000" } else { "" };
            bail!("`{text}` is not {example}{form}")
        }
    }
}

fn port(text: &str) -> Result<f64> {
    match text.trim().parse::<u16>() {
        Ok(port) if port > 0 => Ok(port.into()),
        _ => bail!("`{text}` is not a port, a whole number from 1 to 65535"),
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

/// Returns the table `opt` of a script. The key of `--call-graph` is `call_graph`.
///
/// A flag is true or false; an absent value is false, never nil. Durations are numbers in
/// nanoseconds, sizes numbers in bytes. Selectors and expressions must be parsed first and are
/// omitted if given: see [`unparsed`].
///
/// # Errors
/// Lua is out of memory.
pub fn to_lua(lua: &mlua::Lua, values: &OptionValues) -> mlua::Result<mlua::Table> {
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

/// Returns the options that [`to_lua`] omits: the key in the table, the declaration, and the
/// `Expr`, `Event` or `Events` as typed.
pub fn unparsed<'a>(
    options: &'a [OptionSpec],
    values: &'a OptionValues,
) -> impl Iterator<Item = (String, &'a OptionSpec, &'a OptionValue)> {
    options.iter().filter_map(|option| {
        let value = values.get(&option.long)?;
        let raw =
            matches!(value, OptionValue::Expr(_) | OptionValue::Event(_) | OptionValue::Events(_));
        raw.then(|| (lua_name(&option.long), option, value))
    })
}

/// Returns an option's key in `opt`: dashes become underscores, and a Lua keyword gets an
/// underscore at its end (`opt.end_`).
pub fn lua_name(long: &str) -> String {
    field_name(&long.replace('-', "_"))
}
