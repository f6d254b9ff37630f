//! What the screen shows and what keys change about it: the last report's tables, sorted and filtered as asked.
//!
//! From the top: a title, a line that says what was missed, the tables (the chosen one first), the last lines that were
//! printed, and the keys. Nothing here knows a terminal.

use super::keys::Key;
use crate::base::coverage::Coverage;
use crate::base::draw::{Cell, Report, Table};
use std::cmp::Ordering;

/// What the screen shows.
#[derive(Default)]
pub(super) struct View {
    /// The report on show; a pause holds it.
    pub(super) page: Page,
    /// The newest report during a pause.
    waiting: Option<Page>,
    /// What went wrong since the start, by name, and the part of the last interval.
    pub(super) missed: Vec<(&'static str, u64)>,
    pub(super) missed_lately: Vec<(&'static str, u64)>,
    /// Which part keys are for; it is drawn first.
    pub(super) chosen: usize,
    /// The column that sorts, among those shown; None leaves the rows as the monitor has them.
    pub(super) sort: Option<usize>,
    pub(super) reverse: bool,
    pub(super) paused: bool,
    /// Rows hold this text, whatever its case.
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) typing: bool,
    /// Rows of the chosen part that are skipped.
    pub(super) scroll: usize,
}

/// One report.
#[derive(Default)]
pub(super) struct Page {
    /// The first line.
    pub(super) title: String,
    pub(super) parts: Vec<Report>,
}

/// What a key asks of those who own the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// It is drawn anew.
    Draw,
    /// Also what did not change.
    Redraw,
    Quit,
    Suspend,
}

/// Rows that a page key moves by.
const PAGE: usize = 10;

impl View {
    /// A new report.
    pub(super) fn show(&mut self, page: Page) {
        if self.paused {
            self.waiting = Some(page);
        } else {
            self.page = page;
            self.settle();
        }
    }

    /// What an interval missed.
    pub(super) fn cover(&mut self, interval: &Coverage) {
        // That tasks end inside of something is life, not a gap.
        let problems = Coverage { exited: 0, ..*interval }.problems();
        self.missed_lately = problems.to_vec();
        self.missed.resize(problems.len(), ("", 0));
        for (sum, (name, count)) in self.missed.iter_mut().zip(problems) {
            *sum = (name, sum.1 + count);
        }
    }

    /// Does what a key means.
    pub(super) fn press(&mut self, key: Key) -> Wish {
        match key {
            Key::Suspend => return Wish::Suspend,
            Key::Redraw => return Wish::Redraw,
            _ if self.typing => self.type_filter(key),
            Key::Char('q' | 'Q') => return Wish::Quit,
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
        self.settle();
        Wish::Draw
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

    /// The monitor's own order, then each column, round and round.
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

    /// Keeps what was chosen inside of what there is.
    fn settle(&mut self) {
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

    /// The table that keys are for.
    pub(super) fn table(&self) -> Option<&Table> {
        match self.page.parts.get(self.chosen) {
            Some(Report::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// The rows of a table to show, in order: `chosen` says whether it is the one that keys sort.
    pub(super) fn rows(&self, table: &Table, chosen: bool) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let kept = |row: &Vec<Cell>| {
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

/// Columns that are shown, with their places in a row.
pub(super) fn visible(table: &Table) -> impl Iterator<Item = (usize, &crate::base::draw::Column)> {
    table.columns.iter().enumerate().filter(|(_, column)| !column.json_only)
}

/// Whether a column holds numbers, which sort from the largest.
fn is_numeric(table: &Table, column: usize) -> bool {
    let cells = table.rows.iter().filter_map(|row| row.get(column));
    cells.into_iter().any(|cell| matches!(cell, Cell::Int(_) | Cell::Num(_)))
}

fn holds(cell: &Cell, wanted: &str) -> bool {
    match cell {
        Cell::Empty => false,
        Cell::Int(value) => value.to_string().contains(wanted),
        Cell::Num(value) => value.to_string().contains(wanted),
        Cell::Bool(value) => value.to_string().contains(wanted),
        Cell::Text(text) => text.to_lowercase().contains(wanted),
        Cell::Stack { frames, .. } => {
            frames.iter().any(|frame| frame.to_lowercase().contains(wanted))
        }
    }
}

/// Nothing before numbers before booleans before text before stacks.
fn order(a: Option<&Cell>, b: Option<&Cell>) -> Ordering {
    let rank = |cell: Option<&Cell>| match cell {
        None | Some(Cell::Empty) => 0,
        Some(Cell::Int(_) | Cell::Num(_)) => 1,
        Some(Cell::Bool(false)) => 2,
        Some(Cell::Bool(true)) => 3,
        Some(Cell::Text(_)) => 4,
        Some(Cell::Stack { .. }) => 5,
    };
    match (a, b) {
        (Some(Cell::Int(a)), Some(Cell::Int(b))) => a.cmp(b),
        (Some(Cell::Num(a)), Some(Cell::Num(b))) => a.total_cmp(b),
        (Some(Cell::Int(a)), Some(Cell::Num(b))) => (*a as f64).total_cmp(b),
        (Some(Cell::Num(a)), Some(Cell::Int(b))) => a.total_cmp(&(*b as f64)),
        (Some(Cell::Text(a)), Some(Cell::Text(b))) => a.cmp(b),
        (Some(Cell::Stack { frames: a, .. }), Some(Cell::Stack { frames: b, .. })) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}
