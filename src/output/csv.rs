//! CSV, for spreadsheets.
//!
//! The rows of a table follow a header with its columns. If another table follows, its header
//! stands after an empty line, so that the output of a monitor with one table is one plain table:
//!
//! - table: `time table`, then the keys that its columns have in JSON; a row that `emit` prints
//!   has the monitor's name as its table.
//! - histogram: `time hist unit`, a column per key column, `low high count`; a row per bucket.
//! - events: `time event cpu pid tid comm`, the fields of all opened events (empty where an event
//!   has no such field), `extra` (what the script adds, as `name=value`), `stack`.
//!
//! Values are those of JSON: times in UTC, exact integers, pointers in hexadecimal, arrays as
//! `[1,2]`. Frames of a stack are separated by `;`, innermost first. Control characters are escaped
//! as in text, so that each record is one line. A spreadsheet would execute text that begins with
//! `=`, `+`, `-` or `@` as a formula; such text begins with `'` instead, unless it is a number.
//! Notes, coverage and stats go to stderr.

use super::text::{TextOptions, push_problems, stats_text};
use super::wall::Wall;
use super::{ByteSink, table};
use crate::base::event::value::Value;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{
    Cell, Draw, DrawnHistogram, EventLine, EventText, Level, OpenedEvent, Report, Stamp, Stats,
    Table,
};
use crate::base::text::message::message;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::{digits, escape, field};
use jiff::tz::TimeZone;
use std::io::{self, Write};

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
    header: Vec<u8>,
    /// The header of events.
    event_header: Vec<u8>,
    /// The column of each field of each opened event, counted from the first field.
    fields: Vec<(String, Vec<usize>)>,
    /// The cells of an event's fields, by column. They keep their memory.
    cells: Vec<Vec<u8>>,
    /// One cell.
    cell: Vec<u8>,
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
            header: Vec::new(),
            event_header: Vec::new(),
            fields: Vec::new(),
            cells: Vec::new(),
            cell: Vec::new(),
        };
        csv.opened(&[]);
        csv
    }

    /// Writes a header if the rows above have another one.
    fn begin(&mut self, header: &[u8]) {
        if self.header != header {
            if !self.header.is_empty() {
                self.sink.buffer.push(b'\n');
            }
            self.sink.buffer.extend_from_slice(header);
            self.header = header.to_vec();
        }
    }

    /// Starts a row with its time.
    fn time(&mut self, stamp: Stamp) {
        self.wall.push(&mut self.sink.buffer, stamp.wall_ns);
        self.sink.buffer.extend_from_slice(b"Z,");
    }

    /// Appends a cell with text.
    fn text(&mut self, text: &[u8]) {
        self.cell.clear();
        push_text(&mut self.cell, text);
        push_field(&mut self.writer, &mut self.sink.buffer, &self.cell);
    }

    /// Appends the cell of a table.
    fn value(&mut self, cell: &Cell) {
        self.cell.clear();
        push_cell(&mut self.cell, cell);
        push_field(&mut self.writer, &mut self.sink.buffer, &self.cell);
    }

    fn end(&mut self) {
        end_row(&mut self.sink.buffer);
    }

    fn row<'a>(
        &mut self,
        stamp: Stamp,
        name: &str,
        pairs: impl Iterator<Item = (&'a str, &'a Cell)> + Clone,
    ) {
        let keys = pairs.clone().map(|(key, _)| key);
        self.begin(&header(["time", "table"].into_iter().chain(keys)));
        self.time(stamp);
        self.text(name.as_bytes());
        pairs.for_each(|(_, cell)| self.value(cell));
        self.end();
    }

    fn table(&mut self, stamp: Stamp, table: &Table) {
        for row in &table.rows {
            let keys = table.columns.iter().map(|column| column.key.as_str());
            self.row(stamp, &table.name, keys.zip(row));
        }
    }

    fn hist(&mut self, stamp: Stamp, hist: &DrawnHistogram) {
        let keys = hist.keys.iter().map(|(key, _)| key.as_str());
        let columns = ["time", "hist", "unit"].into_iter().chain(keys);
        self.begin(&header(columns.chain(["low", "high", "count"])));
        for bucket in &hist.buckets {
            self.time(stamp);
            self.text(hist.name.as_bytes());
            self.text(hist.unit.as_bytes());
            hist.keys.iter().for_each(|(_, cell)| self.value(cell));
            for number in [bucket.low.into(), bucket.high.into(), i128::from(bucket.count)] {
                self.value(&Cell::Int(number));
            }
            self.end();
        }
    }

    /// Writes a line to stderr at once. A failure is ignored, because it cannot be reported.
    fn message(&mut self, text: &str) {
        let line = message(text);
        let _ = self.messages.write_all(&line).and_then(|()| self.messages.flush());
    }

    /// Fills the cells of the event's own fields, and `cell` with what has no column.
    fn place(&mut self, event: &mut EventLine<'_>) {
        self.cells.iter_mut().for_each(Vec::clear);
        self.cell.clear();
        let known = self.fields.iter().find(|(name, _)| name == event.name);
        let columns = known.map_or(&[][..], |(_, columns)| columns);
        for (i, (name, value)) in (&mut *event.fields).enumerate() {
            match columns.get(i).and_then(|column| self.cells.get_mut(*column)) {
                Some(cell) => push_value(cell, &value),
                None => {
                    separate(&mut self.cell);
                    field::push_fields(&mut self.cell, std::iter::once((name, value)));
                }
            }
        }
        for (name, cell) in event.extra {
            separate(&mut self.cell);
            table::push_pair(&mut self.cell, name, cell);
        }
        if let Some(detail) = event.detail {
            separate(&mut self.cell);
            self.cell.extend_from_slice(b"detail=");
            digits::push_u64(&mut self.cell, detail.number);
            self.cell.extend_from_slice(b" offset_ns=");
            digits::push_i64(&mut self.cell, detail.offset_ns);
        }
        if let EventText::Printer(text) = event.text {
            separate(&mut self.cell);
            self.cell.extend_from_slice(b"text=");
            escape::push_word(&mut self.cell, text);
        }
    }
}

