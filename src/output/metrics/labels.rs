//! The labels of a series, from the keys of a row.

use super::names::label_name;
use crate::base::report::metric::MetricRow;
use crate::base::text::escape;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum length of a label's value, in bytes.
const LABEL_BYTES: usize = 256;

/// Labels of a series: names and values.
pub(super) type Labels = Vec<(Arc<str>, Box<str>)>;

/// Returns names for the labels, each once.
pub(super) fn label_names(keys: &[String]) -> Vec<Arc<str>> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for key in keys {
        let mut name = label_name(key);
        while names.iter().any(|other| **other == *name) {
            name.push('_');
        }
        names.push(name.into());
    }
    names
}

/// Returns the labels of a row.
pub(super) fn labels(names: &[Arc<str>], row: &MetricRow) -> Labels {
    names.iter().zip(&row.labels).map(|(name, value)| (name.clone(), label(value))).collect()
}

/// Returns the value of a label: the text as tables show it, because metrics are read in terminals,
/// too.
fn label(text: &str) -> Box<str> {
    if !text.chars().any(escape::harmful) {
        return clip(text).into();
    }
    let mut shown = Vec::new();
    escape::push_shown(&mut shown, text.as_bytes());
    clip(&String::from_utf8_lossy(&shown)).into()
}

/// Returns the beginning of a text, at most [`LABEL_BYTES`] long.
fn clip(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LABEL_BYTES)).unwrap_or_default()
}

/// Adds a label with the number of the row if another row of the interval has the same labels.
pub(super) fn number_repeated(repeated: &mut HashMap<Labels, u32>, labels: &mut Labels) {
    let times = repeated.entry(labels.clone()).or_insert(0);
    *times += 1;
    if *times > 1 {
        labels.push(("row".into(), times.to_string().into()));
    }
}
