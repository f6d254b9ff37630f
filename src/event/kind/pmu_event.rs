//! Properties of a PMU's event, and the reader of the files that they come from.

use std::io;

use super::properties::CountUnit;
use crate::event::sampling::SamplingRate;

/// Reads a file by its path below /sys/bus/event_source/devices. A path that is empty or ends with
/// `/` lists a directory, one name per line.
pub type ReadPmu<'a> = dyn Fn(&str) -> io::Result<String> + 'a;

/// Properties of a PMU's event besides its `perf_event_attr` fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PmuEvent {
    /// Name of the PMU.
    pub pmu: String,
    /// The CPUs that the PMU serves; None if it serves all.
    pub cpus: Option<Vec<u32>>,
    /// Whether it counts for a set of CPUs (`cpumask`), and neither for tasks nor for modes.
    pub is_uncore: bool,
    /// Whether it counts and takes no samples.
    pub only_counts: bool,
    /// The unit of its counts.
    pub unit: Option<CountUnit>,
    /// The rate of its terms `freq` or `period`.
    pub rate: Option<SamplingRate>,
}

/// Returns the highest `precise_ip` of a PMU; None if it does not declare one.
pub(super) fn max_precise(pmu: &str, read: &ReadPmu<'_>) -> Option<u8> {
    read(&format!("{pmu}/caps/max_precise")).ok()?.trim().parse().ok()
}
