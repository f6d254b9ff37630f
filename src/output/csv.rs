//! CSV, for spreadsheets and databases.
//!
//! There are two kinds of rows, and each has one header:
//!
//! - rows of tables: `time table`, then the keys that the columns of all tables of the report have
//!   in JSON; a column that a table does not have is empty in its rows. A row that `emit` prints
//!   has the monitor's name as its table. A histogram is a table, too: `unit`, a column per key
//!   column, `low high count`; a row per bucket. If counts are estimates (`--budget`), a column
//!   `count_error` follows.
//! - events: `time event cpu pid tid comm`, the fields of all opened events (empty where an event
//!   has no such field), `extra` (what the script adds, as `name=value`), `stack`.
//!
//! The output of most monitors is therefore one plain table, from which the column `table` selects.
//! A header is repeated, after an empty line, only if rows of the other kind stand above, or if a
//! later report has new columns, which are added at the end.
//!
//! Values are those of JSON: times in UTC, exact integers, pointers in hexadecimal, arrays as
//! `[1,2]`. Frames of a stack are separated by `;`, innermost first. Control characters are escaped
//! as in text, so that each record is one line. A spreadsheet would execute text that begins with
//! `=`, `+`, `-` or `@` as a formula; such text begins with `'` instead, unless it is a number.
//! Notes, coverage and stats go to stderr; so do, at the end, the numbers of rows beyond the limits
//! of tables.

mod cell;
mod columns;

use super::omitted_rows::OmittedRows;
use super::text::{TextOptions, push_problems, stats_text};
use super::wall::Wall;
use super::{ByteSink, table};
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{
    Draw, DrawnHistogram, EventLine, EventText, Level, OpenedEvent, Report, Stamp,
};
use crate::base::report::run_stats::Stats;
use crate::base::text::message::message;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::{digits, escape, field};
use cell::{end_row, is_formula, push_cell, push_field, push_text, push_value, separate};
use columns::{RowLayout, SharedColumns};
use jiff::tz::TimeZone;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

/// Columns of a table before its own.
const ROW: [&str; 2] = ["time", "table"];
/// Columns of an event before its fields.
const SAMPLE: [&str; 6] = ["time", "event", "cpu", "pid", "tid", "comm"];
/// Columns after them.
const ADDED: [&str; 2] = ["extra", "stack"];

/// Draws CSV.
pub struct Csv {
    sink: ByteSink,
    messages: Box<dyn Write>,
    wall: Wall,
    monitor: String,
    quiet: bool,
    stacks: StackStyle,
    writer: csv_core::Writer,
    /// The header above the last row.
    above: HeaderAbove,
    /// The header of events.
    event_header: Vec<u8>,
    /// Columns of the fields of events.
    fields: SharedColumns,
    /// The fields of each opened event.
    layouts: HashMap<String, RowLayout>,
    /// Columns of tables after [`ROW`].
    table_columns: SharedColumns,
    /// Rows beyond the limits of tables.
    omitted: OmittedRows,
    /// The values of an event's fields, by their index. They keep their memory.
    cells: Vec<Vec<u8>>,
    /// One cell.
    cell: Vec<u8>,
}

/// The header that the last row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderAbove {
    /// There is none.
    Nothing,
    /// It lacks columns that were added since.
    Outdated,
    Tables,
    Events,
}

impl Csv {
    /// Returns CSV output of a monitor with this name. Messages are written at once.
    pub fn new(
        results: Box<dyn Write>,
        messages: Box<dyn Write>,
        monitor: &str,
        look: TextOptions,
    ) -> Csv {
        let mut csv = Csv {
            sink: ByteSink::new(results),
            messages,
            wall: Wall::new(TimeZone::UTC, 'T'),
            monitor: monitor.to_owned(),
            quiet: look.quiet,
            stacks: look.stacks,
            writer: csv_core::Writer::new(),
            above: HeaderAbove::Nothing,
            event_header: Vec::new(),
            fields: SharedColumns::default(),
            layouts: HashMap::new(),
            table_columns: SharedColumns::default(),
            omitted: OmittedRows::default(),
            cells: Vec::new(),
            cell: Vec::new(),
        };
        csv.opened(&[]);
        csv
    }

    /// Writes a header if the rows above have another one.
    fn begin(&mut self, kind: HeaderAbove) {
        if self.above == kind {
            return;
        }
        let out = &mut self.sink.buffer;
        if self.above != HeaderAbove::Nothing {
            out.push(b'\n');
        }
        self.above = kind;
        match kind {
            HeaderAbove::Events => out.extend_from_slice(&self.event_header),
            _ => out.extend(header(ROW.into_iter().chain(self.table_columns.names()))),
        }
    }

