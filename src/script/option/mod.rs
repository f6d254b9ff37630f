//! An option of a monitor or of the host, declared once, as data.
//!
//! From one [`OptionSpec`] come the parsing and the help ([`args`]), the units and the checks of a value
//! ([`value`]), the table that a script sees ([`value::to_lua`]) and the check of names below. A script
//! declares with words ([`declare`]) or takes a [`shared`] option by its name.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::base::units::Unit;
use crate::event::sampling::Walk;
use detail::Detail;

pub mod args;
pub mod declare;
pub mod detail;
pub mod shared;
pub mod value;

#[cfg(test)]
mod tests;

/// What may stand on the command line, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionSpec {
    /// The name without its dashes, kebab-case: `call-graph`.
    pub long: String,
    /// The letter, if it has one.
    pub short: Option<char>,
    /// What values it takes.
    pub kind: Kind,
    /// What it does, for `--help`; without unit and default, which help adds.
    pub help: String,
    /// What help calls the value; none takes [`Kind::value_name`].
    pub value_name: Option<String>,
    /// The value when it is not given, as it would be typed.
    pub default: Option<String>,
    /// Whether a run without it is refused.
    pub required: bool,
    /// A free word instead of a dashed one. Such a word is taken before a workload's first.
    pub positional: bool,
    /// The command of perilune itself that a given flag starts and watches: one of [`LOADS`].
    pub load: Option<&'static str>,
    /// Where it was declared, `task-state.lua:8`; none for those of the host and the shared ones.
    pub place: Option<String>,
}

/// Commands that a flag may start: they do one harmless thing. Any other could do what the sandbox of
/// a script forbids.
pub const LOADS: [&str; 1] = ["split-locks"];

/// What values an option takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// None: it is given or not.
    Flag,
    /// None, but giving it twice says more: `-vv`.
    Repeated,
    /// A number.
    Number,
    /// A whole number, at least this.
    Whole(u64),
    /// A share in percent, with or without `%`.
    Percent,
    /// A duration; a number without a suffix has this unit.
    Duration(Unit),
    /// Bytes: `64K`, `4GB`.
    Size,
    /// Anything.
    Text,
    /// A comma list; given twice, the lists are joined.
    List,
    /// One of some words.
    Choice {
        /// The words.
        of: Vec<String>,
        /// What the option means without a word; none asks for one. With it the word is attached by
        /// `=`, or is the next one if that is exactly one of `of`: any other word is not swallowed.
        bare: Option<String>,
    },
    /// How stacks are walked, [`Walk`]; like a choice whose word may be left out, but `dwarf` may have a size.
    CallGraph,
    /// What is shown around something that took long, [`Detail`]; what it says may be left out.
    Detail,
    /// An expression over an event's fields.
    Expr,
    /// One event selector.
    Event {
        /// The attributes that a selector may have beside those of every event.
        attrs: Attrs,
    },
    /// Event selectors, `A,B`; each time the option is given makes a group.
    Events {
        /// How many groups.
        groups: Groups,
        /// The attributes that a selector may have beside those of every event.
        attrs: Attrs,
    },
}

/// Attributes of a selector, by name, and what their value is.
pub type Attrs = BTreeMap<String, Attr>;

/// What the value of a selector's attribute is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attr {
    /// None: `untraced`.
    Flag,
    /// An expression: `key=prev_pid`.
    Expr,
    /// Text: `alias=run(us)`.
    Text,
}

/// How often an option of [`Kind::Events`] may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// At least.
    pub least: usize,
    /// At most.
    pub most: usize,
}

impl Groups {
    /// Any number, but one.
    pub const ANY: Groups = Groups { least: 1, most: usize::MAX };
}

impl Kind {
    /// What help calls a value of it, `TIME`; none for a flag.
    pub fn value_name(&self) -> Option<String> {
        let name = match self {
            Kind::Flag | Kind::Repeated => return None,
            Kind::Number | Kind::Whole(_) => "N",
            Kind::Percent => "PCT",
            Kind::Duration(_) => "TIME",
            Kind::Size => "SIZE",
            Kind::Text => "TEXT",
            Kind::List => "LIST",
            Kind::Choice { of, .. } => return Some(of.join("|")),
            Kind::CallGraph => "fp|dwarf[,SIZE]|lbr",
            Kind::Detail => return Some(format!("-TIME,+TIME,{}", Detail::WORDS.join("|"))),
            Kind::Expr => "EXPR",
            Kind::Event { .. } => "EVENT",
            Kind::Events { .. } => "EVENT,…",
        };
        Some(name.to_owned())
    }

