//! The `.events` text: one event per line, in a format that a replay reads, so that a recording can
//! be used as a test case.
//!
//! [`crate::source::replay`] describes the format and reads it. The text contains the events and
//! everything needed to show them again exactly: times in nanoseconds, values with their type,
//! names in quotes where needed. The header lists every opened event with its fields, so that a
//! replay also knows events that did not occur. `common_flags` and `common_preempt_count` are
//! stored unless they are 0, `common_pid` if it is not the thread; fields that a script added are
//! not. Changes of tasks, losses and the end of the run are written as well, so that a replay gives
//! the numbers of the run. Reports are omitted; notes, coverage and stats become comments.

use super::ByteSink;
use super::text::{push_problems, stats_text};
use crate::base::event::value::Value;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, EventLine, FLAG_FIELDS, Level, OpenedEvent, Report, Stamp};
use crate::base::report::run_record::{RecordedSide, RunRecord, TaskChange};
use crate::base::report::run_stats::Stats;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::{cpulist, digits, escape, field};
use jiff::Timestamp;
use std::io::{self, Write};

/// Draws `.events` text.
pub struct Events {
    sink: ByteSink,
    start: Stamp,
    /// Whether the header has the time of `start`, which must not change after that.
    has_start: bool,
}

impl Events {
    /// Writes events to `results`, with times relative to [`RunRecord::Begin`]; to `start` in a run
    /// without it. An earlier event is written with time 0.
    pub fn new(results: Box<dyn Write>, start: Stamp) -> Events {
        let mut sink = ByteSink::new(results);
        let header = b"# TIME CPU TID COMM EVENT: field=value | stack\n";
        sink.buffer.extend_from_slice(header);
        Events { sink, start, has_start: false }
    }

    /// Writes the header with the time of `start`, once.
    fn push_start(&mut self) {
        if !self.has_start {
            self.has_start = true;
            let wall = Timestamp::from_nanosecond(self.start.wall_ns.into()).unwrap_or_default();
            self.sink.buffer.extend_from_slice(format!("# wall {wall}\n").as_bytes());
        }
    }

    fn push_time(&mut self, stamp: Stamp) {
        let out = &mut self.sink.buffer;
        let time = stamp.clock_ns.saturating_sub(self.start.clock_ns);
        digits::push_u64(out, time / 1_000_000_000);
        out.push(b'.');
        digits::push_padded(out, time % 1_000_000_000, 9, b'0');
    }

    /// Writes a change of a task, or a loss.
    fn push_side(&mut self, stamp: Stamp, cpu: u32, what: RecordedSide<'_>) {
        self.push_start();
        self.push_time(stamp);
        let out = &mut self.sink.buffer;
        out.push(b' ');
        digits::push_u64(out, cpu.into());
        out.push(b' ');
        let text = match what {
            RecordedSide::Task { pid, tid, watched, change } => {
                push_thread(out, pid, tid);
                out.extend_from_slice(b" - ");
                push_change(out, change);
                if watched { "" } else { " watched=0" }.to_owned()
            }
            RecordedSide::LossWindow { length_ns } => format!("0 - LOST: n=0 ns={length_ns}"),
            RecordedSide::Lost { count } => format!("0 - LOST: n={count} window=0"),
            RecordedSide::LostSoFar { events, of_tasks } => {
                format!("0 - LOST: n=0 total={events} tasks={of_tasks}")
            }
        };
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
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

    fn run_record(&mut self, stamp: Stamp, record: &RunRecord<'_>) {
        match *record {
            RunRecord::Begin { cpus } => {
                self.start = stamp;
                self.push_start();
                self.comment(format!("cpus {}", cpulist::format(cpus)).as_bytes());
            }
            RunRecord::Side { cpu, what } => self.push_side(stamp, cpu, what),
            RunRecord::End => {
                self.push_start();
                self.sink.buffer.extend_from_slice(b"# end ");
                self.push_time(stamp);
                self.sink.buffer.push(b'\n');
            }
        }
    }

    fn event(&mut self, event: &mut EventLine<'_>) {
        self.push_start();
        self.push_time(event.stamp);
        let out = &mut self.sink.buffer;
        out.push(b' ');
        digits::push_u64(out, event.cpu.into());
        out.push(b' ');
        push_thread(out, event.pid, event.tid);
        out.push(b' ');
        match event.comm {
            b"" | b"<...>" => out.push(b'-'),
            b"-" => escape::push_quoted(out, b"-"),
            comm => escape::push_word(out, comm),
        }
        out.push(b' ');
        out.extend_from_slice(event.name.as_bytes());
        out.push(b':');
        if let Some(common_pid) = event.common_pid {
            out.extend_from_slice(b" common_pid=");
            digits::push_u64(out, common_pid.into());
        }
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

/// Appends a thread, with its process if that has another number.
fn push_thread(out: &mut Vec<u8>, pid: u32, tid: u32) {
    if pid != tid {
        digits::push_u64(out, pid.into());
        out.push(b'/');
    }
    digits::push_u64(out, tid.into());
}

fn push_change(out: &mut Vec<u8>, change: TaskChange<'_>) {
    match change {
        TaskChange::Fork { parent_pid, parent_tid } => {
            out.extend_from_slice(format!("FORK: ppid={parent_pid} ptid={parent_tid}").as_bytes());
        }
        TaskChange::Comm { comm } | TaskChange::Exec { comm } => {
            let is_exec = matches!(change, TaskChange::Exec { .. });
            out.extend_from_slice(if is_exec { b"EXEC: comm=" } else { b"COMM: comm=" });
            push_value(out, &Value::Text(comm));
        }
        TaskChange::Exit => out.extend_from_slice(b"EXIT:"),
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

#[cfg(test)]
mod tests;
