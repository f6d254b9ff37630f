//! The formats of results: a new one is a file here, a variant, a row of `FORMATS`, and its option
//! in the host's table of options.

use super::csv::Csv;
use super::events::Events;
use super::json::Json;
use super::parquet::{Parquet, ParquetSettings};
use super::text::{TextOptions, TextOutput};
use crate::base::report::draw::{Draw, Stamp};
use anyhow::Context as _;
use std::io::Write;

/// A format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// Comma-separated values.
    Csv,
    /// Parquet files in a folder.
    Parquet,
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
    /// The folder of `--parquet`.
    pub parquet: Option<&'a ParquetSettings>,
}

type CreateOutput = fn(OutputParts<'_>) -> anyhow::Result<Box<dyn Draw>>;

/// One format.
struct FormatRow {
    format: OutputFormat,
    /// The option that selects it, without dashes; empty for the default.
    option: &'static str,
    /// Whether notes are part of the results; otherwise they go to stderr.
    notes_in_results: bool,
    create: CreateOutput,
}

const FORMATS: &[FormatRow] = &[
    FormatRow {
        format: OutputFormat::Text,
        option: "",
        notes_in_results: false,
        create: |parts| Ok(Box::new(TextOutput::new(parts.results, parts.messages, parts.look))),
    },
    FormatRow {
        format: OutputFormat::Json,
        option: "json",
        notes_in_results: true,
        create: |parts| Ok(Box::new(Json::new(parts.results, parts.monitor, parts.look.stacks))),
    },
    FormatRow {
        format: OutputFormat::Csv,
        option: "csv",
        notes_in_results: false,
        create: |parts| {
            Ok(Box::new(Csv::new(parts.results, parts.messages, parts.monitor, parts.look)))
        },
    },
    FormatRow {
        format: OutputFormat::Parquet,
        option: "parquet",
        notes_in_results: false,
        create: |parts| {
            let settings = parts.parquet.context("--parquet: the folder is missing")?;
            Ok(Box::new(Parquet::begin(settings, parts.messages, parts.monitor, parts.look)?))
        },
    },
    FormatRow {
        format: OutputFormat::Events,
        option: "events",
        notes_in_results: true,
        create: |parts| Ok(Box::new(Events::new(parts.results, parts.start))),
    },
];

impl OutputFormat {
    /// Returns the format that the options select.
    ///
    /// # Errors
    /// Returns the options if several are given.
    pub fn selected(is_given: impl Fn(&str) -> bool) -> Result<OutputFormat, [&'static str; 2]> {
        let mut given = FORMATS.iter().filter(|row| is_given(row.option));
        match (given.next(), given.next()) {
            (None, _) => Ok(OutputFormat::default()),
            (Some(row), None) => Ok(row.format),
            (Some(one), Some(other)) => Err([one.option, other.option]),
        }
    }

    /// Returns the option that selects it, without the dashes; empty for the default.
    pub fn option(self) -> &'static str {
        self.row().option
    }

    /// Returns whether notes are part of the results; otherwise they go to stderr.
    pub fn has_notes(self) -> bool {
        self.row().notes_in_results
    }

    /// Creates the output.
    ///
    /// # Errors
    /// The folder of Parquet files cannot be written to.
    pub fn create(self, parts: OutputParts<'_>) -> anyhow::Result<Box<dyn Draw>> {
        (self.row().create)(parts)
    }

    fn row(self) -> &'static FormatRow {
        FORMATS.iter().find(|row| row.format == self).unwrap_or(&FORMATS[0])
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
        use OutputFormat::{Csv, Events, Json, Parquet, Text};
        for format in [Text, Json, Csv, Parquet, Events] {
            assert!(FORMATS.iter().any(|row| row.format == format), "{format:?}");
        }
    }
}
