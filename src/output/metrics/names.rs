//! Names and units by the conventions of Prometheus: base units, the unit last, only letters,
//! digits and `_`.

/// The unit of a family, with the divisor that converts a column's values to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MetricUnit {
    /// `seconds`, `bytes`, `ratio`; empty for a plain number.
    pub(super) name: &'static str,
    pub(super) divisor: f64,
}

/// A number without a unit.
const PLAIN: MetricUnit = MetricUnit { name: "", divisor: 1.0 };

/// Units at the end of a column's key, and in the option `unit` of histograms. Numbers of bytes in
/// KiB and larger units are multiplied.
const UNITS: &[(&str, MetricUnit)] = &[
    ("ns", MetricUnit { name: "seconds", divisor: 1e9 }),
    ("us", MetricUnit { name: "seconds", divisor: 1e6 }),
    ("ms", MetricUnit { name: "seconds", divisor: 1e3 }),
    ("s", MetricUnit { name: "seconds", divisor: 1.0 }),
    ("bytes", MetricUnit { name: "bytes", divisor: 1.0 }),
    ("kib", MetricUnit { name: "bytes", divisor: 1.0 / 1024.0 }),
    ("mib", MetricUnit { name: "bytes", divisor: 1.0 / 1_048_576.0 }),
    ("percent", MetricUnit { name: "ratio", divisor: 100.0 }),
];

/// Returns the unit with this name.
pub(super) fn unit_of(name: &str) -> MetricUnit {
    let found = UNITS.iter().find(|(unit, _)| name.eq_ignore_ascii_case(unit));
    found.map_or(PLAIN, |(_, unit)| *unit)
}

/// Splits the key of a column into its name and its unit: `wait_us` is `wait` in seconds. `percent`
/// may also come first: `percent_usr`. A variance has the square of the unit, and a rate none.
pub(super) fn split_unit(key: &str) -> (String, MetricUnit) {
    if let Some(of) = key.strip_suffix("_variance") {
        let (name, unit) = split_unit(of);
        let parts = [name.as_str(), unit.name, "variance"];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        return (parts.join("_"), MetricUnit { name: "", divisor: unit.divisor * unit.divisor });
    }
    if key.ends_with("_per_s") {
        return (key.to_owned(), PLAIN);
    }
    let words: Vec<&str> = key.split('_').collect();
    let unit = |word: Option<&&str>| word.map_or(PLAIN, |word| unit_of(word));
    match (unit(words.last()), words.first()) {
        (unit, _) if unit != PLAIN => (words[..words.len() - 1].join("_"), unit),
        (_, Some(&"percent")) => (words[1..].join("_"), unit_of("percent")),
        _ => (key.to_owned(), PLAIN),
    }
}

/// Names of tables that only repeat their kind.
const GENERIC: [&str; 6] = ["kv", "latency", "hist", "states", "report", "table"];

/// Returns the name of a family without its unit: `perilune`, the monitor, the table unless its
/// name is generic, and the column; a part that repeats the one before is omitted.
pub(super) fn family_name(monitor: &str, table: &str, column: &str) -> String {
    let table = identifier(table);
    // `latency_2` is the second table without a title of its own: only the number distinguishes it.
    let (kind, number) = match table.rsplit_once('_') {
        Some((kind, number)) if number.bytes().all(|b| b.is_ascii_digit()) => (kind, number),
        _ => (table.as_str(), ""),
    };
    let table = if GENERIC.contains(&kind) { number } else { &table };
    let mut parts = vec!["perilune".to_owned(), identifier(monitor)];
    for part in [table.to_owned(), identifier(column)] {
        if !part.is_empty() && parts.last() != Some(&part) {
            parts.push(part);
        }
    }
    parts.join("_")
}

/// Returns a name without its unit, and whether it has one.
pub(super) fn base_name<'a>(name: &'a str, unit: &str) -> (&'a str, bool) {
    let base = name.strip_suffix(unit).and_then(|base| base.strip_suffix('_'));
    match base.filter(|_| !unit.is_empty()) {
        Some(base) => (base, true),
        None => (name, false),
    }
}

/// Returns a name of a label: with a trailing `_` if Prometheus uses it itself.
pub(super) fn label_name(key: &str) -> String {
    let name = identifier(key);
    let name = name.trim_start_matches('_');
    match name {
        "" => "key".to_owned(),
        "le" | "quantile" | "job" | "instance" => format!("{name}_"),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("n{name}"),
        name => name.to_owned(),
    }
}

/// Returns a text in lower case, with other characters than ASCII letters and digits as `_`, and
/// without `_` at both ends.
pub fn identifier(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    text.chars().map(plain).collect::<String>().trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(key: &str) -> (String, &'static str, f64) {
        let (name, unit) = split_unit(key);
        (name, unit.name, unit.divisor)
    }

    #[test]
    fn the_unit_of_a_column_becomes_a_base_unit() {
        assert_eq!(split("wait_us"), ("wait".to_owned(), "seconds", 1e6));
        assert_eq!(split("bytes"), (String::new(), "bytes", 1.0));
        assert_eq!(split("disk_bytes"), ("disk".to_owned(), "bytes", 1.0));
        assert_eq!(split("percent_usr"), ("usr".to_owned(), "ratio", 100.0));
        assert_eq!(split("idle_percent"), ("idle".to_owned(), "ratio", 100.0));
        assert_eq!(split("switches"), ("switches".to_owned(), "", 1.0));
        assert_eq!(split("mib_per_s"), ("mib_per_s".to_owned(), "", 1.0));
    }

    #[test]
    fn a_variance_has_the_square_of_the_unit() {
        assert_eq!(split("wait_us_variance"), ("wait_seconds_variance".to_owned(), "", 1e12));
        assert_eq!(split("bytes_variance"), ("bytes_variance".to_owned(), "", 1.0));
        assert_eq!(split("calls_variance"), ("calls_variance".to_owned(), "", 1.0));
        assert_eq!(split("percent_usr_variance"), ("usr_ratio_variance".to_owned(), "", 1e4));
    }

    #[test]
    fn a_family_is_named_after_monitor_table_and_column() {
        assert_eq!(family_name("syscalls", "latency", "duration"), "perilune_syscalls_duration");
        assert_eq!(family_name("syscalls", "errors", "errors"), "perilune_syscalls_errors");
        assert_eq!(family_name("page-faults", "kv", "pages"), "perilune_page_faults_pages");
        assert_eq!(
            family_name("rundelay", "latency_2", "duration"),
            "perilune_rundelay_2_duration"
        );
    }

    #[test]
    fn a_label_has_a_name_that_prometheus_does_not_use() {
        assert_eq!(
            ["comm", "le", "job", "3", "prev pid", "__name__"].map(label_name),
            ["comm", "le_", "job_", "n3", "prev_pid", "name"]
        );
    }
}
