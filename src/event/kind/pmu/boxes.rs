//! PMUs with several boxes: `uncore_imc/TERMS/` stands for `uncore_imc_0/TERMS/`,
//! `uncore_imc_1/TERMS/` and so on.
//!
//! A name without its number, or a glob, selects the boxes; `uncore_` may be omitted. Follows
//! `perf_pmu__wildcard_match()` and `pmu_name_len_no_suffix()`, tools/perf/util/pmu.c.

use anyhow::Result;

use super::names::{pmus, without_suffix};
use crate::base::matching::glob;
use crate::event::kind::pmu_event::ReadPmu;
use crate::event::kind::properties::FoundNames;

/// The prefix that a name may omit.
const UNCORE: &str = "uncore_";

/// Returns the events of all boxes that `PMU/TERMS/` selects, at most `most`; None if it names one
/// PMU, or none.
///
/// # Errors
/// Never: a name without a match is reported as that of a PMU.
pub(in crate::event::kind) fn look_up(
    text: &str,
    read: &ReadPmu<'_>,
    most: usize,
) -> Result<Option<FoundNames>> {
    let Some((wanted, terms)) = text.split_once('/') else { return Ok(None) };
    if wanted.is_empty() || wanted.contains(':') || read(&format!("{wanted}/type")).is_ok() {
        return Ok(None);
    }
    let mut boxes = pmus(read);
    boxes.retain(|name| is_box(wanted, name));
    // By number: 2 before 10.
    boxes.sort_by_key(|name| (without_suffix(name).to_owned(), name.len(), name.clone()));
    boxes.truncate(most);
    let names: Vec<String> = boxes.iter().map(|name| format!("{name}/{terms}")).collect();
    Ok((!names.is_empty()).then_some(FoundNames { category: "pmu", names }))
}

/// Returns whether a name or glob without `/` selects a PMU.
fn is_box(wanted: &str, pmu: &str) -> bool {
    let short = pmu.strip_prefix(UNCORE).filter(|_| !wanted.starts_with(UNCORE)).unwrap_or(pmu);
    match glob::is_glob(wanted) {
        true => glob::matches(wanted.as_bytes(), short.as_bytes()),
        false => without_suffix(short) == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_an_address_is_a_suffix() {
        for (name, stem) in [
            ("uncore_imc_10", "uncore_imc"),
            ("arm_smmuv3_pmcg_ff84", "arm_smmuv3_pmcg"),
            ("cpum_cf", "cpum_cf"),
            ("cpu_core", "cpu_core"),
            ("amd_l3", "amd_l3"),
            ("odd_", "odd_"),
        ] {
            assert_eq!(without_suffix(name), stem, "{name}");
        }
    }

    #[test]
    fn boxes_are_selected_by_name_with_or_without_uncore_and_by_glob() {
        for (wanted, pmu, is) in [
            ("uncore_imc", "uncore_imc_0", true),
            ("imc", "uncore_imc_12", true),
            ("uncore_imc", "uncore_imc_free_running_0", false),
            ("uncore_imc_*", "uncore_imc_free_running_0", true),
            ("uncore_*", "uncore_cha_3", true),
            ("imc_?", "uncore_imc_7", true),
            ("uncore_*", "power", false),
            ("cpu", "cpu_core", false),
        ] {
            assert_eq!(is_box(wanted, pmu), is, "{wanted} {pmu}");
        }
    }
}
