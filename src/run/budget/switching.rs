//! Switches the events of a run on and off, as its slices of time demand.

use super::controller::primes;
use super::events::ThinnedEvents;
use super::slices::{SliceEdge, Slices};
use super::{BudgetKeeper, random};
use crate::script::host::Host;
use crate::source::live::Live;
use crate::sys::clock::monotonic_ns;
use crate::sys::cpus::online_cpus;
use crate::sys::machine::runnable_tasks;
use crate::sys::proc_stat::cpu_idle;

/// Longest time between two looks at the number of events that are all counted.
const COUNTED_MS: f64 = 25.0;
/// Time between two slices in which the price of counts is measured, which makes them slower.
const PRICED_NS: u64 = 10_000_000_000;
/// Time constant, in slices, of the moving average of runnable tasks.
const CROWD_SLICES: f64 = 8.0;

impl BudgetKeeper {
    /// Returns the longest time until the next drain, in milliseconds; `next_report` is the time of
    /// the next report.
    pub(in crate::run) fn wait_ms(&self, live: &Live, next_report: f64) -> f64 {
        match &self.slices {
            // The next slice begins after the report, and that waits for its last records.
            Some(slices) if slices.is_on() || next_report > live.now() => {
                slices.due().saturating_sub(monotonic_ns()) as f64 / 1e6
            }
            None if self.are_counted => COUNTED_MS,
            _ => f64::INFINITY,
        }
    }

    /// Returns whether the records of a slice wait: it is not known yet what they stand for.
    pub(in crate::run) fn is_holding(&self) -> bool {
        self.slices.as_ref().is_some_and(|slices| slices.is_on() || slices.has_unread())
    }

    /// Returns whether records must not be read yet. Ends the slice that is on if it is over, if
    /// the report at `next_report` is due, or if its records or keys fill their room.
    ///
    /// # Errors
    /// The kernel refuses to switch or to return its counts.
    pub(in crate::run) fn holds(
        &mut self,
        host: &mut Host,
        events: &mut ThinnedEvents<'_>,
        next_report: f64,
    ) -> anyhow::Result<bool> {
        let Some(slices) = &self.slices else { return Ok(false) };
        // Other events need the room.
        let (is_full, is_reported) = (events.need_room(), events.live.now() >= next_report);
        let is_over = slices.edge(monotonic_ns()) == Some(SliceEdge::End);
        if slices.is_on() && (is_over || is_reported || is_full) {
            self.end_slice(events, next_report)?;
        }
        self.read_slice(host, events, next_report, is_full)?;
        let holds = self.is_holding();
        if !holds {
            self.handled = events.live.horizon();
        }
        Ok(holds)
    }

    /// Ends the slice that is on, if there is one.
    fn end_slice(
        &mut self,
        events: &mut ThinnedEvents<'_>,
        next_report: f64,
    ) -> anyhow::Result<()> {
        let Some(slices) = self.slices.as_mut().filter(|slices| slices.is_on()) else {
            return Ok(());
        };
        let off = match events.are_counted() && slices.is_last() {
            // Each event counts from the end of the last slice on.
            true => {
                events.counts.count_one_in(1, || 0)?;
                events.counts.begin_interval()?
            }
            false => events.switch(false)?,
        };
        self.measured_slice.end(&off, cpu_idle());
        events.reprice(&mut self.controller);
        let live = &*events.live;
        events.measure_from(slices.ended(off.at, on_event_clock(live, next_report)));
        self.slice_ended = live.now();
        if let Some(tasks) = runnable_tasks() {
            let others = f64::from(tasks.saturating_sub(1));
            let now = others / online_cpus().len().max(1) as f64;
            let before = self.crowd.unwrap_or(now);
            self.crowd = Some(before + (now - before) / CROWD_SLICES);
        }
        Ok(())
    }

