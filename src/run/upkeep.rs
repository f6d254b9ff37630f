//! Work of a run between two drains: its priority, changes of the machine, counts in the kernel and
//! its budget.

use super::budget::prices::slow_path;
use super::budget::{BudgetKeeper, ThinnedEvents};
use super::kernel_counts::KernelCounts;
use super::machine_changes::MachineChanges;
use super::request::{CountingPlace, RunOptions, RunRequest};
use super::schedule::Schedule;
use crate::base::report::draw::Level;
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::source::live::Live;
use crate::source::request::{Opening, SourceRequest};
use crate::sys::sched::{self, RtBoost};

/// Work between two drains.
pub(super) struct Upkeep {
    pub(super) boost: Option<RtBoost>,
    pub(super) changes: MachineChanges,
    pub(super) counts: KernelCounts,
    pub(super) budget: Option<BudgetKeeper>,
}

impl Upkeep {
    /// Opens the counts in the kernel, whose events are removed from `openings`, and the budget.
    ///
    /// # Errors
    /// As [`KernelCounts::open`].
    pub(super) fn open(
        host: &Host,
        request: &RunRequest,
        roles: &[Role],
        source: &SourceRequest,
        openings: &mut Vec<Opening>,
    ) -> anyhow::Result<Upkeep> {
        let may_count =
            request.options.budget.is_some() && request.options.counting != CountingPlace::User;
        // The programs of counts make system calls slower, even before they count.
        let slow_path = if may_count { slow_path(roles) } else { 0.0 };
        let counts = KernelCounts::open(host, request, roles, source, (openings, &[]))?;
        let opened = (openings.as_slice(), source.own_tids.as_slice());
        let budget = BudgetKeeper::begin(request, opened, &counts, slow_path, host.context());
        Ok(Upkeep { boost: None, changes: MachineChanges::default(), counts, budget })
    }

    /// Lets the budget look at the load before the events are enabled.
    ///
    /// # Errors
    /// The kernel refuses to count.
    pub(super) fn look(&mut self, live: &mut Live, source: &SourceRequest) -> anyhow::Result<()> {
        let Some(budget) = &mut self.budget else { return Ok(()) };
        budget.look(&mut ThinnedEvents { live, counts: &mut self.counts }, source)
    }

    /// Begins with the run, when its events have been enabled.
    ///
    /// # Errors
    /// The kernel refuses to switch events, or to return its counts.
    pub(super) fn begin(
        &mut self,
        host: &mut Host,
        live: &mut Live,
        settings: &RunOptions,
        schedule: &Schedule,
    ) -> anyhow::Result<()> {
        if let Some(budget) = &mut self.budget {
            budget.start(host, ThinnedEvents { live, counts: &mut self.counts }, schedule)?;
        }
        self.boost = raise_priority(settings, host.context());
        self.changes = MachineChanges::begin(live);
        Ok(())
    }

    /// Disables the events.
    pub(super) fn disable(&mut self, host: &mut Host, live: &mut Live) -> anyhow::Result<()> {
        let counts = &mut self.counts;
        // The length of the slice is the time in which events were on.
        let end = |budget: &mut BudgetKeeper| budget.end(host, &mut ThinnedEvents { live, counts });
        let ended = self.budget.as_mut().map_or(Ok(()), end);
        let held = self.counts.hold();
        live.disable();
        ended.and(held)
    }

    /// Returns the longest time until the next drain, in milliseconds; `report` is the time of the
    /// next report.
    pub(super) fn wait_ms(&self, live: &Live, report: f64) -> f64 {
        let of_counts = self.counts.wait_ms(live.now());
        let of_budget = |budget: &BudgetKeeper| budget.wait_ms(live, report).min(of_counts);
        self.budget.as_ref().map_or(of_counts, of_budget)
    }

    /// Returns whether a budget holds records back.
    pub(super) fn holds(
        &mut self,
        host: &mut Host,
        live: &mut Live,
        report: f64,
    ) -> anyhow::Result<bool> {
        let Some(budget) = &mut self.budget else { return Ok(false) };
        budget.holds(host, &mut ThinnedEvents { live, counts: &mut self.counts }, report)
    }

    /// Lets a budget decide anew. Returns whether the run must end because it exceeds it.
    pub(super) fn exceeds(
        &mut self,
        host: &mut Host,
        live: &mut Live,
        report: f64,
    ) -> anyhow::Result<bool> {
        let Some(budget) = &mut self.budget else { return Ok(false) };
        budget.check(host, ThinnedEvents { live, counts: &mut self.counts }, report)
    }
}

/// Requests short time slices, and a real-time priority with `--realtime`. The workload exists
/// already and keeps its own.
pub(super) fn raise_priority(settings: &RunOptions, shared: &SharedContext) -> Option<RtBoost> {
    /// Percent of a CPU: two million events a second take a tenth with most handlers.
    const CPU_PERCENT: u64 = 50;
    sched::request_short_slices();
    let boost = settings.realtime.then(|| RtBoost::request(CPU_PERCENT))?;
    if boost.is_none() {
        let text = "--realtime: not permitted, or perilune already has another priority (chrt, \
                    nice); the priority is unchanged";
        shared.note(Level::Warning, text);
    }
    boost
}
