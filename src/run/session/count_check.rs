//! Compares the first counts of a session in the kernel with perf's own counts of the same events.
//!
//! Programs start and stop counting between two readings of the perf events. Their count must
//! therefore lie between two bounds, which differ by the events of some microseconds, and one on
//! each CPU that is being counted.

use std::collections::BTreeSet;

use super::role_opening::planned;
use crate::base::text::units::counted;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::source::counting::perf_counters::PerfCounters;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::clock::monotonic_ns;
use crate::sys::cpus::online_cpus;
use crate::sys::perf::PerfEvent;

/// Time between two looks, in nanoseconds: both count at least so long.
const CHECKED_NS: u64 = 1_000_000_000;
/// After so many looks without an event, the check ends.
const LOOKS: u32 = 30;

/// A check that runs.
pub(super) struct CountCheck {
    counters: PerfCounters,
    /// Events that programs had counted before, and the CPUs that were online.
    counted: u64,
    cpus: Vec<u32>,
    /// The counts of the perf events before and after programs began to count.
    begun: [u64; 2],
    /// When that was, and when both are compared.
    at: u64,
    due: u64,
    looks: u32,
    /// Whether it has waited for events for too long, or CPUs have come or gone.
    is_in_vain: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CheckedCount {
    /// Events that programs counted, and those that they missed. Perf may have missed these, too.
    programs: u64,
    missed: u64,
    /// The bounds of perf's count.
    least: u64,
    most: u64,
    /// Events that may have been between both counts: one for each perf event.
    between: u64,
    seconds: f64,
}

/// Returns the openings of roles that tables count, if a perf event counts the same events once
/// each; otherwise none.
///
/// # Errors
/// Lua is out of memory, or an event cannot be opened.
pub(super) fn comparable(
    host: &Host,
    tables: &BTreeSet<usize>,
    roles: &[Role],
    source: &SourceRequest,
) -> anyhow::Result<Vec<Opening>> {
    let (mut counts, mut known) = (Vec::new(), BTreeSet::new());
    for (count, of) in host.declared_counts()? {
        if tables.contains(&count.table) {
            // The number of events of a set contains one of several tables several times, and not
            // yet those with a stack whose process is not known.
            let is_narrower = count.condition.is_some() || count.keys.iter().any(|k| k == "_stack");
            if is_narrower || of.clone().any(|role| !known.insert(role)) {
                return Ok(Vec::new());
            }
            counts.extend(of);
        }
    }
    let differs = |role: &usize| {
        let role = &roles[*role];
        // The count of some events is nanoseconds.
        !role.rest.is_empty() || role.event.kind().counts_time()
    };
    if counts.iter().any(differs) || online_cpus() != source.cpus {
        return Ok(Vec::new());
    }
    counts.into_iter().map(|role| planned(role, roles, &source.watched)).collect()
}

impl CountCheck {
    /// Starts perf events beside programs that are about to count the events of `openings`, and
    /// have `counted` so many before; None if there are too many, or the kernel refuses one.
    pub(super) fn start(
        openings: &[Opening],
        source: &SourceRequest,
        counted: u64,
    ) -> Option<CountCheck> {
        let counters = PerfCounters::start(openings, source).ok().flatten()?;
        let before = (counters.count() > 0).then(|| counters.read().ok()).flatten()?;
        let (cpus, begun) = (source.cpus.clone(), [before; 2]);
        Some(CountCheck {
            counters,
            counted,
            cpus,
            begun,
            at: 0,
            due: 0,
            looks: 0,
            is_in_vain: false,
        })
    }

    /// Notes that programs have begun to count.
    pub(super) fn begun(&mut self) {
        self.at = monotonic_ns();
        self.due = self.at + CHECKED_NS;
        // Without a reading, the lower bound is lower.
        self.begun[1] = self.counters.read().unwrap_or(u64::MAX);
    }

    /// Returns the events that perf has counted, if both are to be compared now.
    pub(super) fn look(&mut self) -> Option<u64> {
        let now = monotonic_ns();
        if now < self.due {
            return None;
        }
        self.due = now + CHECKED_NS;
        self.looks += 1;
        self.is_in_vain = self.looks > LOOKS || online_cpus() != self.cpus;
        self.counters.read().ok().filter(|read| *read > self.begun[0])
    }

    /// Returns whether it cannot have a result any more.
    pub(super) fn is_in_vain(&self) -> bool {
        self.is_in_vain
    }

    /// Compares what programs have counted so far, and `missed` events, with perf's count before
    /// they were read and now; None if the kernel refuses to return that.
    pub(super) fn compare(&self, counted: u64, missed: u64, before: u64) -> Option<CheckedCount> {
        Some(CheckedCount {
            programs: counted.saturating_sub(self.counted),
            missed,
            least: before.saturating_sub(self.begun[1]),
            most: self.counters.read().ok()?.saturating_sub(self.begun[0]),
            between: self.counters.count() as u64,
            seconds: monotonic_ns().saturating_sub(self.at) as f64 / 1e9,
        })
    }

    /// Ends it. Returns the perf events, to be closed.
    pub(super) fn end(self) -> Vec<PerfEvent> {
        self.counters.into_events()
    }
}

impl CheckedCount {
    /// Returns whether both agree.
    pub(super) fn agrees(&self) -> bool {
        self.programs + self.missed + self.between >= self.least
            && self.programs <= self.most + self.between
    }

    /// Returns the result as a text about these events.
    pub(super) fn text(&self, events: &str) -> String {
        let (programs, seconds) = (counted(self.programs, "event"), self.seconds);
        let CheckedCount { least, most, .. } = self;
        match self.agrees() {
            true => format!(
                "{events}: counted in the kernel without records; perf's own counter agrees with \
                 the first {programs} ({seconds:.1} s)"
            ),
            false => format!(
                "{events}: {programs} counted in the kernel in {seconds:.1} s, but perf's own \
                 counter has {least} to {most}; another BPF program may hide events from one of \
                 them (bpftool prog list)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(programs: u64) -> CheckedCount {
        CheckedCount { programs, missed: 5, least: 990, most: 1010, between: 2, seconds: 1.04 }
    }

    #[test]
    fn a_number_within_the_bounds_agrees() {
        assert!([983, 1000, 1012].map(check).iter().all(CheckedCount::agrees));
        assert!(![0, 982, 1013].map(check).iter().any(CheckedCount::agrees));
    }

    #[test]
    fn the_text_has_both_numbers_if_they_differ() {
        assert_eq!(
            check(1000).text("sched:sched_switch"),
            "sched:sched_switch: counted in the kernel without records; perf's own counter agrees \
             with the first 1000 events (1.0 s)"
        );
        let differ = check(1).text("e");
        assert!(differ.contains("1 event counted") && differ.contains("990 to 1010"), "{differ}");
    }
}
