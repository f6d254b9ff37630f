//! The file of `serve`, TOML: options of the run by their long names, and a table for each monitor.
//!
//! Each key becomes an argument, so that a file and a command line have one meaning. A root run
//! reads only a file that root alone can write.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, bail};
use toml::{Table, Value};

use super::{ServedMonitor, split};
use crate::script::load::trust;
use crate::sys::machine::is_root;

/// Keys of a monitor's table that are not one of its options.
const SCRIPT: &str = "monitor";
const OPTIONS: &str = "options";

/// The arguments of a command line, with those of its files.
pub(super) struct ExpandedWords {
    /// The arguments without the files.
    pub(super) common: Vec<OsString>,
    /// The monitors of the files.
    pub(super) monitors: Vec<ServedMonitor>,
}

/// Replaces the names of files by their contents.
///
/// # Errors
/// A file cannot be read or has another form; a user other than root can change it.
pub(super) fn expanded(words: &[OsString]) -> anyhow::Result<ExpandedWords> {
    let mut expanded = ExpandedWords { common: Vec::new(), monitors: Vec::new() };
    for word in words {
        let path = Path::new(word);
        if path.extension().is_none_or(|ending| ending != "toml") {
            expanded.common.push(word.clone());
            continue;
        }
        let text = trust::read(path, is_root())?;
        parsed(&text)
            .and_then(|table| add(&mut expanded, table))
            .with_context(|| path.display().to_string())?;
    }
    Ok(expanded)
}

/// Parses the text of a file. An error is one line with the number of the line that is wrong.
fn parsed(text: &str) -> anyhow::Result<Table> {
    text.parse().map_err(|why: toml::de::Error| {
        let before = why.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        anyhow::anyhow!("line {line}: {}", why.message().replace('\n', ", "))
    })
}

fn add(expanded: &mut ExpandedWords, table: Table) -> anyhow::Result<()> {
    for (key, value) in table {
        match value {
            Value::Table(options) => {
                let monitor = monitor(&key, options).with_context(|| key.clone())?;
                expanded.monitors.push(monitor);
            }
            value => expanded.common.extend(arguments(&key, &value)?),
        }
    }
    Ok(())
}

fn monitor(name: &str, table: Table) -> anyhow::Result<ServedMonitor> {
    let (mut called, mut words) = (name.to_owned(), Vec::new());
    for (key, value) in table {
        match (key.as_str(), &value) {
            (SCRIPT, Value::String(script)) => called.clone_from(script),
            (OPTIONS, Value::String(options)) => words.extend(split(options)?),
            (SCRIPT | OPTIONS, _) => bail!("{key}: expected a text"),
            _ => words.extend(arguments(&key, &value)?),
        }
    }
    Ok(ServedMonitor { name: name.to_owned(), called, words })
}

/// Converts a key to arguments: `freq = 49` to `--freq=49`; a list to one for each item.
fn arguments(key: &str, value: &Value) -> anyhow::Result<Vec<OsString>> {
    let with = |text: String| vec![OsString::from(format!("--{key}={text}"))];
    Ok(match value {
        Value::Boolean(true) => vec![format!("--{key}").into()],
        Value::Boolean(false) => Vec::new(),
        Value::String(text) => with(text.clone()),
        Value::Integer(number) => with(number.to_string()),
        Value::Float(number) => with(number.to_string()),
        Value::Array(items) => {
            let each = items.iter().map(|item| arguments(key, item));
            each.collect::<anyhow::Result<Vec<_>>>()?.concat()
        }
        other => {
            bail!("{key}: expected a text, a number, true or a list, not a {}", other.type_str())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<ExpandedWords> {
        let mut expanded = ExpandedWords { common: Vec::new(), monitors: Vec::new() };
        add(&mut expanded, parsed(text)?)?;
        Ok(expanded)
    }

    #[test]
    fn a_file_has_the_options_of_a_command_line() {
        let text = "prometheus = 9464\nquiet = true\nself = false\n[syscalls]\nonly = \
                    [\"read\", \"write\"]\n[slow]\nmonitor = \"profile\"\nfreq = 49\n\
                    options = \"-g --kernel-callchain\"\n";
        let read = read(text).unwrap();
        assert_eq!(read.common, ["--prometheus=9464", "--quiet"]);
        let monitors: Vec<_> =
            read.monitors.iter().map(|one| (one.name.as_str(), one.called.as_str())).collect();
        assert_eq!(monitors, [("syscalls", "syscalls"), ("slow", "profile")]);
        assert_eq!(read.monitors[0].words, ["--only=read", "--only=write"]);
        assert_eq!(read.monitors[1].words, ["--freq=49", "-g", "--kernel-callchain"]);
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_place() {
        let why = read("[syscalls]\nonly = 2026-01-01\n").err().unwrap();
        assert_eq!(
            format!("{why:#}"),
            "syscalls: only: expected a text, a number, true or a list, not a datetime"
        );
        let why = read("quiet = true\n[syscalls\n").err().unwrap().to_string();
        assert!(why.starts_with("line 2: ") && !why.contains('\n'), "{why}");
    }
}
