//! Replays a recording: the `.events` text format, one line per event, written by hand or by
//! `trace --events`.
//!
//! ```text
//! # wall 2026-11-21T09:00:00Z
//! # TIME CPU TID COMM EVENT: field=value | stack
//! 0.001 0 100 nginx sched:sched_switch: prev_comm=nginx prev_state=2 | __schedule;schedule
//! 0.002 1 90/91 "tmux: server" probe:x: at=0xffffffff81c01f58 a="two words" b=[1,-2] c=hex:00ff
//! 0.003 1 0 - LOST: n=312
//! ```
//!
//! - TIME is in seconds since the run began, exact to the nanosecond; lines need not be in order.
//!   `0.005@0.009` happened at 5 ms and arrived at 9 ms: a run that does not order events gets it
//!   then. The header `# wall` gives the wall-clock time of 0; other lines that begin with `#`, and
//!   blank lines, are ignored.
//! - `# event sched:sched_switch: prev_comm=text prev_pid=s64` declares an event of the recording,
//!   even if no line of it follows. Types are `s64 u64 pointer text bytes s64[] u64[]`; further
//!   fields of the lines are added to the declared ones.
//! - TID is the thread, `PID/TID` if its process ID differs. COMM `-` is unknown. Text with blanks,
//!   quotes, `=` or `\` must be in double quotes, where `\" \\ \n \r \t \xNN` are escapes; any
//!   other text, and a frame of the stack, may be.
//! - A field is decimal, hexadecimal (`0x…`: a pointer), an array, bytes, or else text. An event
//!   whose only field is always `value` is a count: the increase since the previous such line of
//!   the CPU. A monitor that counts adds 1 for any other line, or what the kernel would add: the
//!   `period` of a counter's sample, the nanoseconds of `sched_stat_*`.
//! - Names in capitals are not events but changes of the line's task: `EXIT:`,
//!   `FORK: ppid=PID ptid=TID` (of the parent), `COMM: comm=NEW`, `EXEC: comm=NEW`; or a loss in
//!   the ring of its CPU: `LOST: n=N ns=LENGTH`, N records from that time on.
//!
//! Events become raw records in a format derived from all their lines, so code that handles records
//! of a kernel handles these. Fields that a line omits read as 0 or "". A recording is held in
//! memory.

mod layout;
mod line;
mod wall;

use crate::base::text::fault::Fault;
use crate::event::catalog::Catalog;
use crate::event::kind::{Counter, Event, Tracepoint};
use anyhow::{Context, Result, bail};
use indexmap::IndexMap;
use layout::{LineFormat, LineLayout};
use line::{Literal, ParsedLine};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

/// Wall-clock time of 0 if the recording does not give it: 2026-11-21T09:00:00Z, in nanoseconds
/// since the Unix epoch.
pub const WALL_NS: i64 = 1_795_251_600_000_000_000;

/// A recording.
#[derive(Debug)]
pub struct Replay {
    wall_ns: i64,
    events: IndexMap<String, Rc<Event>>,
    entries: Vec<RecordingLine>,
    /// The line number of each entry, from 1 on.
    lines: Vec<usize>,
    name: String,
}

/// One line of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordingLine {
    /// Nanoseconds since the run began.
    pub time_ns: u64,
    /// Time of its arrival, usually the same.
    pub came_ns: u64,
    /// CPU.
    pub cpu: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The task's name; empty when unknown.
    pub comm: Vec<u8>,
    /// Content of the line.
    pub what: RecordedEntry,
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedEntry {
    /// An event.
    Event {
        /// Its index in [`Replay::events`].
        event: usize,
        /// The raw record in the event's format; empty for a counter.
        raw: Vec<u8>,
        /// Frames, innermost first.
        stack: Vec<String>,
        /// The count, for an event whose only field is `value`.
        value: Option<u64>,
    },
    /// The CPU's ring lost records.
    Lost {
        /// Number of records.
        count: u64,
        /// Duration of the loss, from the line's time on.
        length_ns: u64,
    },
    /// The task ended.
    Exit,
    /// The task was created.
    Fork {
        /// Its parent's process.
        parent_pid: u32,
        /// Its parent's thread.
        parent_tid: u32,
    },
    /// The task was renamed.
    Comm {
        /// The new name.
        comm: Vec<u8>,
    },
    /// The task executed another program.
    Exec {
        /// The new name.
        comm: Vec<u8>,
    },
}

