//! Draws reports and their coverage, per interval and at the end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use super::exports::{ExportedInterval, Exports};
use super::files::Files;
use super::filters;
use super::flames::Flames;
use super::heatmap::Heatmap;
use super::profiles::Profiles;
use super::request::{RunOptions, RunRequest};
use super::schedule::Overhead;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, Level, Report, Stamp};
use crate::base::report::run_record::RunRecord;
use crate::base::report::run_stats::{BudgetStats, Stats};
use crate::output::screen::{Screen, UserRequest};
use crate::script::aggregate::flame::DrawnGraph;
use crate::script::context::shared::SharedContext;
use crate::script::host::Host;
use crate::sys::{machine, signal, terminal};

/// Draws a run's reports.
pub(super) struct Show {
    shared: SharedContext,
    screen: Option<Screen>,
    /// Whether this process was in the terminal's foreground at the last turn.
    foreground: bool,
    before: Coverage,
    closed: bool,
    failure: Option<io::Error>,
    flames: Option<Flames>,
    profiles: Option<Profiles>,
    heatmap: Option<Heatmap>,
    /// The file of the timeline.
    timeline: Option<PathBuf>,
    files_failed: Option<anyhow::Error>,
    exports: Exports,
    monitor: Arc<str>,
    /// CPU time of the reports so far.
    reports_ns: u64,
}

impl Show {
    /// Creates a view that draws to the output in `shared`, which is `screen` if there is one.
    pub(super) fn new(shared: SharedContext, screen: Option<Screen>, files: Files) -> Self {
        let Files { flames, profiles, heatmap, timeline } = files;
        let foreground = screen.is_some();
        let mut show = Show {
            shared,
            screen,
            foreground,
            before: Coverage::default(),
            closed: false,
            failure: None,
            flames,
            profiles,
            heatmap,
            timeline,
            files_failed: None,
            exports: Exports::default(),
            monitor: "".into(),
            reports_ns: 0,
        };
        let now = show.stamp(0.0);
        if show.heatmap.is_some() {
            show.shared.collect_times();
        }
        show.flames.iter_mut().for_each(|flames| flames.start(now));
        show.profiles.iter_mut().for_each(|profiles| profiles.start(now));
        show
    }

    /// Begins a report. The result is for [`Show::end_report`].
    pub(super) fn begin_report(&self) -> u64 {
        machine::own_cpu_ns()
    }

    /// Counts the CPU time of a report.
    pub(super) fn end_report(&mut self, began: u64) {
        self.reports_ns += machine::own_cpu_ns().saturating_sub(began);
    }

    /// Exports the reports of a monitor from now on.
    pub(super) fn export(&mut self, request: &RunRequest, exports: Exports) {
        self.monitor = request.monitor.name.as_str().into();
        self.exports = exports;
        self.exports.start(self.stamp(0.0), request.is_given("otlp-profiles"));
    }

    /// Hands the measurements of a report at this time to the output and to the exports. `parts`
    /// are its printed parts, `coverage` that of the run.
    pub(super) fn metrics(
        &mut self,
        time: f64,
        host: &mut Host,
        parts: &[Report],
        coverage: &Coverage,
    ) {
        let measured = host.take_measured();
        self.draw(time, |out, stamp| out.measured(stamp, &measured));
        self.exports.publish(ExportedInterval {
            monitor: &self.monitor,
            measured,
            parts,
            coverage: *coverage,
            is_up: host.is_whole(),
            end: self.shared.stamp(time),
        });
        self.exports.complete(&self.shared);
    }

    /// Returns how much an OTLP receiver does not get.
    pub(super) fn unsent(&self) -> u64 {
        self.exports.unsent()
    }

    fn stamp(&self, time: f64) -> Stamp {
        self.shared.stamp(time)
    }

