//! Counts in the kernel that a budget switches off and on.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;

use super::KernelCounts;
use super::count_plan::CountPlan;
use crate::script::host::Host;
use crate::source::counts::{CpuEvents, SwitchedEvents};
use crate::stat::weight::EventWeight;
use crate::sys::bpf::{MeasuredRuns, measure_runs};
use crate::sys::clock::monotonic_ns;

/// Runs whose mean is the price of an event: many, since rare events find cold caches.
const PRICED_RUNS: u64 = 5000;
/// The same in a moment.
const LOOKED_RUNS: u64 = 2000;
/// The call of a program at a raw tracepoint, with what it displaces from the caches.
const CALL_NS: f64 = 15.0;
static CLOCK_NS: OnceLock<f64> = OnceLock::new();
/// An N that is larger than the number of events of a moment.
const RAREST: u64 = 1 << 40;

/// The counts of a moment before the run.
pub(in crate::run) struct CountedMoment {
    /// Events of all CPUs.
    pub(in crate::run) events: u64,
    /// Nanoseconds.
    pub(in crate::run) lasted: f64,
    /// The cost of an event that is counted, and of one that is not, in nanoseconds; None if there
    /// were too few.
    pub(in crate::run) counted_ns: Option<f64>,
    pub(in crate::run) skipped_ns: Option<f64>,
}

/// Returns what an event has cost since `before`, if there were `enough` runs: the mean time of a
/// run without the reading of the clock that it contains, and the call of the program.
fn price_ns(now: MeasuredRuns, before: MeasuredRuns, enough: u64) -> Option<f64> {
    let MeasuredRuns { ns, runs } = now.since(before);
    let reading = || *CLOCK_NS.get_or_init(clock_ns);
    (runs >= enough).then(|| (ns as f64 / runs as f64 - reading()).max(0.0) + CALL_NS)
}

/// Returns how long a reading of the clock takes, in nanoseconds.
fn clock_ns() -> f64 {
    const READINGS: u32 = 1000;
    let of_round = || {
        let begun = monotonic_ns();
        for _ in 0..READINGS {
            std::hint::black_box(monotonic_ns());
        }
        (monotonic_ns() - begun) as f64 / f64::from(READINGS)
    };
    (0..5).map(|_| of_round()).fold(f64::INFINITY, f64::min)
}

/// The state of counts that are switched.
pub(super) struct ThinnedCounts {
    weight: Rc<EventWeight>,
    /// Events that others stand for.
    pub(super) events: u64,
    is_off: bool,
    /// Whether nothing has been counted since the last reading.
    pub(super) is_empty: bool,
    /// The file that makes the kernel measure its programs, and the runs before.
    measuring: Option<OwnedFd>,
    measured: MeasuredRuns,
    runs: CpuEvents,
    /// The runs that were measured before the run began.
    looked: MeasuredRuns,
    /// Events of roles that were missed, and undefined operations, before the run began.
    missed: BTreeMap<u32, u64>,
    undefined: u64,
}

impl ThinnedCounts {
    pub(super) fn new(weight: Rc<EventWeight>) -> ThinnedCounts {
        ThinnedCounts {
            weight,
            events: 0,
            is_off: false,
            is_empty: false,
            measuring: None,
            measured: MeasuredRuns::default(),
            runs: CpuEvents::default(),
            looked: MeasuredRuns::default(),
            missed: BTreeMap::new(),
            undefined: 0,
        }
    }

    /// Notes that so many events of the current weight were added.
    pub(super) fn add(&mut self, count: u64) {
        self.events += (count as f64 * (self.weight.get() - 1.0)).round() as u64;
    }
}

impl KernelCounts {
    /// Lets a budget switch the counts off and on, if they are all that the run does; otherwise all
    /// events need records.
    pub(super) fn enable_switching(&mut self, host: &Host, plan: &mut CountPlan<'_>) {
        let is_alone = self.roles.len() == plan.roles.len() && self.pairs.roles().is_empty();
        let why = match () {
            () if !is_alone => "with --budget, records of the run are thinned together",
            () if plan.source.watched != plan.source.cpus => "--budget of single CPUs",
            () if !self.counting.can_switch() => "--budget needs programs at raw tracepoints",
            () => {
                self.thinned = Some(ThinnedCounts::new(host.context().weight()));
                return;
            }
        };
        let counted = self.roles.iter().map(|role| (*role as usize, why.to_owned()));
        plan.reasons.extend(counted);
        *self = KernelCounts::default();
    }

    /// Returns whether all events of the run are counted here, and a budget switches them.
    pub(in crate::run) fn are_thinned(&self) -> bool {
        self.thinned.is_some()
    }

    /// Returns how often programs have run on each CPU.
    pub(in crate::run) fn runs_by_cpu(&self) -> Vec<CpuEvents> {
        self.counting.runs_by_cpu().unwrap_or_default()
    }

    /// Returns whether a table must be read before it is full.
    pub(in crate::run) fn need_room(&self) -> bool {
        self.counting.is_nearly_full().unwrap_or(false)
    }

