//! Keeps the cost of a run within `--budget`: measures prices, meters the cost, thins events.
//!
//! The cost is the CPU time of this process plus, for each event, what a record or a count costs
//! the traced tasks in the kernel, as measured on this machine when the run begins.
//! `docs/budget.md` has the definitions and the limits.

mod controller;
mod events;
mod measured_slice;
pub(super) mod prices;
mod reading;
mod refusal;
mod slice_idle;
mod slices;
mod switching;

use std::rc::Rc;
use std::time::Duration;

use super::kernel_counts::KernelCounts;
use super::request::RunRequest;
use super::schedule::Schedule;
use crate::base::report::draw::Level;
use crate::base::report::run_stats::BudgetStats;
use crate::script::context::shared::SharedContext;
use crate::script::host::Host;
use crate::source::request::{Opening, SourceRequest};
use crate::stat::weight::EventWeight;
use crate::sys::clock::monotonic_ns;
use crate::sys::machine;
use controller::{COUNTED_NS, Controller, Load, PRINTED_NS, primes};
pub(super) use events::ThinnedEvents;
use measured_slice::MeasuredSlice;
use reading::CostReading;
pub(super) use refusal::{check, weigh};
use slices::Slices;

/// The warning that these prices are used.
const UNMEASURED: &str = "--budget: the cost of an event cannot be measured here; the run assumes \
                          the usual 300 ns for a record and 80 ns for an event without one";
/// Runnable tasks for each CPU from which on estimates of slices are poor.
const CROWDED: f64 = 1.5;
/// The warning that they are.
const POOR: &str = "--budget: all CPUs are busy, and tasks are slower while events are on; \
                    estimates may be too low or too high by more than their errors; watch fewer \
                    events or raise the budget";
/// Shortest time between two decisions, in nanoseconds, and the samples that end it.
const SOON_NS: u64 = 2_000_000;
const SOON_SAMPLES: u64 = 2000;
/// Shortest time for which a load counts that has begun since the last decision.
const SHORTEST_LOAD_NS: u64 = 10_000_000;
/// Longest time between two decisions.
const LATE_NS: u64 = 100_000_000;
/// Time between two readings of the own CPU time, and between two changes of the primes. In the
/// first second, so many samples also end a reading: what a monitor takes for one is not known yet.
const SECOND_NS: u64 = 1_000_000_000;
const EARLY_SAMPLES: u64 = 500;
/// How long the load is looked at before the run begins.
const LOOK: Duration = Duration::from_millis(10);

/// The budget of a run, and what it has cost.
pub(super) struct BudgetKeeper {
    share: f64,
    is_strict: bool,
    cpus: f64,
    controller: Controller,
    begin: CostReading,
    /// The last decision, and the last reading of the own CPU time.
    decided: CostReading,
    learned: CostReading,
    /// Cost of events in the kernel until the last reading, at the prices of their time.
    kernel_ns: f64,
    highest: u64,
    /// The slices of time in which events are on; None if they are always on.
    slices: Option<Slices>,
    /// When the last slice ended, as a time of the run.
    slice_ended: f64,
    /// The time of the run until which records have been handled.
    handled: f64,
    /// Time between two reports, in nanoseconds.
    interval: f64,
    /// Runnable tasks for each CPU, without this process: the mean of the last slices. None if they
    /// are not known.
    crowd: Option<f64>,
    weight: Rc<EventWeight>,
    seed: u64,
    has_warned: bool,
    has_warned_of_crowd: bool,
    /// Whether a warning about prices that could not be measured is due.
    is_unmeasured: bool,
    exceeded: Option<f64>,
    /// Whether the kernel counts the events.
    are_counted: bool,
    /// When the price of counts was measured last in a slice; 0 before.
    priced: u64,
    /// The slice that is on, or whose events have not been read yet.
    measured_slice: MeasuredSlice,
}

impl BudgetKeeper {
    /// Measures the prices of the events that are opened, whose filters leave out perilune's
    /// threads, or that the kernel counts; None without `--budget`. Takes some 50 ms for records.
    /// `slow_path` is that of counts.
    pub(super) fn begin(
        request: &RunRequest,
        (openings, own_tids): (&[Opening], &[i32]),
        counts: &KernelCounts,
        slow_path: f64,
        context: &SharedContext,
    ) -> Option<BudgetKeeper> {
        let share = request.options.budget?;
        let stacks = openings.iter().filter_map(|one| one.sampling.stack).map(prices::copied).max();
        let (prices, own) = if counts.are_thinned() {
            (Some(prices::of_counts(slow_path)), 0.0)
        } else {
            let own = if request.monitor.emits.is_some() { PRINTED_NS } else { COUNTED_NS };
            let conditions = openings.iter().map(|one| prices::conditions(one, own_tids.len()));
            let conditions = conditions.max().unwrap_or_default();
            (prices::measured(stacks.unwrap_or_default(), conditions), own)
        };
        Some(BudgetKeeper {
            are_counted: counts.are_thinned(),
            priced: 0,
            measured_slice: MeasuredSlice::default(),
            share,
            is_strict: request.options.strict,
            cpus: 1.0,
            controller: Controller::new(share, prices.unwrap_or(prices::USUAL), own),
            begin: CostReading::default(),
            decided: CostReading::default(),
            learned: CostReading::default(),
            kernel_ns: 0.0,
            highest: 1,
            slices: None,
            slice_ended: 0.0,
            handled: 0.0,
            interval: f64::INFINITY,
            crowd: None,
            weight: context.weight(),
            seed: monotonic_ns(),
            has_warned: false,
            has_warned_of_crowd: false,
            is_unmeasured: prices.is_none(),
            exceeded: None,
        })
    }

