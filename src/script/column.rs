//! Columns of a drawn table: their look and their keys in JSON.

use crate::base::draw::{Align, Column};

/// A column of numbers with three decimals at the right.
pub(super) fn column(title: &str, key: &str, width: usize) -> Column {
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
    }
}

/// A title as a JSON key: `run(us)` is `run_us`.
pub(super) fn snake_case(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// Numbers the JSON keys that occur twice, so that an object does not lose one.
pub(super) fn make_unique(columns: &mut [Column]) {
    for i in 1..columns.len() {
        let (before, rest) = columns.split_at_mut(i);
        let Some(column) = rest.first_mut() else { continue };
        let taken = |key: &str| before.iter().any(|other| other.key == key);
        if taken(&column.key) || column.key.is_empty() {
            let stem = if column.key.is_empty() { "column" } else { &column.key };
            let free = (2..).map(|n| format!("{stem}_{n}")).find(|key| !taken(key));
            column.key = free.unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_a_json_key() {
        assert_eq!(snake_case("run(us)"), "run_us");
        assert_eq!(snake_case("PREV_PID"), "prev_pid");
        assert_eq!(snake_case("kvm-exit latency"), "kvm_exit_latency");
    }

    #[test]
    fn no_json_key_occurs_twice() {
        let mut columns = ["a", "a", "", "a"].map(|key| column(key, key, 0));
        make_unique(&mut columns);
        assert_eq!(columns.map(|column| column.key), ["a", "a_2", "column_2", "a_3"]);
    }
}
