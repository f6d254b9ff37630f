//! A monitor as the source of another one's events: `-e NAME/OPTIONS/`.

use std::ffi::OsString;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Command;
use mlua::Value;

use crate::decode::format::Format;
use crate::event::kind::{DerivedEvent, Event};
use crate::event::rate::SamplingRate;
use crate::script::load::monitor::{Monitor, callbacks};
use crate::script::option::value::{OptionValue, OptionValues};
use crate::script::option::{OptionKind, OptionSpec, args, shared, usage_error};

/// Options of a run, or of its output, which a source does not have.
const OF_THE_RUN: [&str; 8] =
    ["flame-graph", "pprof", "firefox", "otlp-profiles", "diff", "heatmap", "perins", "detail"];

/// Callbacks that a source may have; those of reports are not called.
const CALLED: [&str; 5] = ["init", "filter", "sample", "interval", "deinit"];

/// The options of a source.
#[derive(Debug)]
pub struct SourceOptions {
    /// Values of the monitor's options.
    pub values: OptionValues,
    /// `--watermark`, which applies to the rings of the run.
    pub watermark: Option<u8>,
    /// `-F` or `-c`.
    pub rate: Option<SamplingRate>,
}

/// Returns the event that a monitor emits. `of` is the layout of its own events, if all have the
/// same.
///
/// # Errors
/// It emits none, or is called back for task records.
pub fn event_of(monitor: &Monitor, of: Option<&Format>) -> Result<Event> {
    let name = &monitor.name;
    let Some(columns) = &monitor.emits else {
        bail!(
            "{name}: this monitor emits no events; its file declares those of a source: \
             monitor {{ emits = {{ text {{ \"state\" }} }} }}"
        );
    };
    let has = |callback: &str| {
        monitor.table.raw_get::<Value>(callback).is_ok_and(|value| value.is_function())
    };
    let further = callbacks().find(|callback| !CALLED.contains(callback) && has(callback));
    if let Some(callback) = further {
        bail!(
            "{name}: it has m.{callback}; the source of another monitor's events has events only"
        );
    }
    Ok(Event::new(name, DerivedEvent::new(name, columns, of)))
}

/// Returns the options that a monitor has as a source.
pub fn options(monitor: &Monitor) -> Vec<OptionSpec> {
    let own = monitor.options.iter().filter(|option| !OF_THE_RUN.contains(&option.long.as_str()));
    let watermark = OptionSpec::new(
        "watermark",
        OptionKind::Whole(0),
        "wake when a ring is filled to this percentage",
    );
    own.cloned().chain([watermark]).collect()
}

/// Parses the options of a source.
///
/// # Errors
/// An option is unknown or invalid, or they exclude each other; the error begins with the monitor.
pub fn parse(monitor: &Monitor, words: Vec<String>) -> Result<SourceOptions> {
    let (name, options) = (&monitor.name, options(monitor));
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let positional = options.iter().filter(|option| option.positional).count();
    let words = args::attach_choices(words, &options, positional);
    let lists = format!("(perilune {name} --help lists them)");
    let matches = Command::new(name.clone())
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(args::to_args(&options))
        .try_get_matches_from(words)
        .map_err(|error| anyhow!(usage_error::line(name, &lists, &options, &error)))?;
    let of_source = |error: anyhow::Error| anyhow!("{name}: {error:#}");
    let mut values = args::values(&options, &matches).map_err(of_source)?;
    let percent = match values.shift_remove("watermark") {
        Some(OptionValue::Number(percent)) => Some(percent),
        _ => None,
    };
    ensure!(
        percent.is_none_or(|percent| percent <= 100.0),
        "{name}: --watermark: expected a percentage from 0 to 100"
    );
    shared::check_and_imply(&mut values).map_err(of_source)?;
    let number = |long: &str| match values.get(long) {
        Some(OptionValue::Number(number)) => Some(*number as u64),
        _ => None,
    };
    let period = number("period").map(SamplingRate::Period);
    let rate = period.or(number("freq").filter(|hz| *hz > 0).map(SamplingRate::Frequency));
    Ok(SourceOptions { values, watermark: percent.map(|percent| percent as u8), rate })
}

/// Splits typed options into words. Quotes join words and are removed.
///
/// # Errors
/// A quote is not closed.
pub fn words(text: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if matches!(c, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        bail!("`{text}`: a quote is not closed by another {open}");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_join_the_words_of_options() {
        assert_eq!(words("-F 200  --than=50").unwrap(), ["-F", "200", "--than=50"]);
        assert_eq!(words("--filter 'a b',\"c\" ''").unwrap(), ["--filter", "a b,c", ""]);
        assert!(words("-e 'a").is_err());
    }
}