impl Replay {
    /// Reads a recording.
    ///
    /// # Errors
    /// The file cannot be read or is not UTF-8, or a line is invalid; the error shows the line and
    /// the position in it.
    pub fn open(path: &Path) -> Result<Replay> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| format!("failed to read `{name}`"))?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Replay::parse(text, &name),
            Err(error) => {
                let line =
                    1 + bytes.iter().take(error.valid_up_to()).filter(|b| **b == b'\n').count();
                bail!(
                    "{name}:{line}: the text is not UTF-8; write other bytes as \"\\xNN\", in \
                     quotes"
                )
            }
        }
    }

    /// Parses the text of a recording; `name` is its name in errors.
    ///
    /// # Errors
    /// A line is invalid; the error shows the line and the position in it.
    pub fn parse(text: &str, name: &str) -> Result<Replay> {
        let mut wall_ns = WALL_NS;
        let mut lines = Vec::new();
        let mut layouts: IndexMap<&str, LineLayout> = IndexMap::new();
        for (i, source) in text.lines().enumerate() {
            let at = LineLocation { name, number: i + 1, source };
            if let Some(wall) = wall::header(source) {
                wall_ns = wall.map_err(|mistake| at.error(&mistake))?;
            } else if let Some((event, fields)) = line::declared(source) {
                let layout = layouts.entry(event).or_default();
                fields.into_iter().for_each(|(name, of)| layout.declare(name, of));
            } else if let Some(line) = line::parse(source) {
                lines.push((line.map_err(|mistake| at.error(&mistake))?, at));
            }
        }

        for (line, at) in &lines {
            if !line.is_side_band() {
                layouts
                    .entry(line.event)
                    .or_default()
                    .see(line)
                    .map_err(|mistake| at.error(&mistake))?;
            }
        }
        let formats: IndexMap<&str, LineFormat> = layouts
            .iter()
            .zip(1..)
            .map(|((name, layout), id)| (*name, layout.build_format(name, id)))
            .collect();

        let mut entries = Vec::with_capacity(lines.len());
        for (line, at) in lines {
            let number = at.number;
            let what = happened(&line, &formats).map_err(|mistake| at.error(&mistake))?;
            let ParsedLine { time_ns, came_ns, cpu, pid, tid, comm, .. } = line;
            entries.push((RecordingLine { time_ns, came_ns, cpu, pid, tid, comm, what }, number));
        }
        // Stable: lines with the same time stay as written.
        entries.sort_by_key(|(entry, _)| entry.time_ns);
        let (entries, lines) = entries.into_iter().unzip();

        let event = |(name, LineFormat { format, counter, .. }): (&str, LineFormat)| {
            let event = match counter {
                true => Event::new(name, Counter::default()),
                false => Event::new(name, Tracepoint { format }),
            };
            (name.to_owned(), Rc::new(event))
        };
        let events = formats.into_iter().map(event).collect();
        Ok(Replay { wall_ns, events, entries, lines, name: name.to_owned() })
    }

    /// Returns the wall-clock time of time 0, in nanoseconds since the Unix epoch.
    pub fn wall_ns(&self) -> i64 {
        self.wall_ns
    }

    /// Returns the lines in time order.
    pub fn entries(&self) -> &[RecordingLine] {
        &self.entries
    }

    /// Returns `FILE:LINE` of an entry.
    pub fn place(&self, entry: usize) -> String {
        format!("{}:{}", self.name, self.lines.get(entry).copied().unwrap_or_default())
    }

    /// Returns the CPUs of the lines, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        let cpus: BTreeSet<u32> = self.entries.iter().map(|entry| entry.cpu).collect();
        cpus.into_iter().collect()
    }

    /// Returns the events of the header, then the others in order of their first line;
    /// [`RecordedEntry::Event`] has an index in this order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &Rc<Event>> {
        self.events.values()
    }

    /// Returns the event with that index.
    pub fn event(&self, place: usize) -> Option<&Rc<Event>> {
        self.events.get_index(place).map(|(_, event)| event)
    }
}

