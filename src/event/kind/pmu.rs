//! Events of a PMU: `msr/tsc/`, `cpu/event=0x3c,umask=0x1,edge/pp`.
//!
//! `PMU/TERMS/[MODIFIERS]` is translated with the PMU's files in /sys/bus/event_source/devices/PMU
//! (Documentation/ABI/testing/sysfs-bus-event_source-devices-*): `type`, `events/ALIAS` with its
//! `.unit`, `.scale` and `.snapshot`, `format/TERM`, and `cpumask` or `cpus`. The name of a PMU
//! without its number, or a glob, stands for all boxes of that name (`boxes`).

mod boxes;
mod field;
mod names;
mod terms;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, anyhow, ensure};

use super::counter::Counter;
use super::modifiers::Modifiers;
use super::pmu_event::{PmuEvent, ReadPmu, max_precise};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::cpulist;
pub(super) use boxes::look_up;
pub use names::pmu_events;
use names::{is_file_name, list, pmus};
use terms::TermValues;

/// PMUs of one CPU whose counters are read and never set: they count in all modes, are not
/// multiplexed and take no samples (`pmu_msr` in arch/x86/events/msr.c).
const FREE_RUNNING: [&str; 1] = ["msr"];

/// Returns the name to show and the counter that a text stands for; None if it names no PMU.
///
/// # Errors
/// An unknown modifier; a PMU, term or alias that this machine does not have; a value that is
/// invalid or too large for its term.
pub(super) fn parse(text: &str, read: &ReadPmu<'_>) -> Result<Option<(String, Counter)>> {
    let Some((pmu, rest)) = text.split_once('/') else { return Ok(None) };
    let (terms, modifiers) = rest.rsplit_once('/').unwrap_or((rest, ""));
    let type_ = type_of(pmu, read)?;
    let TermValues { mut attr, name, rate, unit } = terms::values(pmu, terms, read)?;
    attr.type_ = type_;
    let (cpus, is_uncore) = cpus_of(pmu, read)?;
    let modifiers = Modifiers::parse(text, modifiers)?;
    let only_counts = is_uncore || FREE_RUNNING.contains(&pmu);
    if is_uncore {
        modifiers.check_none(text, "the PMU counts for all tasks and modes")?;
    } else if only_counts {
        modifiers.check_none(text, "the PMU counts in all modes, at any time")?;
    }
    modifiers.apply(&mut attr, max_precise(pmu, read)).map_err(|why| anyhow!("{text}: {why}"))?;
    let event = PmuEvent { pmu: pmu.to_owned(), cpus, is_uncore, only_counts, unit, rate };
    let name = name.unwrap_or_else(|| text.to_owned());
    Ok(Some((name, Counter { attr, pmu: Some(Box::new(event)) })))
}

/// Checks that a PMU exists, and returns its `perf_event_attr.type`.
///
/// # Errors
/// There is no PMU of this name.
pub(super) fn type_of(pmu: &str, read: &ReadPmu<'_>) -> Result<u32> {
    ensure!(is_file_name(pmu), "no PMU '{pmu}'; write PMU/TERMS/ as in msr/tsc/");
    let type_ = read(&format!("{pmu}/type")).map_err(|_| {
        let all = pmus(read);
        let guess = did_you_mean(&nearest(pmu, all.iter().map(String::as_str)));
        anyhow!("no PMU '{pmu}' on this machine{guess} ({})", list(&all))
    })?;
    type_.trim().parse().with_context(|| format!("failed to read the type of `{pmu}`"))
}

/// Returns the CPUs that a PMU serves, and whether it counts for sets of CPUs.
fn cpus_of(pmu: &str, read: &ReadPmu<'_>) -> Result<(Option<Vec<u32>>, bool)> {
    for (file, is_uncore) in [("cpumask", true), ("cpus", false)] {
        let Ok(text) = read(&format!("{pmu}/{file}")) else { continue };
        let cpus = cpulist::parse(text.trim()).with_context(|| format!("{pmu}: invalid {file}"))?;
        // An empty list does not limit the CPUs (`pmu_cpumask()`, tools/perf/util/pmu.c).
        if !cpus.is_empty() {
            return Ok((Some(cpus), is_uncore));
        }
    }
    Ok((None, false))
}
