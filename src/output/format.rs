//! The formats of results: a new one is a file here, a variant, a row of `FORMATS`, and its option
//! in the host's table of options.

use super::events::Events;
use super::json::Json;
use super::text::{TextOptions, TextOutput};
use crate::base::report::draw::{Draw, Stamp};
use std::io::Write;

/// A format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// A recording that `--replay` reads.
    Events,
}

/// The parts that outputs are created from.
pub struct OutputParts<'a> {
    /// Where results go.
    pub results: Box<dyn Write>,
    /// Where notes go, if the format has no place for them.
    pub messages: Box<dyn Write>,
    /// The monitor's name.
    pub monitor: &'a str,
    /// The beginning of the run.
    pub start: Stamp,
    /// Options of text; the style of stacks is that of all formats.
    pub look: TextOptions,
}

type CreateOutput = fn(OutputParts<'_>) -> Box<dyn Draw>;

/// Each format with the option that selects it, empty for the default, and its constructor.
const FORMATS: [(OutputFormat, &str, CreateOutput); 3] = [
    (OutputFormat::Text, "", |parts| {
        Box::new(TextOutput::new(parts.results, parts.messages, parts.look))
    }),
    (OutputFormat::Json, "json", |parts| {
        Box::new(Json::new(parts.results, parts.monitor, parts.look.stacks))
    }),
    (OutputFormat::Events, "events", |parts| Box::new(Events::new(parts.results, parts.start))),
];

impl OutputFormat {
    /// Returns the format that the options select.
    ///
    /// # Errors
    /// Returns the options if several are given.
    pub fn selected(is_given: impl Fn(&str) -> bool) -> Result<OutputFormat, [&'static str; 2]> {
        let mut given = FORMATS.iter().filter(|(_, option, _)| is_given(option));
        match (given.next(), given.next()) {
            (None, _) => Ok(OutputFormat::default()),
            (Some((format, _, _)), None) => Ok(*format),
            (Some((_, one, _)), Some((_, other, _))) => Err([one, other]),
        }
    }

    /// Returns the option that selects it, without the dashes; empty for the default.
    pub fn option(self) -> &'static str {
        FORMATS.iter().find(|(format, ..)| *format == self).map_or("", |(_, option, _)| option)
    }

    /// Creates the output.
    pub fn create(self, parts: OutputParts<'_>) -> Box<dyn Draw> {
        let (_, _, create) =
            FORMATS.iter().find(|(format, ..)| *format == self).unwrap_or(&FORMATS[0]);
        create(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_selects_a_format_and_two_exclude_each_other() {
        let selected = |given: &[&str]| OutputFormat::selected(|option| given.contains(&option));
        assert_eq!(selected(&[]), Ok(OutputFormat::Text));
        assert_eq!(selected(&["events"]), Ok(OutputFormat::Events));
        assert_eq!(selected(&["events", "json"]), Err(["json", "events"]));
    }

    #[test]
    fn each_format_has_a_row() {
        for format in [OutputFormat::Text, OutputFormat::Json, OutputFormat::Events] {
            assert!(FORMATS.iter().any(|(row, ..)| *row == format), "{format:?}");
        }
    }
}
