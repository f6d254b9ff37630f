//! Options as clap takes them, and back from what it matched.
//!
//! clap splits the words and prints the help; what a value means and what is missing is judged by
//! [`super::value`], so that each message has one form.

use std::ffi::OsString;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, builder::ValueParser};

use super::{
    Kind, OptionSpec,
    value::{self, OptionValue, Values},
};

/// Each option as an argument whose id is its long name.
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
        Kind::Flag => arg.action(ArgAction::SetTrue),
        Kind::Repeated => arg.action(ArgAction::Count),
        Kind::Events { .. } | Kind::List => arg.action(ArgAction::Append),
        Kind::Number => arg.action(ArgAction::Set).allow_negative_numbers(true),
        kind => match kind.optional_word() {
            // `-g --call-graph dwarf` is a habit: the last one says which.
            Some((bare, _)) => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(bare.to_owned())
                .overrides_with(option.long.clone()),
            None => arg.action(ArgAction::Set),
        },
    }
}

/// The help text with what a number without a unit means, and the default: `print longer ones [us without a unit, default 20ms]`.
fn described(option: &OptionSpec) -> String {
    let unit = match &option.kind {
        Kind::Duration(bare) => Some(format!("{} without a unit", bare.suffix())),
        Kind::Percent => Some("%".to_owned()),
        Kind::Size => Some("bytes".to_owned()),
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

/// The value of each option. Absent ones get their default; a required one that is missing is an error.
pub fn values(options: &[OptionSpec], matches: &ArgMatches) -> Result<Values> {
    let mut values = Values::new();
    for option in options {
        values.insert(option.long.clone(), value(option, matches)?);
    }
    // One that is only a default stands behind the other.
    let typed = |long: &str| matches.try_contains_id(long).unwrap_or(false);
    if typed("period") && typed("freq") {
        bail!("-c is a period and -F a frequency: leave one away");
    }
    Ok(values)
}

/// What was understood of values that leave something open; see [`value::bare_durations`].
pub fn understood(options: &[OptionSpec], matches: &ArgMatches) -> Vec<String> {
    let of = |option: &OptionSpec| {
        let words = matches.try_get_many::<OsString>(&option.long).ok().flatten();
        let texts = words.unwrap_or_default().filter_map(|word| word.to_str());
        texts.flat_map(|text| value::bare_durations(option, text)).collect::<Vec<_>>()
    };
    options.iter().flat_map(of).collect()
}

fn value(option: &OptionSpec, matches: &ArgMatches) -> Result<OptionValue> {
    match option.kind {
        Kind::Flag => return Ok(OptionValue::Flag(matches.get_flag(&option.long))),
        Kind::Repeated => {
            return Ok(OptionValue::Count(matches.get_count(&option.long).into()));
        }
        _ => {}
    }
    if let Some(words) = matches.get_many::<OsString>(&option.long) {
        let texts = words
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

/// Attaches the word after an option whose word may be left out (`-g dwarf` becomes `--call-graph=dwarf`)
/// if it is exactly one of the option's; any other word stays what it is.
///
/// clap decides by number and cannot do that. Nothing from the first free word on is looked at beyond the
/// `positional` first ones: it belongs to a workload.
pub fn attach_choices(
    words: Vec<OsString>,
    options: &[OptionSpec],
    mut positional: usize,
) -> Vec<OsString> {
    let mut attached = Vec::with_capacity(words.len());
    let mut rest = words.into_iter().peekable();
    while let Some(word) = rest.next() {
        let option = word.to_str().and_then(|text| last_option(text, options));
        let free = !word.as_encoded_bytes().starts_with(b"-");
        match option.map(|o| (o, o.kind.optional_word())) {
            Some((option, Some((_, of)))) => {
                attached.push(word);
                // `dwarf,16384` is one of the words, too, with what belongs to it.
                let is_one = |next: &str| of.contains(&next.split(',').next().unwrap_or_default());
                let next = rest.next_if(|next| next.to_str().is_some_and(is_one));
                if let Some(choice) = next.and_then(|next| next.into_string().ok()) {
                    // The last letter of a cluster goes on as an option of its own.
                    if let Some(last) = attached.last_mut() {
                        *last = without_last(last, option);
                    }
                    attached.retain(|w| !w.is_empty());
                    attached.push(format!("--{}={choice}", option.long).into());
                }
            }
            Some((option, _)) if option.needs_value() => {
                attached.push(word);
                attached.extend(rest.next());
            }
            _ if free && positional == 0 => {
                attached.push(word);
                attached.extend(rest);
                return attached;
            }
            _ => {
                positional -= usize::from(free);
                attached.push(word);
            }
        }
    }
    attached
}

/// The option that a word ends with and that so takes its value from the next word: `--freq`, `-F`, the `g` of `-Sg`.
fn last_option<'a>(word: &str, options: &'a [OptionSpec]) -> Option<&'a OptionSpec> {
    if let Some(long) = word.strip_prefix("--") {
        return options.iter().find(|o| !o.positional && o.long == long);
    }
    let mut letters = word.strip_prefix('-')?.chars().peekable();
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

/// The word without the option that it ends with: `-S` of `-Sg`, nothing of `-g` and `--call-graph`.
fn without_last(word: &std::ffi::OsStr, option: &OptionSpec) -> OsString {
    let cluster = word.to_str().filter(|text| !text.starts_with("--") && text.len() > 2);
    let letter = option.short.unwrap_or_default();
    cluster.and_then(|text| text.strip_suffix(letter)).unwrap_or_default().into()
}
