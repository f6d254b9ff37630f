//! Reports of a run: what the script draws at each interval and at the end.
//!
//! The script's part has a time limit. Tables that it cannot draw in time are drawn without it,
//! from the data that Rust holds.

use std::path::Path;
use std::rc::Rc;

use mlua::Value;

use super::Host;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Level, Report};
use crate::base::report::metric::MetricTable;
use crate::script::vm::callback::Callback;
use crate::script::vm::guard::{Failure, Phase};
use crate::source::counts::CountDelta;

impl Host {
    /// Returns the interval's report, and restarts what was drawn.
    pub fn interval(&mut self, seconds: f64, counts: &[CountDelta]) -> Vec<Report> {
        let callback = self.callbacks.interval.clone();
        let parts = self.report(callback, seconds, counts);
        self.context().weight().begin_interval();
        parts
    }

    /// Returns the last report, after the last event, and with `total` that of the whole run. The
    /// latter is empty if no interval was added up before, because the last report then covers the
    /// whole run.
    pub fn finish(
        &mut self,
        seconds: f64,
        counts: &[CountDelta],
        total: bool,
    ) -> (Vec<Report>, Vec<Report>) {
        let total = total && self.aggregates.have_totals();
        let callback = self.callbacks.deinit.clone().or_else(|| self.callbacks.interval.clone());
        let parts = self.report(callback, seconds, counts);
        (parts, if total { self.totals() } else { Vec::new() })
    }

    /// Keeps the events of the first `sql` in a database in the empty file at `path`. Returns
    /// whether the script has one.
    ///
    /// # Errors
    /// The file cannot be opened; a sentence.
    pub fn keep_events(&self, path: &Path) -> Result<bool, String> {
        self.aggregates.keep_events(path)
    }

    /// Completes that database after the last report. Returns a summary.
    ///
    /// # Errors
    /// The file cannot be written; a sentence.
    pub fn complete_events(&self, coverage: &Coverage) -> Result<Option<String>, String> {
        self.aggregates.complete_events(coverage)
    }

    fn totals(&mut self) -> Vec<Report> {
        let drawn = self.draw_in_time(|host| host.aggregates.draw_totals(host.vm.lua()));
        // Again, without the part that failed or took too long.
        let again = |host: &mut Host| {
            host.aggregates.draw_plainly();
            host.aggregates.draw_totals(host.vm.lua()).unwrap_or_default()
        };
        drawn.unwrap_or_else(|| again(self))
    }

    fn report(
        &mut self,
        callback: Option<Rc<Callback>>,
        seconds: f64,
        counts: &[CountDelta],
    ) -> Vec<Report> {
        self.print_waiting_before_report();
        self.state.borrow_mut().set_counts(counts);
        self.coverage.multiplexed += counts.iter().filter(|count| count.scaled).count() as u64;
        let wanted = self.wanted(callback, seconds);
        let drawn = match &wanted {
            Ok(wanted) => self.draw_in_time(|host| {
                host.dispatch.draw(&host.aggregates, counts, wanted.as_deref())
            }),
            Err(CallbackFailed) => None,
        };
        // The script's own drawing failed: draw what can be drawn, as declared.
        let (drawn, wanted) = match drawn {
            Some(drawn) => (drawn, wanted.unwrap_or_default()),
            None => (self.what_can_be_drawn(), None),
        };
        let ids = self.aggregates.chosen(wanted.as_deref());
        self.measure(&ids);
        self.aggregates.restart_drawn(ids);
        self.end_reports();
        drawn
    }

    /// Collects the measurements of the tables with these numbers, for metrics.
    pub(super) fn measure(&mut self, ids: &[usize]) {
        if !self.sums.measured.get() {
            return;
        }
        let measured =
            self.guard.run(Phase::Report, || self.aggregates.measure(self.vm.lua(), ids));
        self.measured = measured.unwrap_or_else(|why| {
            self.drawing_failed(&why);
            self.aggregates.measure_what_can(self.vm.lua(), ids)
        });
    }

    /// Returns the measurements of the last report.
    pub fn take_measured(&mut self) -> Vec<MetricTable> {
        std::mem::take(&mut self.measured)
    }

    /// Returns the values that the script wants drawn; `None` draws everything, as declared.
    ///
    /// # Errors
    /// The callback failed, or returned a value that cannot be drawn; this was reported.
    pub(in crate::script) fn wanted(
        &mut self,
        callback: Option<Rc<Callback>>,
        seconds: f64,
    ) -> Result<Option<Vec<Value>>, CallbackFailed> {
        // A callback that is switched off counts as absent.
        let Some(callback) = callback.filter(|callback| callback.is_on()) else { return Ok(None) };
        let values = self.call_back::<mlua::MultiValue>(&callback, Phase::Report, seconds);
        let values = values.ok_or(CallbackFailed)?;
        match self.dispatch.returned(&self.aggregates, &callback.function, values) {
            Ok(wanted) => Ok(Some(wanted)),
            Err(why) => {
                self.failed(&format!("{why:#}"));
                Err(CallbackFailed)
            }
        }
    }

    /// Draws within the limits of a report. Returns `None` on failure, which is reported and
    /// counted.
    pub(in crate::script) fn draw_in_time(
        &mut self,
        draw: impl FnOnce(&Host) -> mlua::Result<Vec<Report>>,
    ) -> Option<Vec<Report>> {
        let flames = self.sums.flames.borrow().len();
        let why = match self.guard.run(Phase::Report, || draw(self)) {
            Ok(drawn) => return Some(drawn),
            Err(why) => why,
        };
        // They are drawn again.
        self.sums.flames.borrow_mut().truncate(flames);
        self.drawing_failed(&why);
        None
    }

    /// Draws everything that can be drawn, as declared.
    pub(in crate::script) fn what_can_be_drawn(&mut self) -> Vec<Report> {
        let drawn = self.draw_in_time(|host| Ok(host.aggregates.draw_what_can(host.vm.lua())));
        drawn.unwrap_or_else(|| self.aggregates.draw_what_can(self.vm.lua()))
    }

    /// Counts the failure. After some failures columns show raw values, without calling the script.
    fn drawing_failed(&mut self, why: &Failure) {
        let (text, out) = self.drawing.count(why, self.dispatch.tolerated());
        self.failed(&text);
        if let Some(times) = out {
            self.aggregates.draw_plainly();
            let text = format!(
                "drawing {times}: columns show plain values from here on, without the script's \
                 functions"
            );
            self.context.note(Level::Error, &text);
        }
    }
}

/// A callback failed, which was reported.
pub(in crate::script) struct CallbackFailed;