    /// Counts for a moment before the run begins, then for another one with one event in so many
    /// that next to none has more than a look. Forgets the counts.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(in crate::run) fn look(&mut self, moment: Duration) -> anyhow::Result<CountedMoment> {
        let measuring = measure_runs();
        let looked = self.look_twice(moment).context("failed to count events before the run");
        drop(measuring);
        let (missed, undefined) = (self.counting.missed(), self.counting.undefined());
        let measured = self.counting.measured();
        if let Some(thinned) = &mut self.thinned {
            (thinned.missed, thinned.undefined) = (missed, undefined);
            thinned.looked = measured;
        }
        looked
    }

    fn look_twice(&mut self, moment: Duration) -> io::Result<CountedMoment> {
        let counting = &mut self.counting;
        counting.begin()?;
        let (begun, before) = (counting.switch(true)?, counting.measured());
        std::thread::sleep(moment);
        let (ended, full) = (counting.switch(false)?, counting.measured());
        counting.count_one_in(RAREST, || RAREST - 1)?;
        counting.switch(true)?;
        std::thread::sleep(moment / 2);
        counting.switch(false)?;
        let skipped = counting.measured();
        counting.stop()?;
        counting.collect(u64::MAX, &mut |_, _| {})?;
        counting.count_one_in(1, || 0)?;
        counting.switch(true)?;
        Ok(CountedMoment {
            events: CpuEvents::sum(&ended.by_cpu).since(CpuEvents::sum(&begun.by_cpu)).all,
            lasted: (ended.at - begun.at) as f64,
            counted_ns: price_ns(full, before, LOOKED_RUNS),
            skipped_ns: price_ns(skipped, full, LOOKED_RUNS),
        })
    }

    /// Returns how many events of a role were missed before the run began.
    pub(super) fn missed_before_run(&self, role: u32) -> u64 {
        let missed = self.thinned.as_ref().and_then(|thinned| thinned.missed.get(&role));
        missed.copied().unwrap_or(0)
    }

    /// Returns how many operations were undefined before the run began.
    pub(super) fn undefined_before_run(&self) -> u64 {
        self.thinned.as_ref().map_or(0, |thinned| thinned.undefined)
    }

    /// Lets the kernel measure its programs until [`KernelCounts::take_price`].
    pub(in crate::run) fn measure_price(&mut self) {
        if self.thinned.as_ref().is_none_or(|thinned| thinned.measuring.is_some()) {
            return;
        }
        let (measured, runs) = (self.counting.measured(), self.runs_by_cpu());
        if let Some(thinned) = &mut self.thinned {
            thinned.measuring = measure_runs().ok();
            (thinned.measured, thinned.runs) = (measured, CpuEvents::sum(&runs));
        }
    }

    /// Ends a measurement. Returns the mean cost of an event in nanoseconds, and the share of the
    /// runs that counted their event; None if there were few runs.
    pub(in crate::run) fn take_price(&mut self) -> Option<(f64, f64)> {
        self.thinned.as_mut()?.measuring.take()?;
        let (measured, runs) = (self.counting.measured(), self.runs_by_cpu());
        let thinned = self.thinned.as_ref()?;
        let ns = price_ns(measured, thinned.measured, PRICED_RUNS)?;
        let runs = CpuEvents::sum(&runs).since(thinned.runs);
        Some((ns, runs.sampled as f64 / runs.all.max(1) as f64))
    }

    /// Returns the runs that were measured since the look at the load before the run.
    pub(super) fn measured_since_look(&self) -> MeasuredRuns {
        let before = self.thinned.as_ref().map(|thinned| thinned.looked).unwrap_or_default();
        self.counting.measured().since(before)
    }

    /// Lets one event in N count from now on. Counts must be off, or some runs are not counted.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(in crate::run) fn count_one_in(
        &mut self,
        n: u64,
        start: impl FnMut() -> u64,
    ) -> anyhow::Result<()> {
        let set = self.counting.count_one_in(n, start);
        set.context("failed to thin the counts in the kernel")
    }

    /// Switches all counts off or on, and returns the moment.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(in crate::run) fn switch(&mut self, on: bool) -> anyhow::Result<SwitchedEvents> {
        if let Some(thinned) = &mut self.thinned {
            thinned.is_off = !on;
            thinned.is_empty &= thinned.is_off;
        }
        self.counting.switch(on).context("failed to switch the counts in the kernel")
    }

    /// Lets the counts of an interval begin, and returns the moment.
    /// [`KernelCounts::collect_slice`] then adds those before it.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(in crate::run) fn begin_interval(&mut self) -> anyhow::Result<SwitchedEvents> {
        self.counting.begin_interval().context("failed to exchange the counts in the kernel")
    }

    /// Adds the counts of a slice of time, in which each event stands for `weight` events.
    ///
    /// # Errors
    /// As [`KernelCounts::collect`].
    pub(in crate::run) fn collect_slice(
        &mut self,
        host: &mut Host,
        now: f64,
        weight: f64,
    ) -> anyhow::Result<()> {
        let shared = host.context().weight();
        shared.set(weight);
        let collected = self.collect(host, now);
        shared.set(1.0);
        if let Some(thinned) = &mut self.thinned {
            thinned.is_empty = thinned.is_off;
        }
        collected
    }
}
