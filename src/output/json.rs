//! JSON Lines: one object per line, for programs.
//!
//! Every object begins with `type`, `time` and `monitor`; the keys of a type are stable:
//!
//! - `event`: `event cpu pid tid comm`, the event's own fields, those that the script adds,
//!   `detail` (its number) and `offset_ns` if the event is printed as part of a detail, `text` if
//!   it has a printer, and `stack` if it has one: an array of frames, innermost first, each as text
//!   output prints it.
//! - `row`: `table`, then a key per column; the table of a single row is the monitor.
//! - `hidden`: `table`, `rows`: the number of further rows, beyond the limit of the table.
//! - `hist`: `name unit`, a key per key column, `buckets: [[low, high, count], …]` with inclusive
//!   bounds; if counts are estimates (`--budget`), `count_errors: [error, …]`.
//! - `note`: `level` (`info warning alert error`), `text`.
//! - `coverage`: `final`, `events`, `filtered`, each count of [`Coverage::gaps`] (not `unsent` if
//!   it is 0), `starts`, `open`.
//! - `stats`: `events own_cpu_ns ns_per_event` (without reports; null below 1000 events)
//!   `report_cpu_ns lost max_rss_kb start_ms traces traces_aborted traces_flushed`, `interpreted`
//!   (0 to 1; null with too few samples); with counts in the kernel `program_ns` (mean time of a
//!   program for an event); with `--budget` `budget_percent cost_percent own_percent
//!   kernel_percent one_in_max one_in_time_max`.
//!
//! Values and names:
//!
//! - `time` is RFC 3339 in UTC with microseconds, independent of the local time zone:
//!   `2026-11-21T09:00:00.100000Z`.
//! - A name that is taken gets a trailing `_`, like a keyword in a script: `comm` and `pid` of
//!   `signal:signal_generate` belong to the target and become `comm_` and `pid_`, beside the
//!   sender's `comm` and `pid`. A name that itself ends in `_` gets one more. No key occurs twice.
//! - The key of a column is its title in snake case, with `%` spelt out: `max(us)` is `max_us`,
//!   `share%` is `share_percent`. Keys of a row that `emit` prints are those of the script.
//! - Integers are exact, however large; a reader that uses doubles loses precision above 2^53.
//!   Pointers are strings, `"0xffffffff81c01f58"`, as fields and as keys; bytes are hexadecimal
//!   strings; NaN and infinity are null.
//! - In text that is not UTF-8, each invalid byte becomes the four characters `\xNN`. Control
//!   characters, and characters that reorder a line, are escaped as in JSON, `\u001b`.

use super::ByteSink;
use super::wall::Wall;
use crate::base::event::value::Value;
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{
    Column, Draw, DrawnHistogram, EventLine, EventText, Level, Report, Stamp, Table,
};
use crate::base::report::run_stats::Stats;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::{digits, escape, field};
use jiff::tz::TimeZone;
use std::io::{self, Write};
use std::ops::Range;

/// Draws JSON Lines.
pub struct Json {
    sink: ByteSink,
    wall: Wall,
    /// The monitor's name as a JSON string.
    monitor: Vec<u8>,
    stacks: StackStyle,
    /// Positions in the buffer of the current object's keys that are not fixed.
    keys: Vec<Range<usize>>,
}

/// Fixed keys of each type, which other names must not take.
const EVENT: &[&str] = &[
    "type",
    "time",
    "monitor",
    "event",
    "cpu",
    "pid",
    "tid",
    "comm",
    "detail",
    "offset_ns",
    "text",
    "stack",
];
const ROW: &[&str] = &["type", "time", "monitor", "table"];
const HIST: &[&str] = &["type", "time", "monitor", "name", "unit", "buckets", "count_errors"];

impl Json {
    /// Returns JSON output to a writer, for a monitor.
    pub fn new(results: Box<dyn Write>, monitor: &str, stacks: StackStyle) -> Json {
        let mut name = Vec::new();
        push_string(&mut name, monitor.as_bytes());
        Json {
            sink: ByteSink::new(results),
            wall: Wall::new(TimeZone::UTC, 'T'),
            monitor: name,
            stacks,
            keys: Vec::new(),
        }
    }

