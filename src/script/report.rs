//! A run's reports: what the script draws at each interval and at the end.
//!
//! The script's part has a time limit. What it cannot draw in time is drawn without it, from what
//! Rust holds.

use std::rc::Rc;

use mlua::Value;

use super::callback::Callback;
use super::context::Context;
use super::guard::{Failure, Phase};
use super::host::Host;
use crate::base::draw::{Level, Report};
use crate::source::counts::Count;

impl Host {
    /// The parts of the interval's report; what was drawn starts anew.
    pub fn interval(&mut self, seconds: f64, counts: &[Count]) -> Vec<Report> {
        let callback = self.callbacks.interval.clone();
        self.report(callback, seconds, counts)
    }

    /// The parts of the last report, after the last event, and those of the whole run with `total`: none where nothing was added up
    /// before, since the last report tells the whole then.
    pub fn finish(
        &mut self,
        seconds: f64,
        counts: &[Count],
        total: bool,
    ) -> (Vec<Report>, Vec<Report>) {
        let total = total && self.aggregates.have_totals();
        let callback = self.callbacks.deinit.clone().or_else(|| self.callbacks.interval.clone());
        let parts = self.report(callback, seconds, counts);
        (parts, if total { self.totals() } else { Vec::new() })
    }

    fn totals(&mut self) -> Vec<Report> {
        let drawn = self.draw_in_time(|host| host.aggregates.draw_totals(host.vm.lua()));
        // Once more, without what failed or took too long.
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
        counts: &[Count],
    ) -> Vec<Report> {
        self.print_waiting_before_report();
        self.state.borrow_mut().set_counts(counts);
        self.coverage.multiplexed += counts.iter().filter(|count| count.scaled).count() as u64;
        let wanted = self.wanted(callback, seconds);
        let drawn = match &wanted {
            Ok(wanted) => self.draw_in_time(|host| {
                host.dispatch.draw(&host.aggregates, counts, wanted.as_deref())
            }),
            Err(Failed) => None,
        };
        // The script's own drawing failed: what it gathered and can be drawn is shown as declared.
        let (drawn, wanted) = match drawn {
            Some(drawn) => (drawn, wanted.unwrap_or_default()),
            None => (self.what_can_be_drawn(), None),
        };
        self.shared.with(Context::note_trouble);
        self.note_full_budget();
        self.aggregates.reset_after_interval(wanted.as_deref());
        if let Err(why) = self.aggregates.sweep() {
            self.failed(&why.to_string());
        }
        drawn
    }

    /// The values that the script wants drawn; None is everything, as declared.
    pub(super) fn wanted(
        &mut self,
        callback: Option<Rc<Callback>>,
        seconds: f64,
    ) -> Result<Option<Vec<Value>>, Failed> {
        // One that is switched off is missed as if there were none.
        let Some(callback) = callback.filter(|callback| callback.is_on()) else { return Ok(None) };
        let values = self.call_back::<mlua::MultiValue>(&callback, Phase::Report, seconds);
        let values = values.ok_or(Failed)?;
        match self.dispatch.returned(&self.aggregates, callback.function(), values) {
            Ok(wanted) => Ok(Some(wanted)),
            Err(why) => {
                self.failed(&format!("{why:#}"));
                Err(Failed)
            }
        }
    }

    /// Draws within the limits of a report; None if that failed, which is shown and counted.
    pub(super) fn draw_in_time(
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

    /// What can be drawn, as declared.
    pub(super) fn what_can_be_drawn(&mut self) -> Vec<Report> {
        let drawn = self.draw_in_time(|host| Ok(host.aggregates.draw_what_can(host.vm.lua())));
        drawn.unwrap_or_else(|| self.aggregates.draw_what_can(self.vm.lua()))
    }

    /// From some failures on, columns show what they hold, and the script is not asked.
    fn drawing_failed(&mut self, why: &Failure) {
        let (text, out) = self.drawing.count(why, self.dispatch.tolerated());
        self.failed(&text);
        if let Some(times) = out {
            self.aggregates.draw_plainly();
            let text = format!(
                "drawing {times}: columns show plain values from here on, not what the script makes of them"
            );
            self.shared.with(|context| context.note(Level::Error, &text));
        }
    }
}

/// A callback failed, which was shown.
pub(super) struct Failed;
