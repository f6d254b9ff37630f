//! The `.events` text: one event per line, in a format that a replay reads, so that a recording can
//! be used as a test case.
//!
//! [`crate::source::replay`] describes the format and reads it. The text contains the events and
//! everything needed to show them again exactly: times in nanoseconds, values with their type,
//! names in quotes where needed. The header lists every opened event with its fields, so that a
//! replay also knows events that did not occur. `common_flags` and `common_preempt_count` are
//! stored unless they are 0; fields that a script added are not. Reports are omitted; notes,
//! coverage and stats become comments.

use super::ByteSink;
use super::text::{push_problems, stats_text};
use crate::base::event::value::Value;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{
    Draw, EventLine, FLAG_FIELDS, Level, OpenedEvent, Report, Stamp, Stats,
};
use crate::base::text::stack_style::StackStyle;
use crate::base::text::{digits, escape, field};
use jiff::Timestamp;
use std::io::{self, Write};

/// Draws `.events` text.
pub struct Events {
    sink: ByteSink,
    start: Stamp,
}

impl Events {
    /// Writes events to `results`, with times relative to `start`, the beginning of the run. An
    /// earlier event is written with time 0.
    pub fn new(results: Box<dyn Write>, start: Stamp) -> Events {
        let mut sink = ByteSink::new(results);
        let wall = Timestamp::from_nanosecond(start.wall_ns.into()).unwrap_or_default();
        let header = format!("# wall {wall}\n# TIME CPU TID COMM EVENT: field=value | stack\n");
        sink.buffer.extend_from_slice(header.as_bytes());
        Events { sink, start }
    }

    fn comment(&mut self, text: &[u8]) {
        self.sink.buffer.extend_from_slice(b"# ");
        escape::push_shown(&mut self.sink.buffer, text);
        self.sink.buffer.push(b'\n');
    }
}

impl Draw for Events {
    fn opened(&mut self, events: &[OpenedEvent]) {
        let out = &mut self.sink.buffer;
        for event in events {
            out.extend_from_slice(b"# event ");
            out.extend_from_slice(event.name.as_bytes());
            out.push(b':');
            for (name, of) in &event.fields {
                out.extend_from_slice(format!(" {name}={}", of.name()).as_bytes());
            }
            out.push(b'\n');
        }
    }

    fn event(&mut self, event: &mut EventLine<'_>) {
        let out = &mut self.sink.buffer;
        let time = event.stamp.clock_ns.saturating_sub(self.start.clock_ns);
        digits::push_u64(out, time / 1_000_000_000);
        out.push(b'.');
        digits::push_padded(out, time % 1_000_000_000, 9, b'0');
        out.push(b' ');
        digits::push_u64(out, event.cpu.into());
        out.push(b' ');
        if event.pid != event.tid {
            digits::push_u64(out, event.pid.into());
            out.push(b'/');
        }
        digits::push_u64(out, event.tid.into());
        out.push(b' ');
        match event.comm {
            b"" | b"<...>" => out.push(b'-'),
            b"-" => escape::push_quoted(out, b"-"),
            comm => escape::push_word(out, comm),
        }
        out.push(b' ');
        out.extend_from_slice(event.name.as_bytes());
        out.push(b':');
        for (name, byte) in FLAG_FIELDS.iter().zip(event.common) {
            if byte != 0 {
                out.push(b' ');
                out.extend_from_slice(name.as_bytes());
                out.push(b'=');
                digits::push_u64(out, byte.into());
            }
        }
        for (name, value) in event.fields {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            push_value(out, value);
        }
        let style = StackStyle::default();
        for (i, frame) in event.stack.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b" | " } else { b";" });
            push_frame(out, &style.text(frame));
        }
        out.push(b'\n');
    }

    fn report(&mut self, _stamp: Stamp, _parts: &[Report]) {}

    fn note(&mut self, _stamp: Stamp, level: Level, text: &str) {
        let level = match level {
            Level::Info => "note",
            Level::Warning => "warning",
            Level::Alert => "alert",
            Level::Error => "error",
        };
        self.comment(format!("{level}: {text}").as_bytes());
    }

    fn coverage(&mut self, _stamp: Stamp, coverage: &Coverage, last: bool) {
        if coverage.is_perfect() {
            return;
        }
        let mut text =
            if last { b"coverage of the run: ".to_vec() } else { b"coverage: ".to_vec() };
        push_problems(&mut text, &coverage.problems());
        self.comment(&text);
    }

    fn stats(&mut self, _stamp: Stamp, stats: &Stats) {
        self.comment(format!("stats: {}", stats_text(stats)).as_bytes());
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.sink.flush_if_large()
    }
}

/// Appends a value with its type: text that would be read as another type is put in quotes.
fn push_value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Text(text) if reads_as_other(text) => escape::push_quoted(out, text),
        Value::Bytes(bytes) => {
            out.extend_from_slice(b"hex:");
            digits::push_hex_bytes(out, bytes);
        }
        value => field::push_value(out, value),
    }
}

/// Returns whether unquoted text would be read as a number, an array or bytes.
fn reads_as_other(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    text.starts_with(b"hex:")
        || text.starts_with(b"0x")
        || text.starts_with(b"[")
        || digits.iter().all(u8::is_ascii_digit)
}

/// Appends a frame. Frames are separated by `;`: a frame that contains one, or that quotes or
/// blanks at its ends would change, is put in quotes.
fn push_frame(out: &mut Vec<u8>, frame: &str) {
    let bare = !frame.is_empty()
        && frame.trim() == frame
        && !frame.contains(|c: char| matches!(c, ';' | '"' | '\\') || escape::harmful(c));
    if bare {
        out.extend_from_slice(frame.as_bytes());
    } else {
        escape::push_quoted(out, frame.as_bytes());
    }
}
