//! Switches the events of a run on and off, as its slices of time demand.

use super::BudgetKeeper;
use super::slices::{SliceEdge, Slices};
use crate::source::live::Live;
use crate::sys::clock::monotonic_ns;
use crate::sys::cpus::online_cpus;
use crate::sys::machine::runnable_tasks;

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
            _ => f64::INFINITY,
        }
    }

    /// Returns whether the records of a slice wait: it is not known yet what they stand for.
    pub(in crate::run) fn is_holding(&self) -> bool {
        self.slices.as_ref().is_some_and(|slices| slices.is_on() || slices.has_unread())
    }

    /// Returns whether records must not be read yet. Ends the slice that is on if it is over, if
    /// the report at `next_report` is due, or if its records fill half of a ring.
    pub(in crate::run) fn holds(&mut self, live: &mut Live, next_report: f64) -> bool {
        let Some(slices) = &self.slices else { return false };
        // Other records need the room.
        let (is_full, is_reported) = (live.is_half_full(), live.now() >= next_report);
        let is_over = slices.edge(monotonic_ns()) == Some(SliceEdge::End);
        if slices.is_on() && (is_over || is_reported || is_full) {
            self.end_slice(live, next_report);
        }
        self.read_slice(live, next_report, is_full);
        let holds = self.is_holding();
        if !holds {
            self.handled = live.horizon();
        }
        holds
    }

    /// Ends the slice that is on, if there is one.
    fn end_slice(&mut self, live: &mut Live, next_report: f64) {
        let Some(slices) = self.slices.as_mut().filter(|slices| slices.is_on()) else { return };
        let off = live.switch_thinned(false);
        live.measure_from(slices.ended(off, on_event_clock(live, next_report)));
        self.slice_ended = live.now();
        if let Some(tasks) = runnable_tasks() {
            let others = f64::from(tasks.saturating_sub(1));
            let now = others / online_cpus().len().max(1) as f64;
            let before = self.crowd.unwrap_or(now);
            self.crowd = Some(before + (now - before) / CROWD_SLICES);
        }
    }

    /// Lets the records of a slice be read if it is known what they stand for.
    fn read_slice(&mut self, live: &Live, next_report: f64, is_over: bool) {
        let Some(slices) = &mut self.slices else { return };
        let report = on_event_clock(live, next_report);
        let Some(slice) = slices.read(monotonic_ns(), report, is_over) else { return };
        live.expand(slice.expansion);
        self.weight.begin_slice(
            slice.stands_for,
            self.controller.slowdown(self.rate, self.crowd.unwrap_or(1.0)),
        );
        let stands_for = slice.expansion * self.controller.thinning().one_in as f64;
        self.highest = self.highest.max(stands_for as u64);
    }

    /// Ends the slices at the end of the run, when it has lasted until now.
    pub(in crate::run) fn end(&mut self, live: &mut Live) {
        let now = live.now();
        self.end_slice(live, now);
        self.read_slice(live, now, true);
    }

    /// Switches events on, if that is due and the records of the slice before have been handled.
    pub(super) fn switch_on_if_due(&mut self, live: &mut Live, next_report: f64) {
        let Some(slices) = self.slices.as_mut().filter(|slices| !slices.is_on()) else { return };
        let is_handled = self.handled >= self.slice_ended && live.now() < next_report;
        if is_handled {
            slices.keep_up(monotonic_ns(), on_event_clock(live, next_report));
        }
        let Some(edge) = slices.edge(monotonic_ns()).filter(|_| is_handled) else { return };
        if edge == SliceEdge::Begin {
            let measured = slices.began(live.switch_thinned(true));
            live.measure_from(measured);
            return;
        }
        self.slices = None;
        self.weight.end_slices();
        live.expand(1.0);
        live.measure_from(0);
        live.switch_thinned(true);
        self.decided = self.reading(live, self.decided.own_ns);
    }

    /// Learns the highest rate of events on a CPU, after so many nanoseconds.
    pub(super) fn learn_rate(&mut self, live: &Live, passed: u64) {
        let counted = live.events_by_cpu();
        let before = std::mem::replace(&mut self.counted, counted);
        let since = |(cpu, events): (usize, &u64)| events - before.get(cpu).copied().unwrap_or(0);
        let most = self.counted.iter().enumerate().map(since).max().unwrap_or(0);
        // Slices contain only a part of the events.
        let events = most * self.controller.thinning().one_in_time;
        self.rate = events as f64 / passed.max(1) as f64;
    }

    /// Begins, changes or ends the slices of time, as was decided.
    pub(super) fn slice(&mut self, live: &mut Live, next_report: f64) {
        let one_in_time = self.controller.thinning().one_in_time;
        match &mut self.slices {
            Some(slices) => slices.decided(one_in_time),
            None if one_in_time > 1 => {
                let off = live.switch_thinned(false);
                let report = on_event_clock(live, next_report);
                let longest = self.interval as u64;
                self.slices = Some(Slices::begin(off, one_in_time, self.seed, (report, longest)));
                self.slice_ended = live.now();
            }
            None => {}
        }
    }
}

/// Returns a time of the run as one of the event clock.
fn on_event_clock(live: &Live, at: f64) -> u64 {
    monotonic_ns().saturating_add_signed((at - live.now()) as i64)
}
