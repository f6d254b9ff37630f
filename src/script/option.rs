//! Options of a monitor or of the host, declared once, as data.
//!
//! An [`OptionSpec`] defines the parsing and the help ([`args`]), the units and checks of a value
//! ([`value`]), the table that a script gets ([`value::to_lua`]) and the check of names below. A
//! script declares an option with a function ([`declare`]) or lists a [`shared`] option by name.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::base::text::units::Unit;
use crate::event::sampling::CallGraph;
use detail::DetailOption;

pub mod args;
pub mod declare;
pub mod detail;
pub mod opt;
pub mod shared;
pub mod usage_error;
pub mod value;

#[cfg(test)]
mod tests;

/// One option of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionSpec {
    /// The name without its dashes, kebab-case: `call-graph`.
    pub long: String,
    /// The short option letter, if it has one.
    pub short: Option<char>,
    /// The type of its values.
    pub kind: OptionKind,
    /// The text for `--help`, without the unit and the default, which are added to it.
    pub help: String,
    /// Name of the value in the help; None uses [`OptionKind::value_name`].
    pub value_name: Option<String>,
    /// The default value, as it would be typed.
    pub default: Option<String>,
    /// The shortest duration that it accepts, as it would be typed.
    pub least: Option<String>,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it is a positional argument. It precedes the command of a workload.
    pub positional: bool,
    /// The load that the flag starts and traces, a command of perilune itself: one of [`LOADS`].
    pub load: Option<&'static str>,
    /// The line of the declaration, `task-state.lua:8`; None for host options and shared ones.
    pub place: Option<String>,
}

/// Loads that a flag may start: each does one harmless thing. Other commands are not allowed, since
/// they could do what the script's sandbox forbids.
pub const LOADS: [&str; 1] = ["split-locks"];

/// The type of an option's values.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionKind {
    /// No value: the flag is given or not.
    Flag,
    /// No value; the number of times it is given counts: `-vv`.
    Repeated,
    /// A number.
    Number,
    /// A whole number with this minimum.
    Whole(u64),
    /// A port of TCP or UDP, 1 to 65535.
    Port,
    /// A share in percent, with or without `%`.
    Percent,
    /// A duration; the unit applies to a number without a suffix.
    Duration(Unit),
    /// A size in bytes: `64K`, `4GiB`.
    Size,
    /// Any text.
    Text,
    /// The text of a file, whose path is typed.
    TextFile,
    /// A comma-separated list; lists given several times are joined.
    List,
    /// One of several fixed values.
    Choice {
        /// The allowed values.
        of: Vec<String>,
        /// The value of the option given without one; None makes a value mandatory. An optional
        /// value is attached with `=`, or is the next argument if that is exactly one of `of`.
        bare: Option<String>,
    },
    /// The stack walking method, [`CallGraph`]: a choice with an optional value, where `dwarf` may
    /// have a size.
    CallGraph,
    /// The events to print around a long delay, [`DetailOption`]; the value is optional.
    Detail,
    /// An expression over an event's fields.
    Expr,
    /// One event selector.
    Event {
        /// The attributes that a selector may have in addition to the general ones.
        attrs: Attrs,
    },
    /// Event selectors, `A,B`; each occurrence of the option forms a group.
    Events {
        /// The allowed number of groups.
        groups: GroupCount,
        /// The attributes that a selector may have in addition to the general ones.
        attrs: Attrs,
    },
}

/// Attributes of a selector: name and type of the value.
pub type Attrs = BTreeMap<String, AttrKind>;

/// The type of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// No value: `untraced`.
    Flag,
    /// An expression: `key=prev_pid`.
    Expr,
    /// Text: `alias=run(us)`.
    Text,
}

/// Number of times that an option of type [`OptionKind::Events`] may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCount {
    /// Minimum.
    pub least: usize,
    /// Maximum.
    pub most: usize,
}

impl GroupCount {
    /// One or more.
    pub const ANY: GroupCount = GroupCount { least: 1, most: usize::MAX };
}

impl OptionKind {
    /// Returns the name of the value in the help, such as `TIME`; None for a flag.
    pub fn value_name(&self) -> Option<String> {
        let name = match self {
            OptionKind::Flag | OptionKind::Repeated => return None,
            OptionKind::Number | OptionKind::Whole(_) | OptionKind::Port => "N",
            OptionKind::Percent => "PCT",
            OptionKind::Duration(_) => "TIME",
            OptionKind::Size => "SIZE",
            OptionKind::Text => "TEXT",
            OptionKind::TextFile => "FILE",
            OptionKind::List => "LIST",
            OptionKind::Choice { of, .. } => return Some(of.join("|")),
            OptionKind::CallGraph => "fp|dwarf[,SIZE]|lbr",
            OptionKind::Detail => {
                return Some(format!("-TIME,+TIME,{}", DetailOption::NAMES.join("|")));
            }
            OptionKind::Expr => "EXPR",
            OptionKind::Event { .. } => "EVENT",
            OptionKind::Events { .. } => "EVENT,…",
        };
        Some(name.to_owned())
    }

