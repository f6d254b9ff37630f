//! The full screen: a report's tables where a terminal is, kept up to date, and sorted, filtered and held by keys.
//!
//! It is text output with a view in front of it. While the terminal is large enough, reports go to the view and what else
//! is printed is kept; when it is too small, and once the run is over, everything is text as ever. The run decides
//! whether there is a screen, hands it the keys and the changes of size, and closes it before the last report.

mod backlog;
mod keys;
mod paint;
mod view;

#[cfg(test)]
mod tests;

use super::text::{Look, Text};
use super::wall::Wall;
use super::{Colour, text};
use crate::base::coverage::Coverage;
use crate::base::draw::{Draw, EventLine, Level, Report, Stamp, Stats, Style};
use crate::sys::streams::{Stdout, say, stderr, stdout};
use crate::sys::terminal::{Size, Terminal};
use backlog::{Backlog, Gate, Place};
use paint::{Around, paint};
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use std::cell::RefCell;
use std::io::{self, BufWriter, Write as _};
use std::rc::Rc;
use view::{Page, View, Wish};

/// Smaller than this, text that scrolls shows more.
const LEAST: Size = Size { columns: 40, rows: 8 };

/// The screen of a run; clones are the same screen.
#[derive(Clone)]
pub struct Screen {
    terminal: Rc<Terminal>,
    inner: Rc<RefCell<Inner>>,
}

/// What the user asked of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// To end it.
    Quit,
}

struct Inner {
    text: Text,
    backlog: Rc<RefCell<Backlog>>,
    wall: Wall,
    monitor: String,
    pages: usize,
    colour: Colour,
    view: View,
    typed: Vec<u8>,
    /// There while the screen is up.
    canvas: Option<ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
    dirty: bool,
}

impl Screen {
    /// A screen on that terminal, not up yet, for the results of a monitor; what is text goes to stdout and stderr.
    pub fn new(terminal: Terminal, monitor: &str, look: Look) -> Screen {
        let backlog = Rc::new(RefCell::new(Backlog::default()));
        let gate = |place, beyond: Box<dyn io::Write>| {
            Box::new(Gate { backlog: backlog.clone(), place, beyond })
        };
        let inner = Inner {
            wall: Wall::new(look.zone.clone(), ' '),
            monitor: monitor.to_owned(),
            pages: look.pages,
            colour: look.colour,
            text: Text::new(
                gate(Place::Results, Box::new(stdout())),
                gate(Place::Notes, Box::new(stderr())),
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

    /// Where keys come from.
    pub fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Raises the screen, or takes it down, as the terminal's size and its foreground have it; draws it anew.
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

    /// Does what the keys mean that were typed since.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn keys(&self) -> io::Result<Asked> {
        let mut wishes = Vec::new();
        {
            let mut inner = self.inner.borrow_mut();
            let inner = &mut *inner;
            self.terminal.read(&mut inner.typed);
            if inner.canvas.is_none() {
                // Typed blindly, into text that scrolls.
                inner.typed.clear();
            }
            for key in keys::take(&mut inner.typed) {
                wishes.push(inner.view.press(key));
                inner.dirty = true;
            }
        }
        for wish in wishes {
            match wish {
                Wish::Draw => {}
                Wish::Redraw => self.fit()?,
                Wish::Quit => return Ok(Asked::Quit),
                Wish::Suspend => self.suspend()?,
            }
        }
        self.inner.borrow_mut().refresh()?;
        Ok(Asked::Nothing)
    }

    /// Stops the process as Ctrl-Z does, and goes on as the terminal has it then.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn suspend(&self) -> io::Result<()> {
        self.close();
        self.terminal.suspend();
        self.fit()
    }

    /// Takes the screen down and prints what was kept; from here on everything is text.
    pub fn close(&self) {
        let mut inner = self.inner.borrow_mut();
        if inner.canvas.take().is_none() {
            return;
        }
        self.terminal.leave();
        let ([results, notes], dropped) = inner.backlog.borrow_mut().release();
        // A terminal that has gone has nobody to show this to.
        let _ = stdout().write_all(&results).and_then(|()| stdout().flush());
        let _ = stderr().write_all(&notes);
        if dropped > 0 {
            say(&format!("{dropped} older lines went by while the screen was up"));
        }
    }
}

impl Inner {
    /// A canvas of that size, blank, and everything on it.
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

    /// Draws what has changed.
    fn refresh(&mut self) -> io::Result<()> {
        let Some(canvas) = self.canvas.as_mut().filter(|_| self.dirty) else { return Ok(()) };
        self.dirty = false;
        let lines = Around::lines(canvas.get_frame().area().height);
        let around = Around {
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
        // A row on its own is a line among others.
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
