//! The content of the screen and how keys change it: the tables of the last report, sorted and
//! filtered.
//!
//! From the top: a title, a line with the coverage, the tables (the chosen one first), the last
//! lines that were printed, and the keys. This module is independent of the terminal.

use super::keys::Key;
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Report, Table};
use std::cmp::Ordering;

/// The content of the screen.
#[derive(Default)]
pub(super) struct View {
    /// The shown report; a pause keeps it.
    pub(super) page: Page,
    /// The newest report during a pause.
    waiting: Option<Page>,
    /// Problems since the start, by name; `missed_lately` has those of the last interval.
    pub(super) missed: Vec<(&'static str, u64)>,
    pub(super) missed_lately: Vec<(&'static str, u64)>,
    /// Index of the part that keys apply to; it is drawn first.
    pub(super) chosen: usize,
    /// Sort column, among those shown; None keeps the monitor's order.
    pub(super) sort: Option<usize>,
    pub(super) reverse: bool,
    pub(super) paused: bool,
    /// Shows only rows that contain this text, ignoring case.
    pub(super) filter: String,
    /// Whether typed characters are appended to the filter.
    pub(super) typing: bool,
    /// Number of rows of the chosen part that are skipped.
    pub(super) scroll: usize,
}

/// One report.
#[derive(Default)]
pub(super) struct Page {
    /// The first line.
    pub(super) title: String,
    pub(super) parts: Vec<Report>,
}

/// A request of the view to its owner after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewRequest {
    /// Draw what has changed.
    Draw,
    /// Draw everything, including what has not changed.
    Redraw,
    Quit,
    Suspend,
}

/// Rows that a page key scrolls.
const PAGE: usize = 10;

impl View {
    /// Shows a new report; during a pause, after it.
    pub(super) fn show(&mut self, page: Page) {
        if self.paused {
            self.waiting = Some(page);
        } else {
            self.page = page;
            self.clamp();
        }
    }

    /// Adds the coverage of an interval.
    pub(super) fn cover(&mut self, interval: &Coverage) {
        // Tasks that exit inside a state are normal, not a gap.
        let problems = Coverage { exited: 0, ..*interval }.gaps();
        self.missed_lately.clone_from(&problems);
        self.missed.resize(problems.len(), ("", 0));
        for (sum, (name, count)) in self.missed.iter_mut().zip(problems) {
            *sum = (name, sum.1 + count);
        }
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: Key) -> ViewRequest {
        match key {
            Key::Suspend => return ViewRequest::Suspend,
            Key::Redraw => return ViewRequest::Redraw,
            _ if self.typing => self.type_filter(key),
            Key::Char('q' | 'Q') => return ViewRequest::Quit,
            Key::Char(' ') => self.pause(),
            Key::Char('r') => self.reverse = !self.reverse,
            Key::Char('/') => self.typing = true,
            Key::Escape => self.filter.clear(),
            Key::Char('>') | Key::Right => self.sort_by(1),
            Key::Char('<') | Key::Left => self.sort_by(-1),
            Key::Tab => self.choose_next(),
            Key::Down => self.scroll = self.scroll.saturating_add(1),
            Key::Up => self.scroll = self.scroll.saturating_sub(1),
            Key::PageDown => self.scroll = self.scroll.saturating_add(PAGE),
            Key::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            Key::Home => self.scroll = 0,
            Key::End => self.scroll = usize::MAX,
            _ => {}
        }
        self.clamp();
        ViewRequest::Draw
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let Some(page) = self.waiting.take().filter(|_| !self.paused) {
            self.page = page;
        }
    }

    /// Advances through the monitor's own order and each column, cyclically.
    fn sort_by(&mut self, step: isize) {
        let columns = self.table().map_or(0, |table| visible(table).count());
        let places = columns as isize + 1;
        let now = self.sort.map_or(0, |column| column as isize + 1);
        let next = (now + step).rem_euclid(places);
        self.sort = usize::try_from(next - 1).ok();
        self.reverse = false;
        self.scroll = 0;
    }

    fn choose_next(&mut self) {
        self.chosen += 1;
        (self.sort, self.reverse, self.scroll) = (None, false, 0);
    }