    /// Sets up drawing of the script's delays, and lets the script write flame graphs: into the
    /// current folder, since scripts are not trusted, or anywhere with `--unsafe`.
    ///
    /// # Errors
    /// A requested file cannot be created.
    pub(super) fn serve(&mut self, host: &Host, request: &RunRequest) -> anyhow::Result<()> {
        let begin = self.stamp(0.0);
        match (&mut self.heatmap, host.heat_map()) {
            (Some(page), _) if page.is_page() => page.follow_stacks(host.stacks_over_time())?,
            (Some(heatmap), Some(delays)) => heatmap.follow(delays, begin)?,
            _ => {}
        }
        let (monitor, anywhere) = (request.monitor.name.clone(), request.options.allow_unsafe);
        host.write_flames(Box::new(move |name, flame| {
            if !anywhere && name.contains('/') {
                return Err(format!(
                    "write: `{name}` contains `/`; use a name without it, for a file in the \
                     current folder, or run with --unsafe"
                ));
            }
            Flames::write(&monitor, name, flame).map_err(|why| format!("{why:#}"))
        }));
        Ok(())
    }

    /// Writes the delays and the timeline that have come since the last call. A failure ends the
    /// run, because the user asked for these files.
    pub(super) fn write_growing_files(&mut self) {
        let written = self.heatmap.as_mut().map_or(Ok(()), Heatmap::write_delays);
        let flushed = || self.shared.flush_timeline().context("--perfetto");
        let written = written.and_then(|()| flushed());
        if let (Err(why), None) = (written, &self.files_failed) {
            self.files_failed = Some(why);
            self.closed = true;
        }
    }

    /// Writes the files of an interval, or of the run's end. A failure ends the run, because the
    /// user asked for these files.
    pub(super) fn files(
        &mut self,
        drawn: Vec<DrawnGraph>,
        time: f64,
        coverage: &Coverage,
        last: bool,
    ) {
        if self.files_failed.is_some() {
            return;
        }
        let written = self.write_files(drawn, time, coverage, last);
        self.written(written);
    }

    /// Prints what was written. A failure ends the run.
    pub(super) fn written(&mut self, written: anyhow::Result<impl IntoIterator<Item = String>>) {
        match written {
            Ok(summary) => summary.into_iter().for_each(|text| self.remark(Some(&text))),
            Err(why) => {
                self.files_failed.get_or_insert(why);
                self.closed = true;
            }
        }
    }

    fn write_files(
        &mut self,
        drawn: Vec<DrawnGraph>,
        time: f64,
        coverage: &Coverage,
        last: bool,
    ) -> anyhow::Result<Vec<String>> {
        let (begin, now) = (self.stamp(0.0), self.stamp(time));
        let mut summary = Vec::new();
        self.exports.profiles(&self.monitor, &drawn, now);
        if let Some(profiles) = &mut self.profiles {
            profiles.take(&drawn);
            summary = if last { profiles.write(now)? } else { Vec::new() };
        }
        if let Some(flames) = &mut self.flames {
            flames.take(drawn, now, coverage, last).context("--flame-graph")?;
            summary.extend(if last { flames.summary() } else { Vec::new() });
        }
        if last && let Some(written) = self.end_timeline(now, coverage)? {
            summary.push(written);
        }
        if last && let Some(heatmap) = self.heatmap.take() {
            let (all, emitted) = self.shared.take_times();
            let heat = heatmap.choose(all, emitted);
            summary.push(heatmap.write(&heat, time, (begin, now), coverage)?);
        }
        Ok(summary)
    }

    fn end_timeline(&self, now: Stamp, coverage: &Coverage) -> anyhow::Result<Option<String>> {
        let Some(path) = &self.timeline else { return Ok(None) };
        let written = self.shared.end_timeline(now, coverage).context("--perfetto")?;
        Ok(written.map(|what| format!("wrote {} ({what})", path.display())))
    }

    /// Shows the screen, if there is one.
    pub(super) fn raise(&mut self) {
        let raised = self.screen.as_ref().map_or(Ok(()), Screen::fit);
        self.check(raised);
    }

    /// Returns whether keys are read. In the background, they belong to the foreground process.
    pub(super) fn listens(&self) -> bool {
        self.screen.is_some() && self.foreground
    }