    /// Looks at the load before the events are enabled, so that a heavy one is thinned from the
    /// start.
    ///
    /// # Errors
    /// The kernel refuses to count.
    pub(super) fn look(
        &mut self,
        events: &mut ThinnedEvents<'_>,
        source: &SourceRequest,
    ) -> anyhow::Result<()> {
        self.cpus = source.watched.len().max(1) as f64;
        if self.is_strict && !events.are_counted() {
            return Ok(());
        }
        let (seen, lasted) = match events.are_counted() {
            true => {
                let seen = events.counts.look(LOOK)?;
                let prices = self.controller.prices();
                self.controller.set_prices(prices.of_program(seen.counted_ns, seen.skipped_ns));
                (seen.events, seen.lasted)
            }
            false => events.live.count_before_run(LOOK),
        };
        if self.is_strict {
            return Ok(());
        }
        let (all, capacity) = (seen as f64, lasted * self.cpus);
        let load = Load { capacity, events: all, samples: all, ..Load::default() };
        if self.controller.decide(monotonic_ns() as f64, &load).is_some() {
            self.thin(events);
        }
        Ok(())
    }

    /// Begins to meter, when the events have been enabled.
    ///
    /// # Errors
    /// The kernel refuses to switch events, or to return its counts.
    pub(super) fn start(
        &mut self,
        host: &mut Host,
        mut events: ThinnedEvents<'_>,
        schedule: &Schedule,
    ) -> anyhow::Result<()> {
        self.interval = schedule.interval();
        let (at, own_ns) = (monotonic_ns(), machine::own_cpu_ns());
        let (tally, off) = (events.tally(), 0.0);
        self.begin = CostReading { at, own_ns, tally, calls: events.system_calls(), off };
        (self.decided, self.learned) = (self.begin, self.begin);
        self.slice(host, &mut events, schedule.report_or_end())
    }

    /// Decides anew how far events are thinned, after a drain; `next_report` is the time of the
    /// next report. Returns whether the run must end because it exceeds its budget.
    ///
    /// # Errors
    /// As [`BudgetKeeper::start`].
    pub(super) fn check(
        &mut self,
        host: &mut Host,
        mut events: ThinnedEvents<'_>,
        next_report: f64,
    ) -> anyhow::Result<bool> {
        let exceeds = self.decide(host, &mut events, next_report)?;
        self.switch_on_if_due(&mut events, next_report)?;
        Ok(exceeds)
    }

    /// Decides, if a decision is due. Returns whether the run must end.
    fn decide(
        &mut self,
        host: &mut Host,
        events: &mut ThinnedEvents<'_>,
        next_report: f64,
    ) -> anyhow::Result<bool> {
        let now = monotonic_ns();
        let since = now.saturating_sub(self.decided.at);
        match &self.slices {
            Some(slices) if !slices.can_decide() => return Ok(false),
            None if since < SOON_NS => return Ok(false),
            _ => {}
        }
        let tally = events.tally();
        let samples = tally.samples.saturating_sub(self.decided.tally.samples);
        if self.slices.is_none() && since < LATE_NS && samples < SOON_SAMPLES {
            return Ok(false);
        }
        if std::mem::take(&mut self.is_unmeasured) {
            host.context().note(Level::Warning, UNMEASURED);
        }
        events.reprice(&mut self.controller);
        let reading = self.reading(events, self.decided.own_ns);
        // A load that has just begun is not that of the idle time before it.
        let first = events.live.take_first_sample().min(now.saturating_sub(SHORTEST_LOAD_NS));
        let is_sudden = self.slices.is_none() && samples >= SOON_SAMPLES && !events.are_counted();
        let begin = if is_sudden { first } else { 0 };
        let decided = CostReading { at: self.decided.at.max(begin), ..self.decided };
        let load = reading.load_since(&decided, self.cpus);
        self.decided = reading;
        let mut reroll = false;
        let is_early = !self.is_strict
            && now.saturating_sub(self.begin.at) < SECOND_NS
            && tally.samples.saturating_sub(self.learned.tally.samples) >= EARLY_SAMPLES;
        if is_early || now.saturating_sub(self.learned.at) >= SECOND_NS {
            self.learn(CostReading { own_ns: machine::own_cpu_ns(), ..reading }, is_early);
            reroll = self.controller.thinning().one_in > 1;
            if self.slices.is_none() {
                events.counts.measure_price();
            }
        }
        if self.is_strict {
            return Ok(self.exceeded.is_some());
        }
        let changed = self.controller.decide(now as f64, &load);
        if changed.is_some() || reroll {
            self.thin(events);
        }
        self.slice(host, events, next_report)?;
        self.warn(host.context());
        Ok(false)
    }