    /// Opens an object.
    fn open(&mut self, kind: &str, stamp: Stamp) {
        self.keys.clear();
        let out = &mut self.sink.buffer;
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"time\":\"");
        self.wall.push(out, stamp.wall_ns);
        out.extend_from_slice(b"Z\",\"monitor\":");
        out.extend_from_slice(&self.monitor);
    }

    fn close(&mut self) {
        self.sink.buffer.extend_from_slice(b"}\n");
    }

    /// Appends a fixed key of the type.
    fn fixed(&mut self, key: &str) -> &mut Vec<u8> {
        let out = &mut self.sink.buffer;
        out.extend_from_slice(b",\"");
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
        out
    }

    /// Appends another key, changed if it equals a fixed key or a previous one.
    fn own(&mut self, key: &str, reserved: &[&str]) -> &mut Vec<u8> {
        let out = &mut self.sink.buffer;
        out.extend_from_slice(b",\"");
        let start = out.len();
        push_string_part(out, key.as_bytes());
        if reserved.contains(&key.trim_end_matches('_')) {
            out.push(b'_');
        }
        while self.keys.iter().any(|range| out.get(range.clone()) == out.get(start..)) {
            out.push(b'_');
        }
        self.keys.push(start..out.len());
        out.extend_from_slice(b"\":");
        out
    }

    fn row(&mut self, stamp: Stamp, table: &Table, row: &[Cell]) {
        self.open("row", stamp);
        push_string(self.fixed("table"), table.name.as_bytes());
        for (Column { key, .. }, cell) in table.columns.iter().zip(row) {
            push_cell(self.own(key, ROW), cell);
        }
        self.close();
    }

    fn hist(&mut self, stamp: Stamp, hist: &DrawnHistogram) {
        self.open("hist", stamp);
        push_string(self.fixed("name"), hist.name.as_bytes());
        push_string(self.fixed("unit"), hist.unit.as_bytes());
        for (key, cell) in &hist.keys {
            push_cell(self.own(key, HIST), cell);
        }
        let out = self.fixed("buckets");
        out.push(b'[');
        for (i, bucket) in hist.buckets.iter().enumerate() {
            out.extend_from_slice(if i > 0 { b",[" } else { b"[" });
            digits::push_i64(out, bucket.low);
            out.push(b',');
            digits::push_i64(out, bucket.high);
            out.push(b',');
            digits::push_u64(out, bucket.count);
            out.push(b']');
        }
        out.push(b']');
        if !hist.errors.is_empty() {
            let out = self.fixed("count_errors");
            out.push(b'[');
            for (i, error) in hist.errors.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                push_float(out, *error);
            }
            out.push(b']');
        }
        self.close();
    }
}

impl Draw for Json {
    fn event(&mut self, event: &mut EventLine<'_>) {
        self.open("event", event.stamp);
        push_string(self.fixed("event"), event.name.as_bytes());
        digits::push_u64(self.fixed("cpu"), event.cpu.into());
        // Signed, as in the kernel: -1 is a task that is being released.
        digits::push_i64(self.fixed("pid"), event.pid.cast_signed().into());
        digits::push_i64(self.fixed("tid"), event.tid.cast_signed().into());
        push_string(self.fixed("comm"), event.comm);
        for (name, value) in event.fields {
            push_value(self.own(name, EVENT), value);
        }
        for (name, cell) in event.extra {
            push_cell(self.own(name, EVENT), cell);
        }
        if let Some(detail) = event.detail {
            digits::push_u64(self.fixed("detail"), detail.number);
            digits::push_i64(self.fixed("offset_ns"), detail.offset_ns);
        }
        if let EventText::Printer(text) = event.text {
            push_string(self.fixed("text"), text);
        }
        if !event.stack.is_empty() {
            let frames = self.stacks.chosen(event.stack);
            let frames: Vec<String> = frames.iter().map(|frame| self.stacks.text(frame)).collect();
            push_strings(self.fixed("stack"), frames.iter().map(String::as_bytes));
        }
        self.close();
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        for part in parts {
            match part {
                Report::Table(table) => {
                    for row in table.rows.iter() {
                        self.row(stamp, table, row);
                        self.sink.write_early();
                    }
                    if table.hidden > 0 {
                        self.open("hidden", stamp);
                        push_string(self.fixed("table"), table.name.as_bytes());
                        digits::push_u64(self.fixed("rows"), table.hidden);
                        self.close();
                    }
                }
                Report::Hist(hist) => self.hist(stamp, hist),
                Report::Row(pairs) => {
                    self.open("row", stamp);
                    let monitor = std::mem::take(&mut self.monitor);
                    self.fixed("table").extend_from_slice(&monitor);
                    self.monitor = monitor;
                    for (name, cell) in pairs {
                        push_cell(self.own(name, ROW), cell);
                    }
                    self.close();
                }
            }
        }
    }

    fn note(&mut self, stamp: Stamp, level: Level, text: &str) {
        self.open("note", stamp);
        let level = match level {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Alert => "alert",
            Level::Error => "error",
        };
        push_string(self.fixed("level"), level.as_bytes());
        push_string(self.fixed("text"), text.as_bytes());
        self.close();
    }

