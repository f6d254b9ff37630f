//! Reports and the coverage that belongs to them: per interval, and at the end.

use std::io;

use anyhow::{Context as _, ensure};

use super::filters;
use super::flames::Flames;
use super::heatmap::Heatmap;
use super::pace::Cost;
use super::request::{HostOptions, RunRequest};
use crate::base::coverage::Coverage;
use crate::base::draw::{Draw, Level, Report, Stamp};
use crate::base::heat::Heat;
use crate::output::screen::{Asked, Screen};
use crate::script::aggregate::flame::Drawn;
use crate::script::context::Context;
use crate::script::host::Host;
use crate::script::leaf::Shared;
use crate::sys::{signal, terminal};

/// Draws a run's reports.
pub(super) struct Show {
    shared: Shared,
    screen: Option<Screen>,
    /// Whether the terminal was ours at the last turn.
    foreground: bool,
    before: Coverage,
    closed: bool,
    failure: Option<io::Error>,
    flames: Option<Flames>,
    heatmap: Option<Heatmap>,
    files_failed: Option<anyhow::Error>,
}

/// The files that a run writes beside its results.
pub(super) struct Files {
    flames: Option<Flames>,
    heatmap: Option<Heatmap>,
}

impl Files {
    /// None.
    pub(super) const NONE: Files = Files { flames: None, heatmap: None };

    /// Begins those that are asked for.
    ///
    /// # Errors
    /// One that cannot be written, or two of one name.
    pub(super) fn begin(request: &RunRequest) -> anyhow::Result<Files> {
        let (flames, heatmap) = (Flames::begin(request)?, Heatmap::begin(request)?);
        if let (Some(flames), Some(heatmap)) = (&flames, &heatmap) {
            let picture = flames.picture();
            ensure!(
                picture != heatmap.path(),
                "--flame-graph and --heatmap would both be drawn in {}; give one another name",
                picture.display()
            );
        }
        Ok(Files { flames, heatmap })
    }
}

impl Show {
    /// Draws on what `shared` holds as output; that is `screen`, if there is one.
    pub(super) fn new(shared: Shared, screen: Option<Screen>, files: Files) -> Self {
        let Files { flames, heatmap } = files;
        let foreground = screen.is_some();
        let mut show = Show {
            shared,
            screen,
            foreground,
            before: Coverage::default(),
            closed: false,
            failure: None,
            flames,
            heatmap,
            files_failed: None,
        };
        let now = show.stamp(0.0);
        show.shared.with(|context| {
            context.heat = show.heatmap.is_some().then(Heat::default);
            context.heat_of_emitted.clone_from(&context.heat);
        });
        show.flames.iter_mut().for_each(|flames| flames.start(now));
        show
    }

    fn stamp(&self, time: f64) -> Stamp {
        self.shared.with(|context| context.clock.stamp(context.clock.clock_ns(time)))
    }

    /// Has the script's delays drawn, and lets it write flame graphs of its own: into the current folder, since a script need
    /// not be trusted, or with --unsafe anywhere.
    ///
    /// # Errors
    /// A file that was asked for cannot be begun.
    pub(super) fn serve(&mut self, host: &Host, request: &RunRequest) -> anyhow::Result<()> {
        let begin = self.stamp(0.0);
        if let (Some(heatmap), Some(delays)) = (&mut self.heatmap, host.heat_map()) {
            heatmap.follow(delays, begin)?;
        }
        let (monitor, anywhere) = (request.monitor.name.clone(), request.host.allow_unsafe);
        host.write_flames(Box::new(move |name, flame| {
            if !anywhere && name.contains('/') {
                return Err(format!(
                    "write: `{name}` may lie in another folder; write a name without `/`, which is made in the current \
                     folder, or run with --unsafe"
                ));
            }
            Flames::write(&monitor, name, flame).map_err(|why| format!("{why:#}"))
        }));
        Ok(())
    }

    /// Writes the delays that have come since. A failure ends the run: they are what was asked for.
    pub(super) fn write_delays(&mut self) {
        let written = self.heatmap.as_mut().map_or(Ok(()), Heatmap::write_delays);
        if let (Err(why), None) = (written, &self.files_failed) {
            self.files_failed = Some(why);
            self.closed = true;
        }
    }

    /// Writes the files of an interval, or of the run's end. A failure ends the run: it is what was asked for.
    pub(super) fn files(&mut self, drawn: Vec<Drawn>, time: f64, coverage: &Coverage, last: bool) {
        if self.files_failed.is_some() {
            return;
        }
        match self.write_files(drawn, time, coverage, last) {
            Ok(summary) => summary.iter().for_each(|text| self.remark(Some(text))),
            Err(why) => {
                self.files_failed = Some(why);
                self.closed = true;
            }
        }
    }