impl Draw for Csv {
    fn opened(&mut self, events: &[OpenedEvent]) {
        let mut columns: Vec<String> = Vec::new();
        self.fields.clear();
        for event in events {
            let mut own: Vec<usize> = Vec::new();
            for (name, _) in &event.fields {
                let name = free_name(name);
                // An event may have two fields of one name; each has a column.
                let taken = |i: usize, column: &String| *column == name && !own.contains(&i);
                let column = columns.iter().enumerate().position(|(i, c)| taken(i, c));
                own.push(column.unwrap_or_else(|| {
                    columns.push(name);
                    columns.len() - 1
                }));
            }
            self.fields.push((event.name.clone(), own));
        }
        let names = columns.iter().map(String::as_str);
        self.event_header = header(SAMPLE.into_iter().chain(names).chain(ADDED));
        self.cells.resize(columns.len(), Vec::new());
    }

    fn event(&mut self, event: &mut EventLine<'_>) {
        let header = std::mem::take(&mut self.event_header);
        self.begin(&header);
        self.event_header = header;
        self.time(event.stamp);
        self.text(event.name.as_bytes());
        // Signed, as in the kernel: -1 is a task that is being released.
        let numbers = [i64::from(event.cpu), signed(event.pid), signed(event.tid)];
        for number in numbers {
            digits::push_i64(&mut self.sink.buffer, number);
            self.sink.buffer.push(b',');
        }
        self.text(event.comm);
        self.place(event);
        for cell in &self.cells {
            push_field(&mut self.writer, &mut self.sink.buffer, cell);
        }
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
        self.end();
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        for part in parts {
            match part {
                Report::Table(table) => self.table(stamp, table),
                Report::Hist(hist) => self.hist(stamp, hist),
                Report::Row(pairs) => {
                    let monitor = std::mem::take(&mut self.monitor);
                    self.row(stamp, &monitor, pairs.iter().map(|(key, cell)| (&**key, cell)));
                    self.monitor = monitor;
                }
            }
        }
    }

    fn note(&mut self, _stamp: Stamp, level: Level, text: &str) {
        let prefix = match level {
            Level::Info | Level::Warning if self.quiet => return,
            Level::Info => "note: ",
            Level::Warning => "warning: ",
            Level::Alert => "ALERT ",
            Level::Error => "",
        };
        self.message(&format!("{prefix}{text}"));
    }

    fn coverage(&mut self, _stamp: Stamp, coverage: &Coverage, last: bool) {
        let coverage = Coverage { exited: 0, ..*coverage };
        if !coverage.is_perfect() {
            let mut text = Vec::new();
            push_problems(&mut text, &coverage.problems());
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

/// Returns the name of a field's column: with one more `_` if it is taken, as in JSON.
fn free_name(field: &str) -> String {
    let is_taken = SAMPLE.iter().chain(&ADDED).any(|name| *name == field.trim_end_matches('_'));
    format!("{field}{}", if is_taken { "_" } else { "" })
}

/// Appends a field, quoted if needed, and a comma.
fn push_field(writer: &mut csv_core::Writer, out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    // The longest result: in quotes, each character a quote, which is doubled; and the comma.
    out.resize(start + 2 * text.len() + 3, 0);
    let rest = out.get_mut(start..).unwrap_or_default();
    let (_, _, written) = writer.field(text, rest);
    let (_, ended) = writer.delimiter(rest.get_mut(written..).unwrap_or_default());
    out.truncate(start + written + ended);
}

/// Ends a row: its last field has no comma.
fn end_row(out: &mut Vec<u8>) {
    out.pop();
    out.push(b'\n');
}

/// Separates values within a cell.
fn separate(cell: &mut Vec<u8>) {
    if !cell.is_empty() {
        cell.push(b' ');
    }
}

/// Returns whether a spreadsheet would execute the text.
fn is_formula(text: &[u8]) -> bool {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    matches!(text.first(), Some(b'=' | b'+' | b'-' | b'@')) && !number.is_some_and(f64::is_finite)
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    if is_formula(text) {
        out.push(b'\'');
    }
    escape::push_shown(out, text);
}

fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Text(text) => push_text(out, text),
        value => field::push_value(out, value),
    }
}

fn push_cell(out: &mut Vec<u8>, cell: &Cell) {
    match cell {
        Cell::Empty => {}
        Cell::Text(text) => push_text(out, text.as_bytes()),
        Cell::Stack { frames, .. } => push_text(out, frames.join(";").as_bytes()),
        Cell::Num(number) if !number.is_finite() => {}
        cell => field::push_cell(out, cell, None),
    }
}

#[cfg(test)]
mod tests;