    fn coverage(&mut self, stamp: Stamp, coverage: &Coverage, last: bool) {
        self.open("coverage", stamp);
        self.fixed("final").extend_from_slice(if last { b"true" } else { b"false" });
        digits::push_u64(self.fixed("events"), coverage.events);
        digits::push_u64(self.fixed("filtered"), coverage.filtered);
        // Only `--otlp` sends anything.
        let problems = coverage.gaps().into_iter();
        for (name, count) in problems.filter(|(name, count)| *name != "unsent" || *count > 0) {
            digits::push_u64(self.fixed(name), count);
        }
        digits::push_u64(self.fixed("starts"), coverage.starts);
        digits::push_u64(self.fixed("open"), coverage.open);
        self.close();
    }

    fn stats(&mut self, stamp: Stamp, stats: &Stats) {
        self.open("stats", stamp);
        digits::push_u64(self.fixed("events"), stats.events);
        digits::push_u64(self.fixed("own_cpu_ns"), stats.own_cpu_ns);
        push_float(self.fixed("ns_per_event"), stats.ns_per_event.unwrap_or(f64::NAN));
        digits::push_u64(self.fixed("report_cpu_ns"), stats.report_cpu_ns);
        digits::push_u64(self.fixed("lost"), stats.lost);
        digits::push_u64(self.fixed("max_rss_kb"), stats.max_rss_kb);
        push_float(self.fixed("start_ms"), stats.start_ms);
        let compiler = &stats.compiler;
        digits::push_u64(self.fixed("traces"), compiler.traces);
        digits::push_u64(self.fixed("traces_aborted"), compiler.aborted);
        digits::push_u64(self.fixed("traces_flushed"), compiler.flushed);
        push_float(self.fixed("interpreted"), compiler.interpreted.unwrap_or(f64::NAN));
        if let Some(ns) = stats.program_ns {
            push_float(self.fixed("program_ns"), ns);
        }
        if let Some(budget) = &stats.budget {
            push_float(self.fixed("budget_percent"), budget.budget_percent);
            push_float(self.fixed("cost_percent"), budget.cost_percent());
            push_float(self.fixed("own_percent"), budget.own_percent);
            push_float(self.fixed("kernel_percent"), budget.kernel_percent);
            digits::push_u64(self.fixed("one_in_max"), budget.one_in_max);
            digits::push_u64(self.fixed("one_in_time_max"), budget.one_in_time_max);
        }
        self.close();
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.sink.flush_if_large()
    }
}

fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Int(value) => digits::push_i64(out, *value),
        Value::Uint(value) => digits::push_u64(out, *value),
        Value::Text(text) => push_string(out, text),
        Value::Float(value) => push_number(out, *value),
        Value::Array { .. } => field::push_array(out, value),
        Value::Pointer(value) => {
            out.push(b'"');
            digits::push_hex(out, *value);
            out.push(b'"');
        }
        Value::Bytes(bytes) => {
            out.push(b'"');
            digits::push_hex_bytes(out, bytes);
            out.push(b'"');
        }
    }
}

fn push_cell(out: &mut Vec<u8>, cell: &Cell) {
    match cell {
        Cell::Empty => out.extend_from_slice(b"null"),
        Cell::Int(value) => digits::push_i128(out, value.get()),
        Cell::Num(value) => push_float(out, *value),
        Cell::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Cell::Text(text) => push_string(out, text.as_bytes()),
        Cell::Stack(stack) => {
            push_strings(out, stack.frames.iter().map(|frame| frame.as_bytes()));
        }
    }
}

/// Appends an array of strings.
fn push_strings<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'a [u8]>) {
    out.push(b'[');
    for (i, text) in texts.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_string(out, text);
    }
    out.push(b']');
}

/// Appends a double, without a fraction if it is an integer.
fn push_number(out: &mut Vec<u8>, value: f64) {
    const EXACT: f64 = (1u64 << 53) as f64;
    match value.fract() == 0.0 && value.abs() <= EXACT {
        true => digits::push_i64(out, value as i64),
        false => push_float(out, value),
    }
}

/// Appends the shortest form that reads back as the same double; null if it is not finite.
fn push_float(out: &mut Vec<u8>, value: f64) {
    // Writing to a Vec cannot fail.
    let _ = serde_json::to_writer(out, &value);
}

fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    push_string_part(out, text);
    out.push(b'"');
}

/// Appends the text between the quotes of a JSON string.
fn push_string_part(out: &mut Vec<u8>, text: &[u8]) {
    if escape::all(text, |b| (0x20..0x7f).contains(&b) & (b != b'"') & (b != b'\\')) {
        return out.extend_from_slice(text);
    }
    let mut utf8 = [0u8; 4];
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\r' => out.extend_from_slice(b"\\r"),
                // All of them are in the basic plane, so four digits are enough.
                c if escape::harmful(c) => {
                    out.extend_from_slice(b"\\u");
                    digits::push_hex_bytes(out, &(c as u16).to_be_bytes());
                }
                c => out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(b"\\\\x");
            digits::push_hex_bytes(out, &[*byte]);
        }
    }
}

#[cfg(test)]
mod tests;