    /// Of an option whose word may be left out: what it then means, and the words that it takes from the next place.
    pub fn optional_word(&self) -> Option<(&str, Vec<&str>)> {
        match self {
            Kind::Choice { of, bare: Some(bare) } => {
                Some((bare, of.iter().map(String::as_str).collect()))
            }
            Kind::CallGraph => Some((Walk::WORDS[0], Walk::WORDS.into())),
            Kind::Detail => Some((Detail::BARE, Detail::WORDS.into())),
            _ => None,
        }
    }
}

impl OptionSpec {
    /// One that takes a dashed name and has neither letter nor default.
    pub fn new(long: &str, kind: Kind, help: &str) -> OptionSpec {
        OptionSpec {
            long: long.to_owned(),
            short: None,
            kind,
            help: help.to_owned(),
            value_name: None,
            default: None,
            required: false,
            positional: false,
            load: None,
            place: None,
        }
    }

    /// As it is typed most shortly: `-e`, `--than`, or `NAME` for a free word.
    pub fn typed(&self) -> String {
        match (self.positional, self.short) {
            (true, _) => self.shown_value().unwrap_or_else(|| self.long.to_uppercase()),
            (_, Some(short)) => format!("-{short}"),
            _ => format!("--{}", self.long),
        }
    }

    /// As it is typed most shortly, with its value: `-e EVENT,…`.
    pub fn typed_with_value(&self) -> String {
        match self.shown_value() {
            Some(value) if !self.positional && self.needs_value() => {
                format!("{} {value}", self.typed())
            }
            _ => self.typed(),
        }
    }

    /// What help calls the value.
    pub fn shown_value(&self) -> Option<String> {
        self.value_name.clone().or_else(|| self.kind.value_name())
    }

    /// Whether a word has to follow.
    pub fn needs_value(&self) -> bool {
        !matches!(self.kind, Kind::Flag | Kind::Repeated) && self.kind.optional_word().is_none()
    }

    /// An error about this option at the line that declares it.
    pub fn error(&self, what: &str) -> anyhow::Error {
        match &self.place {
            Some(place) => anyhow::anyhow!("{place}: {what}"),
            None => anyhow::anyhow!("{what}"),
        }
    }
}

/// Refuses names that are no names, that the host has (`taken`), and that stand twice.
///
/// clap panics on some of these and lets one option shadow another on the rest. Errors stand at the
/// declaring line of the later one.
pub fn check_names(options: &[OptionSpec], taken: &[OptionSpec]) -> Result<()> {
    for (i, option) in options.iter().enumerate() {
        let long = &option.long;
        if !is_kebab_case(long) {
            return Err(option.error(&format!(
                "'{long}' is no name for an option; at least two letters, lower case, words joined by '-'"
            )));
        }
        if taken.iter().any(|t| t.long == *long) {
            return Err(
                option.error(&format!("option '--{long}' is the host's own; choose another name"))
            );
        }
        let before = &options[..i];
        if before.iter().any(|b| b.long == *long) {
            return Err(option.error(&format!("option '--{long}' is declared twice; take one out")));
        }
        let Some(short) = option.short else { continue };
        let same = |o: &&OptionSpec| o.short == Some(short);
        if let Some(of_host) = taken.iter().find(same) {
            return Err(option.error(&format!(
                "option '-{short}' (--{long}) is the host's own '--{}'; choose another letter",
                of_host.long
            )));
        }
        if let Some(other) = before.iter().find(same) {
            return Err(option.error(&format!(
                "option '-{short}' (--{long}) is taken by '--{}'; choose another letter",
                other.long
            )));
        }
    }
    one_positional(options)
}

/// A second free word could not be told from the workload's first.
fn one_positional(options: &[OptionSpec]) -> Result<()> {
    let mut free = options.iter().filter(|o| o.positional);
    match (free.next(), free.next()) {
        (Some(first), Some(second)) => {
            let what =
                format!("'{}' and '{}' are both positional; one can be", first.long, second.long);
            bail!(second.error(&what))
        }
        _ => Ok(()),
    }
}

/// Words of lower-case letters and digits joined by single dashes, the first beginning with a letter.
fn is_kebab_case(name: &str) -> bool {
    let word =
        |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.split('-').all(word)
}