    /// Starts a row with its time and the name of its table or event.
    fn start(&mut self, stamp: Stamp, name: &[u8]) {
        self.wall.push(&mut self.sink.buffer, stamp.wall_ns);
        self.sink.buffer.extend_from_slice(b"Z,");
        self.text(name);
    }

    /// Appends a cell with text.
    fn text(&mut self, text: &[u8]) {
        self.cell.clear();
        push_text(&mut self.cell, text);
        push_field(&mut self.writer, &mut self.sink.buffer, &self.cell);
    }

    /// Writes a row of a table: its values in the order of its own columns.
    fn row(&mut self, stamp: Stamp, name: &str, layout: &RowLayout, values: &[&Cell]) {
        self.begin(HeaderAbove::Tables);
        self.start(stamp, name.as_bytes());
        let (writer, cell) = (&mut self.writer, &mut self.cell);
        layout.push_row(&mut self.sink.buffer, self.table_columns.len(), |out, index| {
            cell.clear();
            values.get(index).into_iter().for_each(|value| push_cell(cell, value));
            push_field(writer, out, cell);
        });
        end_row(&mut self.sink.buffer);
        self.sink.write_early();
    }

    /// Adds the columns of a part of a report.
    fn lay_out(&mut self, part: &Report) -> RowLayout {
        let columns = &mut self.table_columns;
        let free = |name| free_name(name, &ROW);
        match part {
            Report::Table(table) if table.rows.is_empty() => RowLayout::default(),
            Report::Table(table) => columns.lay_out(table.columns.iter().map(|c| free(&c.key))),
            Report::Hist(hist) => {
                let keys = hist.keys.iter().map(|(key, _)| key.as_str());
                let all = ["unit"].into_iter().chain(keys).chain(["low", "high", "count"]);
                let error = (!hist.errors.is_empty()).then_some("count_error");
                columns.lay_out(all.chain(error).map(free))
            }
            Report::Row(pairs) => columns.lay_out(pairs.iter().map(|(key, _)| free(key))),
        }
    }

    fn part(&mut self, stamp: Stamp, part: &Report, layout: &RowLayout) {
        match part {
            Report::Table(table) => {
                self.omitted.add(table);
                for row in table.rows.iter() {
                    let row: Vec<&Cell> = row.iter().collect();
                    self.row(stamp, &table.name, layout, &row);
                }
            }
            Report::Hist(hist) => self.hist(stamp, hist, layout),
            Report::Row(pairs) => {
                let monitor = std::mem::take(&mut self.monitor);
                let row: Vec<&Cell> = pairs.iter().map(|(_, cell)| cell).collect();
                self.row(stamp, &monitor, layout, &row);
                self.monitor = monitor;
            }
        }
    }

    fn hist(&mut self, stamp: Stamp, hist: &DrawnHistogram, layout: &RowLayout) {
        let unit = Cell::Text(hist.unit.clone());
        for (at, bucket) in hist.buckets.iter().enumerate() {
            let numbers = [bucket.low.into(), bucket.high.into(), i128::from(bucket.count)];
            let numbers = numbers.map(Cell::whole);
            let error = hist.errors.get(at).map(|error| Cell::Num(*error));
            let keys = hist.keys.iter().map(|(_, cell)| cell);
            let row = std::iter::once(&unit).chain(keys).chain(&numbers).chain(&error);
            let row: Vec<&Cell> = row.collect();
            self.row(stamp, &hist.name, layout, &row);
        }
    }

    /// Writes a line to stderr at once. A failure is ignored, because it cannot be reported.
    fn message(&mut self, text: &str) {
        let line = message(text);
        let _ = self.messages.write_all(&line).and_then(|()| self.messages.flush());
    }

    /// Appends the event's own fields, and puts what has no column into `cell`.
    fn place(&mut self, event: &mut EventLine<'_>) {
        self.cell.clear();
        let none = RowLayout::default();
        let layout = self.layouts.get(event.name).unwrap_or(&none);
        let own = self.cells.get_mut(..layout.len()).unwrap_or_default();
        own.iter_mut().for_each(Vec::clear);
        for (i, (name, value)) in event.fields.iter().enumerate() {
            match own.get_mut(i) {
                Some(cell) => push_value(cell, value),
                None => {
                    separate(&mut self.cell);
                    field::push_fields(&mut self.cell, std::iter::once((*name, *value)));
                }
            }
        }
        let (writer, columns) = (&mut self.writer, self.fields.len());
        layout.push_row(&mut self.sink.buffer, columns, |out, index| {
            push_field(writer, out, own.get(index).map_or(&[], Vec::as_slice));
        });
        push_added(&mut self.cell, event);
    }
}

