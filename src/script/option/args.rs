//! Converts options to clap arguments, and clap's matches back to values.
//!
//! clap splits the command line and prints the help. [`super::value`] parses the values and reports
//! missing ones, so that all messages have one form.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, builder::ValueParser, parser::ValueSource};

use super::{
    OptionKind, OptionSpec,
    value::{self, OptionValue, OptionValues},
};

/// Returns each option as an argument whose id is its long name.
pub fn to_args(options: &[OptionSpec]) -> Vec<Arg> {
    options.iter().map(to_arg).collect()
}

fn to_arg(option: &OptionSpec) -> Arg {
    let mut arg = Arg::new(option.long.clone()).help(described(option));
    if !option.positional {
        arg = arg.long(option.long.clone()).short(option.short);
    }
    if let Some(name) = option.shown_value() {
        arg = arg.value_name(name).value_parser(ValueParser::os_string());
    }
    match &option.kind {
        OptionKind::Flag => arg.action(ArgAction::SetTrue),
        OptionKind::Repeated => arg.action(ArgAction::Count),
        OptionKind::Events { .. } | OptionKind::List => arg.action(ArgAction::Append),
        OptionKind::Number | OptionKind::Whole(_) | OptionKind::Port => {
            arg.action(ArgAction::Set).allow_negative_numbers(true)
        }
        kind => match kind.optional_choice() {
            // Accepts `-g --call-graph dwarf`, a common habit: the last one wins.
            Some((bare, _)) => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(bare.to_owned())
                .overrides_with(option.long.clone()),
            None => arg.action(ArgAction::Set),
        },
    }
}

/// Returns the help text, the unit of a bare number and the default:
/// `print longer ones [us without a unit, default 20ms]`.
fn described(option: &OptionSpec) -> String {
    let unit = match &option.kind {
        OptionKind::Duration(bare) => Some(format!("{} without a unit", bare.suffix())),
        OptionKind::Percent => Some("%".to_owned()),
        OptionKind::Size => Some("bytes".to_owned()),
        _ => None,
    };
    let default = option.default.as_ref().map(|text| format!("default {text}"));
    let required = option.required.then(|| "required".to_owned());
    let notes: Vec<String> = unit.into_iter().chain(default).chain(required).collect();
    match (option.help.is_empty(), notes.is_empty()) {
        (_, true) => option.help.clone(),
        (true, false) => format!("[{}]", notes.join(", ")),
        (false, false) => format!("{} [{}]", option.help, notes.join(", ")),
    }
}

/// Returns the value of each option; an absent option has its default.
///
/// # Errors
/// A value does not parse, a required option is missing, or both -c and -F are given.
pub fn values(options: &[OptionSpec], matches: &ArgMatches) -> Result<OptionValues> {
    let mut values = OptionValues::new();
    for option in options {
        values.insert(option.long.clone(), value(option, matches)?);
    }
    // Only typed options conflict: the default of one yields to the other.
    let typed = |long: &str| matches.try_contains_id(long).unwrap_or(false);
    if typed("period") && typed("freq") {
        bail!("-c sets a period and -F a frequency: omit one");
    }
    Ok(values)
}

/// Returns the long names of the options that were typed.
pub fn given(options: &[OptionSpec], matches: &ArgMatches) -> Vec<String> {
    let typed = |long: &str| matches.value_source(long) == Some(ValueSource::CommandLine);
    options.iter().map(|option| option.long.clone()).filter(|long| typed(long)).collect()
}

/// Returns notes on values that are ambiguous; see [`value::bare_durations`].
pub fn understood(options: &[OptionSpec], matches: &ArgMatches) -> Vec<String> {
    let of = |option: &OptionSpec| {
        let arguments = matches.try_get_many::<OsString>(&option.long).ok().flatten();
        let texts = arguments.unwrap_or_default().filter_map(|argument| argument.to_str());
        texts.flat_map(|text| value::bare_durations(option, text)).collect::<Vec<_>>()
    };
    options.iter().flat_map(of).collect()
}

