//! The full screen: a report's tables on a terminal, kept up to date, and sorted, filtered and
//! paused by keys.
//!
//! It is text output with a view in front. While the terminal is large enough, reports go to the
//! view and other output is kept; when it is too small, and after the run, all output is text. The
//! run decides whether there is a screen, passes keys and size changes to it, and closes it before
//! the last report.

mod backlog;
mod keys;
mod paint;
mod view;

#[cfg(test)]
mod tests;

use super::text::{TextOptions, TextOutput};
use super::wall::Wall;
use super::{Colour, text};
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, EventLine, Level, Report, Stamp, Style};
use crate::base::report::run_stats::Stats;
use crate::sys::streams::{Stdout, print_message, stderr, stdout};
use crate::sys::terminal::{Size, Terminal};
use backlog::{Backlog, Gate, LineDestination};
use paint::{PaintContext, paint};
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use std::cell::RefCell;
use std::io::{self, BufWriter, Write as _};
use std::rc::Rc;
use view::{Page, View, ViewRequest};

/// Minimum size. On a smaller terminal, scrolling text shows more.
const LEAST: Size = Size { columns: 40, rows: 8 };

/// The screen of a run; clones share it.
#[derive(Clone)]
pub struct Screen {
    terminal: Rc<Terminal>,
    inner: Rc<RefCell<ScreenState>>,
}

/// A request of the user to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRequest {
    /// No request.
    Nothing,
    /// End the run.
    Quit,
}

struct ScreenState {
    text: TextOutput,
    backlog: Rc<RefCell<Backlog>>,
    wall: Wall,
    monitor: String,
    pages: usize,
    colour: Colour,
    view: View,
    typed: Vec<u8>,
    /// Present while the screen is shown.
    canvas: Option<ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
    dirty: bool,
}

impl Screen {
    /// Returns a screen on a terminal, not shown yet, for the results of a monitor; text output
    /// goes to stdout and stderr.
    pub fn new(terminal: Terminal, monitor: &str, look: TextOptions) -> Screen {
        let backlog = Rc::new(RefCell::new(Backlog::default()));
        let gate = |place, beyond: Box<dyn io::Write>| {
            Box::new(Gate { backlog: backlog.clone(), place, beyond })
        };
        let inner = ScreenState {
            wall: Wall::new(look.zone.clone(), ' '),
            monitor: monitor.to_owned(),
            pages: look.pages,
            colour: look.colour,
            text: TextOutput::new(
                gate(LineDestination::Results, Box::new(stdout())),
                gate(LineDestination::Notes, Box::new(stderr())),
                look,
            ),
            backlog,
            view: View::default(),
            typed: Vec::new(),
            canvas: None,
            dirty: false,
        };
        Screen { terminal: Rc::new(terminal), inner: Rc::new(RefCell::new(inner)) }
    }

    /// Returns the terminal that keys are read from.
    pub fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Shows or closes the screen, depending on the terminal's size and on whether perilune is in
    /// the foreground, and redraws it.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn fit(&self) -> io::Result<()> {
        let large = |size: &Size| size.columns >= LEAST.columns && size.rows >= LEAST.rows;
        let size = self.terminal.size().filter(large);
        let Some(size) = size.filter(|_| self.terminal.is_ours()) else {
            self.close();
            return Ok(());
        };
        let mut inner = self.inner.borrow_mut();
        inner.text.flush()?;
        self.terminal.enter()?;
        inner.backlog.borrow_mut().keep();
        inner.raise(size)
    }

    /// Handles the keys typed since the last call.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn keys(&self) -> io::Result<UserRequest> {
        let mut requests = Vec::new();
        {
            let mut inner = self.inner.borrow_mut();
            let inner = &mut *inner;
            self.terminal.read(&mut inner.typed);
            if inner.canvas.is_none() {
                // Discards keys that were typed while text scrolls.
                inner.typed.clear();
            }
            for key in keys::take(&mut inner.typed) {
                requests.push(inner.view.press(key));
                inner.dirty = true;
            }
        }
        for request in requests {
            match request {
                ViewRequest::Draw => {}
                ViewRequest::Redraw => self.fit()?,
                ViewRequest::Quit => return Ok(UserRequest::Quit),
                ViewRequest::Suspend => self.suspend()?,
            }
        }
        self.inner.borrow_mut().refresh()?;
        Ok(UserRequest::Nothing)
    }

    /// Stops the process as Ctrl-Z does, and continues with the terminal's state at that time.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn suspend(&self) -> io::Result<()> {
        self.close();
        self.terminal.suspend();
        self.fit()
    }

    /// Closes the screen and prints the kept lines; all further output is text.
    pub fn close(&self) {
        let mut inner = self.inner.borrow_mut();
        if inner.canvas.take().is_none() {
            return;
        }
        self.terminal.leave();
        let ([results, notes], dropped) = inner.backlog.borrow_mut().release();
        // Ignores errors: if the terminal is gone, they cannot be reported.
        let _ = stdout().write_all(&results).and_then(|()| stdout().flush());
        let _ = stderr().write_all(&notes);
        if dropped > 0 {
            print_message(&format!(
                "{dropped} older lines were dropped while the screen was active"
            ));
        }
    }
}