    /// Returns the cost counters now, with this CPU time of the process.
    fn reading(&self, events: &ThinnedEvents<'_>, own_ns: u64) -> CostReading {
        let calls = events.system_calls();
        let gaps = (self.controller.thinning().one_in_time - 1) as f64;
        let off = self.decided.off + (calls - self.decided.calls) as f64 * gaps;
        CostReading { at: monotonic_ns(), own_ns, tally: events.tally(), calls, off }
    }

    fn learn(&mut self, reading: CostReading, is_early: bool) {
        let load = reading.load_since(&self.learned, self.cpus);
        let own_ns = (reading.own_ns - self.learned.own_ns) as f64;
        let kernel_ns = self.controller.kernel_ns(&load);
        self.kernel_ns += kernel_ns;
        let cost = (own_ns + kernel_ns) / load.capacity.max(1.0);
        if cost > self.share && !is_early {
            self.exceeded.get_or_insert(cost);
        }
        self.controller.learn(&load, own_ns, is_early);
        self.learned = reading;
    }

    fn thin(&mut self, events: &ThinnedEvents<'_>) {
        let one_in = self.controller.thinning().one_in;
        if one_in == 1 || events.are_counted() {
            return events.live.thin(|| 1);
        }
        let choices = primes::<3>(one_in);
        let seed = &mut self.seed;
        events.live.thin(|| choices[random(seed) as usize % choices.len()]);
        self.highest = self.highest.max(choices[choices.len() - 1]);
    }

    /// Warns once if no thinning is enough, and once if estimates of slices are poor.
    fn warn(&mut self, context: &SharedContext) {
        let is_crowded = self.slices.is_some() && self.crowd >= Some(CROWDED);
        if is_crowded && !std::mem::replace(&mut self.has_warned_of_crowd, true) {
            context.note(Level::Warning, POOR);
        }
        let budget = percent(self.share);
        if self.controller.is_hopeless() && !std::mem::replace(&mut self.has_warned, true) {
            let text = format!(
                "--budget {budget}: the run exceeds it even if it records next to nothing; watch \
                 fewer events or CPUs, or report less often"
            );
            context.note(Level::Warning, &text);
        }
    }

    /// Returns the cost of the run so far.
    pub(super) fn stats(&self, events: &ThinnedEvents<'_>) -> BudgetStats {
        let reading = self.reading(events, machine::own_cpu_ns());
        let capacity = reading.load_since(&self.begin, self.cpus).capacity;
        let unread = reading.load_since(&self.learned, self.cpus);
        let own_ns = (reading.own_ns - self.begin.own_ns) as f64;
        let kernel_ns = self.kernel_ns + self.controller.kernel_ns(&unread);
        let share = |ns: f64| 100.0 * ns / capacity.max(1.0);
        BudgetStats {
            budget_percent: 100.0 * self.share,
            own_percent: share(own_ns),
            kernel_percent: share(kernel_ns),
            one_in_max: self.highest,
            one_in_time_max: self.controller.most_parts(),
        }
    }

    /// Returns the cost of a run in one line.
    pub(super) fn summary(&self, stats: &BudgetStats) -> String {
        let shown = |of_hundred: f64| percent(of_hundred / 100.0);
        let (done, one) = match self.are_counted {
            true => ("counted", "an event that was counted"),
            false => ("recorded", "a record"),
        };
        let thinned = match stats.one_in_max {
            1 => format!("every event was {done}"),
            n => format!("{one} stands for at most {n} events"),
        };
        let sliced = match stats.one_in_time_max {
            1 => String::new(),
            n => format!(", and events were on during one part of the time in {n} or more often"),
        };
        format!(
            "the run cost {} of the watched CPUs ({} own CPU time, {} in the traced tasks), its \
             budget is {}; {thinned}{sliced}",
            shown(stats.cost_percent()),
            shown(stats.own_percent),
            shown(stats.kernel_percent),
            shown(stats.budget_percent)
        )
    }

    /// Returns why a strict run has ended, if it exceeded its budget.
    pub(super) fn exceeded(&self) -> Option<String> {
        let cost = self.exceeded.filter(|_| self.is_strict)?;
        Some(format!(
            "--budget {}: the run cost {} of the watched CPUs within a second; omit --strict to \
             estimate from a part of the events, or narrow them with a filter",
            percent(self.share),
            percent(cost)
        ))
    }
}

/// Returns the next number of Knuth's generator: a different prime for each CPU and second, and
/// another position of each slice, is all that is needed.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    *seed >> 33
}

/// Returns a share as a percentage with at most two significant digits.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        10.0.. => format!("{percent:.0}%"),
        1.0.. => format!("{}%", (percent * 10.0).round() / 10.0),
        _ => format!("{}%", (percent * 100.0).round() / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_printed_with_two_digits() {
        let shown = [0.01, 0.005, 0.0123, 0.34567, 1.0].map(percent);
        assert_eq!(shown, ["1%", "0.5%", "1.2%", "35%", "100%"]);
    }
}
