//! The labels of a series: text of the exposition, by which a series is found.

use super::names::label_name;
use crate::base::report::metric::MetricRow;
use crate::base::text::escape;
use std::borrow::{Borrow, Cow};

/// Maximum length of a label's value, in bytes.
const LABEL_BYTES: usize = 256;

/// Value of each label of the series that has what exceeds the limit.
const OTHER: &str = "(other)";

/// Labels of a series as the exposition has them: `comm="sh",syscall="futex"`. Stores nothing else,
/// so that a page as text copies them, and a row finds its series without an allocation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Labels(Box<str>);

impl Borrow<str> for Labels {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Labels {
    /// Takes the text of a row's labels.
    pub(super) fn new(text: &str) -> Labels {
        Labels(text.into())
    }

    /// Returns the text.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the names and the values.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let mut rest = self.text();
        std::iter::from_fn(move || {
            let name = rest.get(..rest.bytes().position(|byte| byte == b'=')?)?;
            let quoted = rest.get(name.len() + "=\"".len()..)?;
            let (length, is_escaped) = value_length(quoted);
            let value = quoted.get(..length)?;
            rest = quoted.get(length + "\",".len()..).unwrap_or_default();
            Some((name, if is_escaped { unescaped(value).into() } else { value.into() }))
        })
    }
}

/// Returns the length of a value up to its closing quote, and whether something in it is escaped.
fn value_length(quoted: &str) -> (usize, bool) {
    let (mut at, mut is_escaped) = (0, false);
    let bytes = quoted.as_bytes();
    loop {
        match bytes.get(at) {
            Some(b'"') | None => return (at, is_escaped),
            Some(b'\\') => {
                is_escaped = true;
                at += 2;
            }
            Some(_) => at += 1,
        }
    }
}

/// Returns the value that [`push_value`] has written.
fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}

/// The labels of all rows of a table, in one buffer.
pub(super) struct RowLabels {
    text: String,
    /// The end of each row's labels.
    ends: Vec<usize>,
    other: String,
}

impl RowLabels {
    /// Returns the labels of rows with these keys.
    pub(super) fn new(keys: &[String], rows: &[MetricRow]) -> RowLabels {
        let names = label_names(keys);
        let mut labels = RowLabels {
            text: String::new(),
            ends: Vec::with_capacity(rows.len()),
            other: String::new(),
        };
        for row in rows {
            let start = labels.text.len();
            for (name, value) in names.iter().zip(&row.labels) {
                push_label(&mut labels.text, start, name, value);
            }
            labels.ends.push(labels.text.len());
        }
        for name in &names {
            push_label(&mut labels.other, 0, name, OTHER);
        }
        labels
    }

    /// Returns the text of the labels of each row.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let text = self.text.get(start..*end).unwrap_or_default();
            start = *end;
            text
        })
    }

    /// Returns the text of the labels of the series that has what exceeds the limit.
    pub(super) fn other(&self) -> &str {
        &self.other
    }
}

/// Returns labels with the number of the row: another row of the interval has the same ones.
pub(super) fn with_row(labels: &str, number: u32) -> String {
    let mut text = labels.to_owned();
    push_label(&mut text, 0, "row", &number.to_string());
    text
}

/// Returns names for the labels, each once.
fn label_names(keys: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for key in keys {
        let mut name = label_name(key);
        while names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

/// Appends a label to those that begin at `start`.
fn push_label(text: &mut String, start: usize, name: &str, value: &str) {
    if text.len() > start {
        text.push(',');
    }
    text.push_str(name);
    text.push_str("=\"");
    push_value(text, value);
    text.push('"');
}

/// Appends the value of a label: the text as tables show it, because metrics are read in terminals,
/// too.
fn push_value(text: &mut String, value: &str) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if value.len() <= LABEL_BYTES && value.bytes().all(is_plain) {
        text.push_str(value);
        return;
    }
    let mut shown = Cow::Borrowed(value);
    if value.chars().any(escape::harmful) {
        let mut bytes = Vec::new();
        escape::push_shown(&mut bytes, value.as_bytes());
        shown = String::from_utf8_lossy(&bytes).into_owned().into();
    }
    for c in clip(&shown).chars() {
        // A newline is a control character, which is escaped above.
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
}

/// Returns the beginning of a text, at most [`LABEL_BYTES`] long.
fn clip(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LABEL_BYTES)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_read_back_from_the_text() {
        let keys = ["comm", "le", "comm"].map(str::to_owned);
        let values = [["sh", "", "a,b=\"c\"\\"], ["\"", "\\\"", "é\u{1b}"]];
        let rows = values.map(|row| MetricRow {
            labels: row.map(str::to_owned).to_vec(),
            ..MetricRow::default()
        });
        let labels = RowLabels::new(&keys, &rows);
        let texts: Vec<Labels> = labels.iter().map(Labels::new).collect();
        assert_eq!(texts[0].text(), r#"comm="sh",le_="",comm_="a,b=\"c\"\\""#);
        let read: Vec<Vec<_>> = texts.iter().map(|text| text.pairs().collect()).collect();
        let shown = [values[0], ["\"", "\\\"", "é\\x1b"]];
        for (read, shown) in read.iter().zip(shown) {
            let names = ["comm", "le_", "comm_"].into_iter();
            let expected: Vec<_> = names.zip(shown.map(Cow::Borrowed)).collect();
            assert_eq!(*read, expected);
        }
    }

    #[test]
    fn a_row_without_keys_has_no_labels_but_its_number() {
        let labels = RowLabels::new(&[], &[MetricRow::default()]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [""]);
        assert_eq!(labels.other(), "");
        assert_eq!(with_row("", 2), "row=\"2\"");
        assert_eq!(Labels::new("").pairs().count(), 0);
    }
}