impl ScreenState {
    /// Creates a blank canvas of that size and draws everything.
    fn raise(&mut self, size: Size) -> io::Result<()> {
        let area = Rect::new(0, 0, size.columns, size.rows);
        let mut backend = CrosstermBackend::new(BufWriter::new(stdout()));
        backend.clear()?;
        let viewport = Viewport::Fixed(area);
        let options = TerminalOptions { viewport };
        self.canvas = Some(ratatui::Terminal::with_options(backend, options)?);
        self.dirty = true;
        self.refresh()
    }

    /// Draws the screen if it has changed.
    fn refresh(&mut self) -> io::Result<()> {
        let Some(canvas) = self.canvas.as_mut().filter(|_| self.dirty) else { return Ok(()) };
        self.dirty = false;
        let lines = PaintContext::lines(canvas.get_frame().area().height);
        let around = PaintContext {
            printed: self.backlog.borrow().last(lines).collect(),
            pages: self.pages,
            colour: self.colour,
        };
        canvas.draw(|frame| paint(&self.view, &around, frame.area(), frame.buffer_mut()))?;
        Ok(())
    }

    fn title(&mut self, stamp: Stamp, parts: &[Report]) -> String {
        let time = String::from_utf8_lossy(self.wall.time_of_day(stamp.wall_ns)).into_owned();
        let what = match text::shown(parts).next() {
            Some(Report::Table(table)) if table.style == Style::Top => {
                format!("sample {} events", table.samples)
            }
            _ => self.monitor.clone(),
        };
        format!("perilune - {time}  {what}")
    }
}

impl Draw for Screen {
    fn event(&mut self, event: &mut EventLine<'_>) {
        self.inner.borrow_mut().text.event(event);
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        let mut inner = self.inner.borrow_mut();
        // A single row is printed as a line.
        let only_rows = parts.iter().all(|part| matches!(part, Report::Row(_)));
        if !only_rows {
            let title = inner.title(stamp, parts);
            inner.view.show(Page { title, parts: parts.to_vec() });
            inner.dirty = true;
        }
        if only_rows || inner.canvas.is_none() {
            inner.text.report(stamp, parts);
        }
    }

    fn note(&mut self, stamp: Stamp, level: Level, text: &str) {
        self.inner.borrow_mut().text.note(stamp, level, text);
    }

    fn coverage(&mut self, stamp: Stamp, coverage: &Coverage, last: bool) {
        let mut inner = self.inner.borrow_mut();
        if !last {
            inner.view.cover(coverage);
            inner.dirty = true;
        }
        if last || inner.canvas.is_none() {
            inner.text.coverage(stamp, coverage, last);
        }
    }

    fn stats(&mut self, stamp: Stamp, stats: &Stats) {
        self.inner.borrow_mut().text.stats(stamp, stats);
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut inner = self.inner.borrow_mut();
        let before = inner.backlog.borrow().count();
        inner.text.flush()?;
        let kept = inner.backlog.borrow().count();
        inner.dirty |= kept != before;
        inner.refresh()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.inner.borrow_mut().text.flush_if_large()
    }
}
