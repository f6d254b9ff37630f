//! A run's reports: what the script draws at each interval and at the end.

use mlua::{Function, Value};

use super::call::call;
use super::context::Context;
use super::guard::Phase;
use super::host::Host;
use crate::base::draw::Report;
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
        self.aggregates.draw_totals(self.vm.lua()).unwrap_or_else(|why| {
            self.failed(&why.to_string());
            Vec::new()
        })
    }

    fn report(
        &mut self,
        callback: Option<Function>,
        seconds: f64,
        counts: &[Count],
    ) -> Vec<Report> {
        self.print_waiting_before_report();
        self.state.borrow_mut().counts = counts.to_vec();
        self.coverage.multiplexed += counts.iter().filter(|count| count.scaled).count() as u64;
        let (drawn, wanted) = self.try_report(callback, seconds, counts).unwrap_or_else(|why| {
            self.failed(&format!("{why:#}"));
            // The script's own drawing failed: what it gathered and can be drawn is shown as declared.
            (self.aggregates.draw_what_can(self.vm.lua()), None)
        });
        self.shared.with(Context::note_trouble);
        self.note_full_budget();
        self.aggregates.reset_after_interval(wanted.as_deref());
        if let Err(why) = self.aggregates.sweep() {
            self.failed(&why.to_string());
        }
        drawn
    }

    /// The parts, and the values that the script wanted drawn; None is everything.
    fn try_report(
        &mut self,
        callback: Option<Function>,
        seconds: f64,
        counts: &[Count],
    ) -> anyhow::Result<(Vec<Report>, Option<Vec<Value>>)> {
        let wanted = match callback {
            None => None,
            Some(callback) => {
                let values: mlua::MultiValue =
                    call(&self.guard, Phase::Report, &callback, seconds)?;
                Some(self.dispatch.returned(&self.aggregates, &callback, values)?)
            }
        };
        Ok((self.dispatch.draw(&self.aggregates, counts, wanted.as_deref())?, wanted))
    }
}