    /// Reads the counts of a slice, or lets its records be read, if it is known what it stands for.
    fn read_slice(
        &mut self,
        host: &mut Host,
        events: &mut ThinnedEvents<'_>,
        next_report: f64,
        is_over: bool,
    ) -> anyhow::Result<()> {
        let Some(slices) = &mut self.slices else { return Ok(()) };
        let report = on_event_clock(events.live, next_report);
        let Some(slice) = slices.read(monotonic_ns(), report, is_over) else { return Ok(()) };
        let crowd = self.crowd.unwrap_or(1.0);
        let (factor, error) = self.measured_slice.correction(&self.controller.prices(), crowd);
        let expansion = slice.expansion * factor;
        let stands_for = expansion * self.measured_slice.one_in();
        self.weight.begin_slice(slice.stands_for, error, stands_for);
        if events.are_counted() {
            events.counts.collect_slice(host, events.live.now(), stands_for)?;
        } else {
            events.live.expand(expansion);
        }
        self.highest = self.highest.max(stands_for as u64);
        Ok(())
    }

    /// Ends the slices at the end of the run, when it has lasted until now.
    ///
    /// # Errors
    /// As [`BudgetKeeper::holds`].
    pub(in crate::run) fn end(
        &mut self,
        host: &mut Host,
        events: &mut ThinnedEvents<'_>,
    ) -> anyhow::Result<()> {
        let now = events.live.now();
        self.end_slice(events, now)?;
        self.read_slice(host, events, now, true)
    }

    /// Switches events on, if that is due and the records of the slice before have been handled.
    pub(super) fn switch_on_if_due(
        &mut self,
        events: &mut ThinnedEvents<'_>,
        next_report: f64,
    ) -> anyhow::Result<()> {
        let Some(slices) = self.slices.as_mut().filter(|slices| !slices.is_on()) else {
            return Ok(());
        };
        let is_handled = self.handled >= self.slice_ended && events.live.now() < next_report;
        if is_handled {
            slices.keep_up(monotonic_ns(), on_event_clock(events.live, next_report));
        }
        let due = slices.edge(monotonic_ns()).filter(|_| is_handled);
        let Some(edge) = due else { return Ok(()) };
        if edge == SliceEdge::Begin {
            if events.are_counted() {
                let choices = primes::<3>(self.controller.thinning().one_in);
                let one_in = choices[random(&mut self.seed) as usize % choices.len()];
                let start = || random(&mut self.seed) % one_in;
                events.counts.count_one_in(one_in, start)?;
                if monotonic_ns().saturating_sub(self.priced) >= PRICED_NS {
                    self.priced = monotonic_ns();
                    events.counts.measure_price();
                }
            }
            // To read them takes a part of a short slice.
            let idle = cpu_idle();
            let on = events.switch(true)?;
            events.measure_from(slices.began(on.at));
            self.measured_slice.begin(on, idle);
            return Ok(());
        }
        self.slices = None;
        self.weight.end_slices();
        events.live.expand(1.0);
        events.measure_from(0);
        if !events.are_counted() {
            events.switch(true)?;
        }
        self.decided = self.reading(events, self.decided.own_ns);
        Ok(())
    }

    /// Begins, changes or ends the slices of time, as was decided.
    pub(super) fn slice(
        &mut self,
        host: &mut Host,
        events: &mut ThinnedEvents<'_>,
        next_report: f64,
    ) -> anyhow::Result<()> {
        let one_in_time = self.controller.thinning().one_in_time;
        match &mut self.slices {
            Some(slices) => slices.decided(one_in_time),
            None if one_in_time > 1 => {
                let are_counted = events.are_counted();
                let begun = if are_counted {
                    // The first slice follows the counts so far, which stand for themselves.
                    let on = events.counts.begin_interval()?;
                    self.measured_slice.begin(on.clone(), cpu_idle());
                    let now = events.live.now();
                    events.counts.collect_slice(host, now, 1.0)?;
                    on.at
                } else {
                    events.switch(false)?.at
                };
                let report = (on_event_clock(events.live, next_report), self.interval as u64);
                let slices = Slices::begin(begun, one_in_time, self.seed, report, are_counted);
                self.slices = Some(slices);
                self.slice_ended = events.live.now();
            }
            None => {}
        }
        Ok(())
    }
}

/// Returns a time of the run as one of the event clock.
fn on_event_clock(live: &Live, at: f64) -> u64 {
    monotonic_ns().saturating_add_signed((at - live.now()) as i64)
}