impl Catalog for Replay {
    fn describe(&self, name: &str) -> Result<Rc<Event>> {
        match self.events.get(name) {
            Some(event) => Ok(event.clone()),
            None => {
                let names = self.names()?.join(", ");
                let names = if names.is_empty() { "no events" } else { &names };
                bail!("the recording has no event `{name}`; it has {names}")
            }
        }
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.events.keys().cloned().collect())
    }

    fn is_whole(&self) -> bool {
        false
    }
}

/// A line in its file, for errors.
struct LineLocation<'a> {
    name: &'a str,
    number: usize,
    source: &'a str,
}

impl LineLocation<'_> {
    /// Returns `FILE:LINE: what`, then the line and a caret under the position.
    fn error(&self, fault: &Fault) -> anyhow::Error {
        const SHOWN: usize = 100;
        let column = self.source.get(..fault.at).unwrap_or(self.source).chars().count();
        // Shows a long line only around the position, and no control characters, which could affect
        // a terminal.
        let from = column.saturating_sub(SHOWN * 3 / 4);
        let visible = |c: char| if c.is_control() { '.' } else { c };
        let source: String = self.source.chars().skip(from).take(SHOWN).map(visible).collect();
        let blanks = " ".repeat(column - from);
        // The message may quote a part of the line, of any length.
        let what: String = fault.message.chars().take(3 * SHOWN).map(visible).collect();
        let (name, number) = (self.name, self.number);
        anyhow::anyhow!("{name}:{number}: {what}\n    {source}\n    {blanks}^")
    }
}

/// Returns the content of a line, after all lines of its event have been seen.
fn happened(
    line: &ParsedLine<'_>,
    formats: &IndexMap<&str, LineFormat>,
) -> Result<RecordedEntry, Fault> {
    if let Some((event, _, layout)) = formats.get_full(line.event) {
        let (raw, stack) = (layout.encode(line)?, line.stack.clone());
        return Ok(RecordedEntry::Event { event, raw, stack, value: layout.value(line) });
    }
    let number = |name: &str| match line.field(name).map(|field| &field.literal) {
        Some(Literal::Int(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    let task = |name: &str| number(name).and_then(|value| u32::try_from(value).ok());
    let text = |name: &str| line.field(name).map(line::FieldText::text);
    let missing = |what: &str| line.fault(format!("{} needs {what}", line.event));
    Ok(match line.event {
        "LOST" => RecordedEntry::Lost {
            count: number("n").ok_or_else(|| missing("n=COUNT"))?,
            length_ns: number("ns").unwrap_or_default(),
        },
        "EXIT" => RecordedEntry::Exit,
        "FORK" => {
            let parent_pid =
                task("ppid").ok_or_else(|| missing("ppid=PID, the parent's process"))?;
            RecordedEntry::Fork { parent_pid, parent_tid: task("ptid").unwrap_or(parent_pid) }
        }
        "COMM" => RecordedEntry::Comm { comm: text("comm").ok_or_else(|| missing("comm=NEW"))? },
        "EXEC" => RecordedEntry::Exec { comm: text("comm").unwrap_or_else(|| line.comm.clone()) },
        other => {
            return Err(line.fault(format!(
                "`{other}` is not an entry: use LOST, EXIT, FORK, COMM or EXEC; the name of an \
                 event has lower case"
            )));
        }
    })
}

#[cfg(test)]
mod tests;
