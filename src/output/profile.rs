//! Names and tables that the formats of profiles share: pprof and OTLP.

use std::collections::HashMap;

use crate::base::report::flame::Flame;

/// Returns name and unit of the samples of a table.
pub(super) fn sample_type<'a>(table: &'a str, flame: &'a Flame) -> (&'a str, &'a str) {
    let unit = if flame.unit.is_empty() { "stacks" } else { &flame.unit };
    // `kv` is the name of a table that has neither a title nor a count.
    let name = if table.is_empty() || table == "kv" { unit } else { table };
    (name, unit_name(unit))
}

/// Returns a unit by the name that readers of profiles convert.
fn unit_name(unit: &str) -> &str {
    match unit {
        "ns" => "nanoseconds",
        "us" => "microseconds",
        "samples" | "stacks" | "events" | "objects" | "count" => "count",
        unit => unit,
    }
}

/// Unique strings; the first one is empty, as the formats require.
pub(super) struct StringTable {
    all: Vec<String>,
    indexes: HashMap<String, usize>,
}

impl Default for StringTable {
    fn default() -> StringTable {
        StringTable { all: vec![String::new()], indexes: HashMap::from([(String::new(), 0)]) }
    }
}

impl StringTable {
    /// Returns the index of a string.
    pub(super) fn index(&mut self, text: &str) -> usize {
        if let Some(index) = self.indexes.get(text) {
            return *index;
        }
        let index = self.all.len();
        self.all.push(text.to_owned());
        self.indexes.insert(text.to_owned(), index);
        index
    }

    /// Returns the strings in the order of their indexes.
    pub(super) fn into_strings(self) -> Vec<String> {
        self.all
    }
}
