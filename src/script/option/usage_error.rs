//! Converts clap's errors into a single line: what, why, how to fix it.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{
    base::matching::nearest::{did_you_mean, nearest},
    event::other_tools,
    script::option::OptionSpec,
};

/// Returns the line for an error in the arguments of the monitor `name`; `options` are all options
/// that it has, and `lists` says what lists them.
pub fn line(name: &str, lists: &str, options: &[OptionSpec], error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        Some(ContextValue::Strings(texts)) => texts.first().map_or("", String::as_str),
        _ => "",
    };
    // clap reports an option with its value, `--filter <GLOB>`.
    let arg = context(ContextKind::InvalidArg).split([' ', '=', '[']).next().unwrap_or_default();
    let value = context(ContextKind::InvalidValue);
    let option = options.iter().find(|o| arg.strip_prefix("--") == Some(&o.long));
    let typed = option.map_or_else(|| arg.to_owned(), OptionSpec::typed);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let hint = match other_tools::hint(name, arg) {
                _ if is_negative(arg) => format!("; a negative value follows `=`: --OPTION={arg}"),
                none if none.is_empty() => nearest_option(arg, options),
                hint => hint,
            };
            format!("{name}: no option '{arg}'{hint} {lists}")
        }
        ErrorKind::InvalidValue | ErrorKind::NoEquals | ErrorKind::TooFewValues
            if value.is_empty() =>
        {
            let example = option.map_or_else(|| typed.clone(), OptionSpec::typed_with_value);
            format!("{name}: '{typed}' needs a value: {example}")
        }
        ErrorKind::TooManyValues => {
            format!("{name}: '{typed}' takes no value; omit '={value}'")
        }
        ErrorKind::ArgumentConflict => format!("{name}: '{typed}' is given twice; give it once"),
        _ => format!("{name}: {} {lists}", first_line(error)),
    }
}

/// Returns whether an argument is a negative number, which clap takes for an option.
fn is_negative(arg: &str) -> bool {
    arg.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn nearest_option(arg: &str, options: &[OptionSpec]) -> String {
    let Some(word) = arg.strip_prefix("--") else { return String::new() };
    let near = nearest(word, options.iter().map(|o| o.long.as_str()));
    let dashed: Vec<String> = near.iter().map(|long| format!("--{long}")).collect();
    did_you_mean(&dashed.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns clap's own text, without its prefix.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
