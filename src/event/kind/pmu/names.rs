//! Lists the PMUs of the machine, and the events and terms in their directories.

use std::collections::BTreeMap;

use crate::event::kind::pmu_event::ReadPmu;

/// Maximum number of names in a message.
const NAMED: usize = 24;

/// Returns the events of all PMUs, such as `msr/tsc/`, sorted. Events of boxes are listed for each
/// box, `uncore_imc_0/reads/`, and if there are several, also merged: `uncore_imc/reads/`.
pub fn pmu_events(read: &ReadPmu<'_>) -> Vec<String> {
    let (mut all, mut merged) = (Vec::new(), BTreeMap::<String, usize>::new());
    for pmu in pmus(read) {
        let stem = without_suffix(&pmu);
        for alias in aliases(&pmu, read) {
            all.push(format!("{pmu}/{alias}/"));
            if stem != pmu {
                *merged.entry(format!("{stem}/{alias}/")).or_default() += 1;
            }
        }
    }
    all.extend(merged.into_iter().filter(|(_, boxes)| *boxes > 1).map(|(name, _)| name));
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the names of the PMUs, sorted.
pub(super) fn pmus(read: &ReadPmu<'_>) -> Vec<String> {
    names("", read)
}

/// Returns a name without `_` and a number, which is decimal or has more than two hexadecimal
/// digits.
pub(super) fn without_suffix(name: &str) -> &str {
    let Some((stem, digits)) = name.rsplit_once('_') else { return name };
    let is_decimal = digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_hexadecimal = digits.len() > 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match !digits.is_empty() && (is_decimal || is_hexadecimal) {
        true => stem,
        false => name,
    }
}

/// Returns the names of a PMU's events, sorted, without the files of their units.
pub(super) fn aliases(pmu: &str, read: &ReadPmu<'_>) -> Vec<String> {
    const PARTS: [&str; 5] = [".unit", ".scale", ".snapshot", ".per-pkg", ".retirement_latency"];
    let mut all = names(&format!("{pmu}/events/"), read);
    all.retain(|name| !PARTS.iter().any(|part| name.ends_with(part)));
    all
}

/// Returns the names of a PMU's terms, sorted.
pub(super) fn formats(pmu: &str, read: &ReadPmu<'_>) -> Vec<String> {
    names(&format!("{pmu}/format/"), read)
}

fn names(directory: &str, read: &ReadPmu<'_>) -> Vec<String> {
    let text = read(directory).unwrap_or_default();
    let mut all: Vec<String> =
        text.lines().filter(|name| is_file_name(name)).map(str::to_owned).collect();
    all.sort_unstable();
    all
}

/// Returns `there are a, b and 3 more`, for a message.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => "there are none".to_owned(),
        few if few.len() <= NAMED => format!("there are {}", few.join(", ")),
        many => {
            format!("there are {} and {} more", many[..NAMED].join(", "), many.len() - NAMED)
        }
    }
}

/// Returns whether a name is that of one file, and not a path.
pub(super) fn is_file_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_allowed)
}