    fn write_files(
        &mut self,
        drawn: Vec<Drawn>,
        time: f64,
        coverage: &Coverage,
        last: bool,
    ) -> anyhow::Result<Vec<String>> {
        let (begin, now) = (self.stamp(0.0), self.stamp(time));
        let mut summary = Vec::new();
        if let Some(flames) = &mut self.flames {
            flames.take(drawn, now, coverage, last).context("--flame-graph")?;
            summary = if last { flames.summary() } else { Vec::new() };
        }
        if last && let Some(heatmap) = self.heatmap.take() {
            let heats =
                |context: &mut Context| (context.heat.take(), context.heat_of_emitted.take());
            let (all, emitted) = self.shared.with(heats);
            let heat = heatmap.choose(all.unwrap_or_default(), emitted.unwrap_or_default());
            summary.push(heatmap.write(&heat, time, (begin, now), coverage)?);
        }
        Ok(summary)
    }

    /// Raises the screen, if there is one.
    pub(super) fn raise(&mut self) {
        let raised = self.screen.as_ref().map_or(Ok(()), Screen::fit);
        self.check(raised);
    }

    /// Whether there are keys to wait for. In the background they are somebody else's, and nobody would read them.
    pub(super) fn listens(&self) -> bool {
        self.screen.is_some() && self.foreground
    }

    /// Sees to the screen: its size, whether it is ours, whether it has to make way for a stop, and with `typed` its keys.
    /// True when the user wants the run to end.
    pub(super) fn attend(&mut self, typed: bool) -> bool {
        let Some(screen) = self.screen.clone() else { return false };
        if terminal::take_stop() {
            let stopped = screen.suspend();
            self.check(stopped);
        }
        // The shell tells nobody: `bg` and `fg` only show in the terminal itself.
        let foreground = screen.terminal().is_ours();
        let moved = std::mem::replace(&mut self.foreground, foreground) != foreground;
        let fitted = if signal::take_resized() || moved { screen.fit() } else { Ok(()) };
        self.check(fitted);
        let asked = if typed { screen.keys() } else { Ok(Asked::Nothing) };
        let quit = matches!(asked, Ok(Asked::Quit));
        self.check(asked.map(drop));
        quit
    }

    /// Takes the screen down: what comes now is to stay on the terminal.
    pub(super) fn lower(&self) {
        self.screen.iter().for_each(Screen::close);
    }

    /// One interval's report: its parts, and what it missed.
    pub(super) fn interval(&mut self, time: f64, parts: &[Report], coverage: Coverage) {
        let since = coverage.since(&self.before);
        self.before = coverage;
        self.draw(time, |out, stamp| {
            out.report(stamp, parts);
            out.coverage(stamp, &since, false);
        });
        self.flush();
    }

    /// The last report, and the coverage of the whole run.
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
        });
    }

    /// One more thing to say about the run.
    pub(super) fn remark(&mut self, text: Option<&str>) {
        self.shared.with(|context| {
            text.into_iter().for_each(|text| context.note(Level::Info, text));
        });
    }

    /// What the run cost and why, where that is asked for: events that no handler got, code that is not compiled, `--stats`.
    pub(super) fn costs(
        &mut self,
        time: f64,
        settings: &HostOptions,
        host: &Host,
        cost: &Cost,
        coverage: &Coverage,
    ) {
        if settings.stats || settings.verbose > 0 {
            self.remark(filters::kept_back(coverage).as_deref());
        }
        if settings.stats {
            host.uncompiled().iter().for_each(|place| self.remark(Some(place)));
            let stats = cost.stats(coverage, host.compiler());
            self.draw(time, |out, stamp| out.stats(stamp, &stats));
        }
    }

    pub(super) fn draw(&mut self, time: f64, work: impl FnOnce(&mut dyn Draw, Stamp)) {
        self.shared.with(|context| {
            let stamp = context.clock.stamp(context.clock.clock_ns(time));
            work(&mut *context.out, stamp);
        });
    }

    pub(super) fn flush(&mut self) {
        let flushed = self.shared.with(|context| context.out.flush());
        self.check(flushed);
    }

    fn check(&mut self, written: io::Result<()>) {
        let Err(why) = written else { return };
        self.closed = true;
        // A reader that went away has seen enough: the run ends, successfully.
        if why.kind() != io::ErrorKind::BrokenPipe {
            self.failure.get_or_insert(why);
        }
    }

    /// Hands on the rest.
    ///
    /// # Errors
    /// Results that could not be written, other than for want of a reader.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.flush();
        if let Some(why) = self.failure.take() {
            return Err(why).context("failed to write the results");
        }
        self.files_failed.take().map_or(Ok(()), Err)
    }

    /// Shows why there is nothing to show.
    pub(super) fn fail(self, why: &str) -> anyhow::Result<()> {
        self.shared.with(|context| context.note(Level::Error, why));
        self.end()
    }

    /// Hands on what has gathered between reports.
    pub(super) fn flush_events(&mut self) {
        self.write_delays();
        self.flush();
    }

    /// Whether results go nowhere any more.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }
}

/// The terminal is put right however the run ends.
impl Drop for Show {
    fn drop(&mut self) {
        self.lower();
    }
}