    /// Updates the screen: its size, whether this process is in the foreground, whether it is to be
    /// stopped, and with `typed` its keys. Returns whether the user wants the run to end.
    pub(super) fn handle_input(&mut self, typed: bool) -> bool {
        let Some(screen) = self.screen.clone() else { return false };
        if terminal::take_stop() {
            let stopped = screen.suspend();
            self.check(stopped);
        }
        // The shell sends no signal: `bg` and `fg` are visible only in the terminal's state.
        let foreground = screen.terminal().is_ours();
        let moved = std::mem::replace(&mut self.foreground, foreground) != foreground;
        let fitted = if signal::take_resized() || moved { screen.fit() } else { Ok(()) };
        self.check(fitted);
        let asked = if typed { screen.keys() } else { Ok(UserRequest::Nothing) };
        let quit = matches!(asked, Ok(UserRequest::Quit));
        self.check(asked.map(drop));
        quit
    }

    /// Closes the screen: later output stays on the terminal.
    pub(super) fn lower(&self) {
        self.screen.iter().for_each(Screen::close);
    }

    /// Draws the report of one interval: its parts and its coverage.
    pub(super) fn interval(&mut self, time: f64, parts: &[Report], coverage: Coverage) {
        let since = coverage.since(&self.before);
        self.before = coverage;
        self.draw(time, |out, stamp| {
            out.report(stamp, parts);
            out.coverage(stamp, &since, false);
        });
        self.flush();
    }

    /// Draws the last report, and the coverage of the whole run.
    pub(super) fn last(
        &mut self,
        time: f64,
        parts: &[Report],
        totals: &[Report],
        coverage: &Coverage,
    ) {
        self.draw(time, |out, stamp| {
            out.report(stamp, parts);
            if !totals.is_empty() {
                out.report(stamp, totals);
            }
            out.coverage(stamp, coverage, true);
            out.run_record(stamp, &RunRecord::End);
        });
    }

    /// Prints a note about the run.
    pub(super) fn remark(&mut self, text: Option<&str>) {
        text.into_iter().for_each(|text| self.shared.note(Level::Info, text));
    }

    /// Prints the cost of the run if requested: events that no handler received, code that is not
    /// compiled, `--stats`.
    pub(super) fn costs(
        &mut self,
        time: f64,
        settings: &RunOptions,
        host: &Host,
        (cost, budget, program_ns): (&Overhead, Option<BudgetStats>, Option<f64>),
        coverage: &Coverage,
    ) {
        if settings.stats || settings.verbose > 0 {
            self.remark(filters::rejected_in_user_space(coverage).as_deref());
        }
        if settings.stats {
            host.uncompiled().iter().for_each(|place| self.remark(Some(place)));
            let stats = Stats {
                program_ns,
                ..cost.stats(coverage, host.compiler(), budget, self.reports_ns)
            };
            self.draw(time, |out, stamp| out.stats(stamp, &stats));
        }
    }

    pub(super) fn draw(&mut self, time: f64, work: impl FnOnce(&mut dyn Draw, Stamp)) {
        self.shared.draw(time, work);
    }

    pub(super) fn flush(&mut self) {
        let flushed = self.shared.flush();
        self.check(flushed);
    }

    fn check(&mut self, written: io::Result<()>) {
        let Err(why) = written else { return };
        self.closed = true;
        // The reader has closed the pipe: the run ends successfully.
        if why.kind() != io::ErrorKind::BrokenPipe {
            self.failure.get_or_insert(why);
        }
    }

    /// Writes the remaining output.
    ///
    /// # Errors
    /// Results or files could not be written. A closed pipe is not an error.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.flush();
        self.exports.end(&self.shared);
        // It may have reported what was not sent.
        self.flush();
        let ended = self.shared.end_output();
        self.check(ended);
        if let Some(why) = self.failure.take() {
            return Err(why).context("failed to write the results");
        }
        self.files_failed.take().map_or(Ok(()), Err)
    }

    /// Prints why there are no results.
    ///
    /// # Errors
    /// The error could not be written.
    pub(super) fn fail(self, why: &str) -> anyhow::Result<()> {
        self.shared.note(Level::Error, why);
        self.end()
    }

    /// Writes the output since the last report.
    pub(super) fn flush_events(&mut self) {
        self.write_growing_files();
        self.flush();
    }

    /// Returns whether output is no longer possible.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }
}

/// Restores the terminal, however the run ends.
impl Drop for Show {
    fn drop(&mut self) {
        self.lower();
    }
}
