//! Columns of a table: layout and JSON keys.

use crate::base::report::draw::{Align, Column};

/// Returns a right-aligned column of numbers with three decimals.
pub(in crate::script) fn column(title: &str, key: &str, width: usize) -> Column {
    Column {
        title: title.to_owned(),
        key: key.to_owned(),
        width,
        align: Align::Right,
        decimals: Some(3),
        shrinks: false,
        arrow: false,
        json_only: false,
        spare: false,
        metric: Default::default(),
    }
}

/// Returns the column of the errors of the estimates in another column.
pub(in crate::script) fn error_column(of: &str, shrinks: bool) -> Column {
    let key = format!("{}_error", column_key(of));
    Column { decimals: Some(if shrinks { 3 } else { 0 }), shrinks, ..column("±", &key, 6) }
}

/// Returns a title as a JSON key, for every kind of output: lower case, words joined by `_`, `%`
/// spelt out, and a final `/s`. `max(us)` is `max_us`, `share%` is `share_percent`, `reads/s` is
/// `reads_per_s`; `otherwise` if the title has no word.
pub(in crate::script) fn json_key(title: &str, otherwise: &str) -> String {
    let rate = title.strip_suffix("/s").map(|of| format!("{of} per s"));
    let lower = rate.as_deref().unwrap_or(title).replace('%', " percent ").to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    if words.is_empty() { otherwise.to_owned() } else { words.join("_") }
}

/// Returns the JSON key of a column.
pub(in crate::script) fn column_key(title: &str) -> String {
    json_key(title, "column")
}

/// Appends a number to repeated JSON keys, so that an object does not lose one.
pub(in crate::script) fn make_unique(columns: &mut [Column]) {
    for i in 1..columns.len() {
        let (before, rest) = columns.split_at_mut(i);
        let Some(column) = rest.first_mut() else { continue };
        let is_used = |key: &str| before.iter().any(|other| other.key == key);
        if is_used(&column.key) {
            let free = (2..).map(|n| format!("{}_{n}", column.key)).find(|key| !is_used(key));
            column.key = free.unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_a_json_key() {
        assert_eq!(
            [
                "run(us)",
                "PREV_PID",
                "kvm-exit latency",
                "%usr",
                "share%",
                "L1 misses",
                "MiB/s",
                "--"
            ]
            .map(column_key),
            [
                "run_us",
                "prev_pid",
                "kvm_exit_latency",
                "percent_usr",
                "share_percent",
                "l1_misses",
                "mib_per_s",
                "column"
            ]
        );
        assert_eq!(json_key("--", "report"), "report");
    }

    #[test]
    fn json_keys_are_unique() {
        let mut columns = ["a", "a", "--", "a"].map(|title| column(title, &column_key(title), 0));
        make_unique(&mut columns);
        assert_eq!(columns.map(|column| column.key), ["a", "a_2", "column", "a_3"]);
    }
}