impl Draw for Csv {
    fn opened(&mut self, events: &[OpenedEvent]) {
        (self.fields, self.layouts) = Default::default();
        let taken = [&SAMPLE[..], &ADDED].concat();
        for event in events {
            let names = event.fields.iter().map(|(name, _)| free_name(name, &taken));
            let layout = self.fields.lay_out(names);
            if self.cells.len() < layout.len() {
                self.cells.resize(layout.len(), Vec::new());
            }
            self.layouts.entry(event.name.clone()).or_insert(layout);
        }
        let new = header(SAMPLE.into_iter().chain(self.fields.names()).chain(ADDED));
        let before = std::mem::replace(&mut self.event_header, new);
        if self.above == HeaderAbove::Events && before != self.event_header {
            self.above = HeaderAbove::Outdated;
        }
    }

    fn event(&mut self, event: &mut EventLine<'_>) {
        self.begin(HeaderAbove::Events);
        self.start(event.stamp, event.name.as_bytes());
        // Signed, as in the kernel: -1 is a task that is being released.
        let numbers = [i64::from(event.cpu), signed(event.pid), signed(event.tid)];
        for number in numbers {
            digits::push_i64(&mut self.sink.buffer, number);
            self.sink.buffer.push(b',');
        }
        self.text(event.comm);
        self.place(event);
        if is_formula(&self.cell) {
            self.cell.insert(0, b'\'');
        }
        push_field(&mut self.writer, &mut self.sink.buffer, &self.cell);
        self.cell.clear();
        if !event.stack.is_empty() {
            let frames = self.stacks.chosen(event.stack);
            let frames: Vec<String> = frames.iter().map(|f| self.stacks.text(f)).collect();
            push_text(&mut self.cell, frames.join(";").as_bytes());
        }
        push_field(&mut self.writer, &mut self.sink.buffer, &self.cell);
        end_row(&mut self.sink.buffer);
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        let before = self.table_columns.len();
        let layouts: Vec<RowLayout> = parts.iter().map(|part| self.lay_out(part)).collect();
        if self.above == HeaderAbove::Tables && self.table_columns.len() > before {
            self.above = HeaderAbove::Outdated;
        }
        for (part, layout) in parts.iter().zip(&layouts) {
            self.part(stamp, part, layout);
        }
    }

    fn note(&mut self, _stamp: Stamp, level: Level, text: &str) {
        if let Some(prefix) = level.prefix(self.quiet) {
            self.message(&format!("{prefix}{text}"));
        }
    }

    fn coverage(&mut self, _stamp: Stamp, coverage: &Coverage, last: bool) {
        let coverage = Coverage { exited: 0, ..*coverage };
        if !coverage.is_perfect() {
            let mut text = Vec::new();
            push_problems(&mut text, &coverage.gaps());
            let of = if last { "coverage of the run" } else { "coverage" };
            self.message(&format!("{of}: {}", String::from_utf8_lossy(&text)));
        }
    }

    fn stats(&mut self, _stamp: Stamp, stats: &Stats) {
        self.message(&stats_text(stats));
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.sink.flush_if_large()
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        // Also with `--quiet`: the results do not show this loss.
        for text in self.omitted.take_messages() {
            self.message(&text);
        }
        Ok(())
    }
}

fn signed(id: u32) -> i64 {
    id.cast_signed().into()
}

/// Returns a header line.
fn header<'a>(names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let (mut writer, mut line, mut cell) = (csv_core::Writer::new(), Vec::new(), Vec::new());
    for name in names {
        cell.clear();
        push_text(&mut cell, name.as_bytes());
        push_field(&mut writer, &mut line, &cell);
    }
    end_row(&mut line);
    line
}

/// Returns the name of a column: with one more `_` if it is one of `taken`, as in JSON.
fn free_name<'a>(name: &'a str, taken: &[&str]) -> Cow<'a, str> {
    match taken.contains(&name.trim_end_matches('_')) {
        true => Cow::Owned(format!("{name}_")),
        false => Cow::Borrowed(name),
    }
}

/// Appends what the script and the output add to an event.
fn push_added(out: &mut Vec<u8>, event: &EventLine<'_>) {
    for (name, cell) in event.extra {
        separate(out);
        table::push_pair(out, name, cell);
    }
    if let Some(detail) = event.detail {
        separate(out);
        out.extend_from_slice(b"detail=");
        digits::push_u64(out, detail.number);
        out.extend_from_slice(b" offset_ns=");
        digits::push_i64(out, detail.offset_ns);
    }
    if let EventText::Printer(text) = event.text {
        separate(out);
        out.extend_from_slice(b"text=");
        escape::push_word(out, text);
    }
}

#[cfg(test)]
mod tests;