    /// For an option with an optional value: returns the value that it has without one, and the
    /// values that may be the next argument.
    pub fn optional_choice(&self) -> Option<(&str, Vec<&str>)> {
        match self {
            OptionKind::Choice { of, bare: Some(bare) } => {
                Some((bare, of.iter().map(String::as_str).collect()))
            }
            OptionKind::CallGraph => Some((CallGraph::METHODS[0], CallGraph::METHODS.into())),
            OptionKind::Detail => Some((DetailOption::BARE, DetailOption::NAMES.into())),
            _ => None,
        }
    }
}

impl OptionSpec {
    /// Returns an option with a long name, without a letter and without a default.
    pub fn new(long: &str, kind: OptionKind, help: &str) -> OptionSpec {
        OptionSpec {
            long: long.to_owned(),
            short: None,
            kind,
            help: help.to_owned(),
            value_name: None,
            default: None,
            least: None,
            required: false,
            positional: false,
            load: None,
            place: None,
        }
    }

    /// Returns the shortest form: `-e`, `--than`, or `NAME` for a positional argument.
    pub fn typed(&self) -> String {
        match (self.positional, self.short) {
            (true, _) => self.shown_value().unwrap_or_else(|| self.long.to_uppercase()),
            (_, Some(short)) => format!("-{short}"),
            _ => format!("--{}", self.long),
        }
    }

    /// Returns the shortest form with its value: `-e EVENT,…`.
    pub fn typed_with_value(&self) -> String {
        match self.shown_value() {
            Some(value) if !self.positional && self.needs_value() => {
                format!("{} {value}", self.typed())
            }
            _ => self.typed(),
        }
    }

    /// Returns the name of the value in the help.
    pub fn shown_value(&self) -> Option<String> {
        self.value_name.clone().or_else(|| self.kind.value_name())
    }

    /// Returns whether a value is mandatory.
    pub fn needs_value(&self) -> bool {
        !matches!(self.kind, OptionKind::Flag | OptionKind::Repeated)
            && self.kind.optional_choice().is_none()
    }

    /// Returns whether a message begins with the option's name: `-T: …`, `--metric: …`, `-e X: …`,
    /// `-F, -c: …`.
    pub fn is_subject_of(&self, message: &str) -> bool {
        let first = message.split([' ', ':', ',']).next().unwrap_or_default();
        !self.positional
            && match first.strip_prefix("--") {
                Some(long) => long == self.long,
                None => self.short.is_some_and(|short| first == format!("-{short}")),
            }
    }

    /// Returns an error about this option, with the line that declares it.
    pub fn error(&self, what: &str) -> anyhow::Error {
        match &self.place {
            Some(place) => anyhow::anyhow!("{place}: {what}"),
            None => anyhow::anyhow!("{what}"),
        }
    }
}

/// Checks the names of options. clap panics on some invalid names, and on others one option shadows
/// another.
///
/// # Errors
/// A name is malformed, reserved or declared twice; or two options are positional. The error has
/// the line of the later declaration.
pub fn check_names(options: &[OptionSpec], reserved: &[OptionSpec]) -> Result<()> {
    for (i, option) in options.iter().enumerate() {
        let long = &option.long;
        if !is_kebab_case(long) {
            return Err(option.error(&format!(
                "'{long}' is not an option name: use at least two lower-case letters, with '-' \
                 between words"
            )));
        }
        if reserved.iter().any(|t| t.long == *long) {
            return Err(option
                .error(&format!("option '--{long}' belongs to perilune; choose another name")));
        }
        let before = &options[..i];
        if before.iter().any(|b| b.long == *long) {
            return Err(option.error(&format!("option '--{long}' is declared twice; remove one")));
        }
        let Some(short) = option.short else { continue };
        let same = |o: &&OptionSpec| o.short == Some(short);
        if let Some(of_host) = reserved.iter().find(same) {
            return Err(option.error(&format!(
                "option '-{short}' (--{long}) is '--{}' of perilune; choose another letter",
                of_host.long
            )));
        }
        if let Some(other) = before.iter().find(same) {
            return Err(option.error(&format!(
                "option '-{short}' (--{long}) is used by '--{}'; choose another letter",
                other.long
            )));
        }
    }
    one_positional(options)
}

/// Allows one positional argument: a second one could not be distinguished from the workload's
/// command.
fn one_positional(options: &[OptionSpec]) -> Result<()> {
    let mut free = options.iter().filter(|o| o.positional);
    match (free.next(), free.next()) {
        (Some(first), Some(second)) => {
            let what = format!(
                "'{}' and '{}' are both positional; only one option can be",
                first.long, second.long
            );
            bail!(second.error(&what))
        }
        _ => Ok(()),
    }
}

/// Returns whether `name` consists of lower-case letters and digits, joined by single dashes, and
/// begins with a letter.
fn is_kebab_case(name: &str) -> bool {
    let part =
        |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.split('-').all(part)
}
