//! Reports and the coverage that belongs to them: per interval, and at the end.

use std::io;

use anyhow::Context as _;

use crate::base::coverage::Coverage;
use crate::base::draw::{Draw, Level, Report, Stamp};
use crate::output::screen::{Asked, Screen};
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
}

impl Show {
    /// Draws on what `shared` holds as output; that is `screen`, if there is one.
    pub(super) fn new(shared: Shared, screen: Option<Screen>) -> Self {
        let foreground = screen.is_some();
        let before = Coverage::default();
        Show { shared, screen, foreground, before, closed: false, failure: None }
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
        self.failure.take().map_or(Ok(()), |why| Err(why).context("failed to write the results"))
    }

    /// Shows why there is nothing to show.
    pub(super) fn fail(self, why: &str) -> anyhow::Result<()> {
        self.shared.with(|context| context.note(Level::Error, why));
        self.end()
    }

    /// Hands on what has gathered between reports.
    pub(super) fn flush_events(&mut self) {
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