    /// Clamps the chosen part and the scroll position to the report.
    fn clamp(&mut self) {
        if self.chosen >= self.page.parts.len() {
            self.chosen = 0;
        }
        let lines = match self.page.parts.get(self.chosen) {
            Some(Report::Table(table)) => self.rows(table, true).len(),
            Some(Report::Hist(hist)) => hist.buckets.len(),
            Some(Report::Row(_)) | None => 0,
        };
        self.scroll = self.scroll.min(lines.saturating_sub(1));
    }

    /// Returns the table that keys apply to.
    pub(super) fn table(&self) -> Option<&Table> {
        match self.page.parts.get(self.chosen) {
            Some(Report::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// Returns the rows of a table to show, in order. `chosen` is set for the table that keys sort.
    pub(super) fn rows(&self, table: &Table, chosen: bool) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let kept = |row: &[Cell]| {
            wanted.is_empty()
                || visible(table).any(|(i, _)| row.get(i).is_some_and(|cell| holds(cell, &wanted)))
        };
        let numbered = table.rows.iter().enumerate().filter(|(_, row)| kept(row));
        let mut rows: Vec<usize> = numbered.map(|(i, _)| i).collect();
        if !chosen {
            return rows;
        }
        if let Some((source, _)) = self.sort.and_then(|column| visible(table).nth(column)) {
            let cell = |row: &usize| table.rows.get(*row).and_then(|cells| cells.get(source));
            let numbers = is_numeric(table, source);
            rows.sort_by(|a, b| {
                let order = order(cell(a), cell(b));
                if numbers { order.reverse() } else { order }
            });
        }
        if self.reverse {
            rows.reverse();
        }
        rows
    }
}

/// Returns the columns that are shown, with their indices in a row.
pub(super) fn visible(
    table: &Table,
) -> impl Iterator<Item = (usize, &crate::base::report::draw::Column)> {
    table.columns.iter().enumerate().filter(|(_, column)| !column.json_only)
}

/// Returns whether a column contains numbers, which sort in descending order.
fn is_numeric(table: &Table, column: usize) -> bool {
    let cells = table.rows.iter().filter_map(|row| row.get(column));
    cells.into_iter().any(|cell| matches!(cell, Cell::Int(_) | Cell::Num(_)))
}

fn holds(cell: &Cell, wanted: &str) -> bool {
    match cell {
        Cell::Empty => false,
        Cell::Int(value) => value.get().to_string().contains(wanted),
        Cell::Num(value) => value.to_string().contains(wanted),
        Cell::Bool(value) => value.to_string().contains(wanted),
        Cell::Text(text) => text.to_lowercase().contains(wanted),
        Cell::Stack(stack) => {
            stack.frames.iter().any(|frame| frame.to_lowercase().contains(wanted))
        }
    }
}

/// Orders cells: empty, numbers, booleans, text, stacks.
fn order(a: Option<&Cell>, b: Option<&Cell>) -> Ordering {
    let rank = |cell: Option<&Cell>| match cell {
        None | Some(Cell::Empty) => 0,
        Some(Cell::Int(_) | Cell::Num(_)) => 1,
        Some(Cell::Bool(false)) => 2,
        Some(Cell::Bool(true)) => 3,
        Some(Cell::Text(_)) => 4,
        Some(Cell::Stack(_)) => 5,
    };
    match (a, b) {
        (Some(Cell::Int(a)), Some(Cell::Int(b))) => a.cmp(b),
        (Some(Cell::Num(a)), Some(Cell::Num(b))) => a.total_cmp(b),
        (Some(Cell::Int(a)), Some(Cell::Num(b))) => (a.get() as f64).total_cmp(b),
        (Some(Cell::Num(a)), Some(Cell::Int(b))) => a.total_cmp(&(b.get() as f64)),
        (Some(Cell::Text(a)), Some(Cell::Text(b))) => a.cmp(b),
        (Some(Cell::Stack(a)), Some(Cell::Stack(b))) => a.frames.cmp(&b.frames),
        _ => rank(a).cmp(&rank(b)),
    }
}