fn value(option: &OptionSpec, matches: &ArgMatches) -> Result<OptionValue> {
    match option.kind {
        OptionKind::Flag => return Ok(OptionValue::Flag(matches.get_flag(&option.long))),
        OptionKind::Repeated => {
            return Ok(OptionValue::Count(matches.get_count(&option.long).into()));
        }
        _ => {}
    }
    if let Some(arguments) = matches.get_many::<OsString>(&option.long) {
        let texts = arguments
            .map(|w| w.to_str().with_context(|| format!("{}: {w:?} is not UTF-8", option.typed())))
            .collect::<Result<Vec<&str>>>()?;
        return value::parse_all(option, &texts);
    }
    match &option.default {
        Some(text) => value::parse(option, text),
        None if option.required => bail!("'{}' is missing", option.typed_with_value()),
        None => Ok(OptionValue::Absent),
    }
}

/// Attaches the argument after an option with an optional value (`-g dwarf` becomes
/// `--call-graph=dwarf`) if it is exactly one of the option's values; any other stays separate.
///
/// clap decides by the number of values and cannot do that. Stops at the first free argument after
/// `positional` others: the rest belongs to a workload.
pub fn attach_choices(
    arguments: Vec<OsString>,
    options: &[OptionSpec],
    mut positional: usize,
) -> Vec<OsString> {
    let mut attached = Vec::with_capacity(arguments.len());
    let mut rest = arguments.into_iter().peekable();
    while let Some(argument) = rest.next() {
        let option = argument.to_str().and_then(|text| last_option(text, options));
        let free = !argument.as_encoded_bytes().starts_with(b"-");
        match option.map(|o| (o, o.kind.optional_choice())) {
            Some((option, Some((_, of)))) => {
                attached.push(argument);
                // Also accepts a value with its size: `dwarf,16384`.
                let is_one = |next: &str| of.contains(&next.split(',').next().unwrap_or_default());
                let next = rest.next_if(|next| next.to_str().is_some_and(is_one));
                if let Some(choice) = next.and_then(|next| next.into_string().ok()) {
                    // A cluster is split before its last letter.
                    if let Some(last) = attached.last_mut() {
                        *last = without_last(last, option);
                    }
                    attached.retain(|w| !w.is_empty());
                    attached.push(format!("--{}={choice}", option.long).into());
                }
            }
            Some((option, _)) if option.needs_value() => {
                attached.push(argument);
                attached.extend(rest.next());
            }
            _ if free && positional == 0 => {
                attached.push(argument);
                attached.extend(rest);
                return attached;
            }
            _ => {
                positional -= usize::from(free);
                attached.push(argument);
            }
        }
    }
    attached
}

/// Returns the option at the end of an argument, whose value would be the next argument: `--freq`,
/// `-F`, the `g` of `-Sg`.
fn last_option<'a>(argument: &str, options: &'a [OptionSpec]) -> Option<&'a OptionSpec> {
    if let Some(long) = argument.strip_prefix("--") {
        return options.iter().find(|o| !o.positional && o.long == long);
    }
    let mut letters = argument.strip_prefix('-')?.chars().peekable();
    while let Some(letter) = letters.next() {
        let option = options.iter().find(|o| !o.positional && o.short == Some(letter))?;
        if letters.peek().is_none() {
            return Some(option);
        }
        if option.needs_value() {
            return None;
        }
    }
    None
}

/// Returns the argument without the option at its end: `-S` for `-Sg`, empty for `-g` and
/// `--call-graph`.
fn without_last(argument: &std::ffi::OsStr, option: &OptionSpec) -> OsString {
    let cluster = argument.to_str().filter(|text| !text.starts_with("--") && text.len() > 2);
    let letter = option.short.unwrap_or_default();
    cluster.and_then(|text| text.strip_suffix(letter)).unwrap_or_default().into()
}
