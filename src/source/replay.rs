//! Replays a recording: the `.events` text, a line an event, as a person or `trace --events` writes it.
//!
//! ```text
//! # wall 2026-11-21T09:00:00Z
//! # TIME CPU TID COMM EVENT: field=value | stack
//! 0.001 0 100 nginx sched:sched_switch: prev_comm=nginx prev_pid=100 prev_state=2 | __schedule;schedule
//! 0.002 1 90/91 "tmux: server" probe:x: at=0xffffffff81c01f58 text="two words" array=[1,-2] bytes=hex:00ff
//! 0.003 1 0 - LOST: n=312
//! ```
//!
//! - TIME is in seconds since the run began, exact to the nanosecond; lines need not be in order. `0.005@0.009` happened
//!   at 5 ms and came at 9 ms: a run that does not put events in order gets it then. The header `# wall` gives the
//!   wall-clock time of 0; other lines that begin with `#`, and blank ones, mean nothing.
//! - `# event sched:sched_switch: prev_comm=text prev_pid=s64` is an event of the recording, also
//!   where no line of it follows. Types are `s64 u64 pointer text bytes s64[] u64[]`; fields that
//!   lines have beside these are added.
//! - TID is the thread, `PID/TID` when its process has another number. COMM `-` is unknown. Text with blanks,
//!   quotes, `=` or `\` stands in double quotes, where `\" \\ \n \r \t \xNN` are escapes; so may any text, and a
//!   frame of the stack.
//! - A field is decimal, hexadecimal (`0x…`: a pointer), an array, bytes, or else text. An event whose only field
//!   is ever `value` is a count: so many since the last such line of the CPU.
//! - Words in capitals are not events but what else befell the task of the line: `EXIT:`, `FORK: ppid=PID ptid=TID` (of the
//!   parent), `COMM: comm=NEW`, `EXEC: comm=NEW`; or its CPU's ring: `LOST: n=N ns=LENGTH`, from that time on, so many records.
//!
//! Events become raw records under a format made up from all their lines, so that whatever handles records
//! of a kernel handles these. Fields that a line leaves out read 0 or "". A recording is held in memory.

mod layout;
mod line;

use crate::event::catalog::{Catalog, Event, What};
use crate::event::counter::Counter;
use anyhow::{Context, Result, bail};
use indexmap::IndexMap;
use jiff::Timestamp;
use layout::{Layout, Settled};
use line::{Line, Literal, Mistake};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

/// The wall-clock time of 0 when the recording does not give it: 2026-11-21T09:00:00Z, in ns since the epoch.
pub const WALL_NS: i64 = 1_795_251_600_000_000_000;

/// A recording.
#[derive(Debug)]
pub struct Replay {
    wall_ns: i64,
    events: IndexMap<String, Rc<Event>>,
    entries: Vec<Entry>,
    /// The line of each entry, from 1 on.
    lines: Vec<usize>,
    name: String,
}

/// One line of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Nanoseconds since the run began.
    pub time_ns: u64,
    /// The same of when it came; mostly the same.
    pub came_ns: u64,
    /// CPU.
    pub cpu: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The task's name; empty when unknown.
    pub comm: Vec<u8>,
    /// What happened.
    pub what: Happened,
}

/// What a line tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// An event.
    Event {
        /// Its place in [`Replay::events`].
        event: usize,
        /// The raw record, laid out as the event's format says; empty for a counter.
        raw: Vec<u8>,
        /// Frames, innermost first.
        stack: Vec<String>,
        /// The count, of an event whose only field is `value`.
        value: Option<u64>,
    },
    /// The CPU's ring lost records.
    Lost {
        /// How many.
        count: u64,
        /// For so long, from the line's time on.
        length_ns: u64,
    },
    /// The task ended.
    Exit,
    /// The task began.
    Fork {
        /// Its parent's process.
        parent_pid: u32,
        /// Its parent's thread.
        parent_tid: u32,
    },
    /// The task was renamed.
    Comm {
        /// To this.
        comm: Vec<u8>,
    },
    /// The task runs another program.
    Exec {
        /// Under this name.
        comm: Vec<u8>,
    },
}

impl Replay {
    /// Reads a recording. An error shows the line and the place in it.
    pub fn open(path: &Path) -> Result<Replay> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).with_context(|| format!("failed to read `{name}`"))?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Replay::parse(text, &name),
            Err(error) => {
                let line =
                    1 + bytes.iter().take(error.valid_up_to()).filter(|b| **b == b'\n').count();
                bail!(
                    "{name}:{line}: the text is not UTF-8; write other bytes as \"\\xNN\", in quotes"
                )
            }
        }
    }

    /// Reads the text of a recording; `name` is what errors call it.
    pub fn parse(text: &str, name: &str) -> Result<Replay> {
        let mut wall_ns = WALL_NS;
        let mut lines = Vec::new();
        let mut layouts: IndexMap<&str, Layout> = IndexMap::new();
        for (i, source) in text.lines().enumerate() {
            let at = Place { name, number: i + 1, source };
            if let Some(wall) = line::header(source) {
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
        let settled: IndexMap<&str, Settled> = layouts
            .iter()
            .zip(1..)
            .map(|((name, layout), id)| (*name, layout.settle(name, id)))
            .collect();

        let mut entries = Vec::with_capacity(lines.len());
        for (line, at) in lines {
            let number = at.number;
            let what = happened(&line, &settled).map_err(|mistake| at.error(&mistake))?;
            let Line { time_ns, came_ns, cpu, pid, tid, comm, .. } = line;
            entries.push((Entry { time_ns, came_ns, cpu, pid, tid, comm, what }, number));
        }
        // Stable: lines of one time stay as written.
        entries.sort_by_key(|(entry, _)| entry.time_ns);
        let (entries, lines) = entries.into_iter().unzip();

        let event = |(name, Settled { format, counter, .. }): (&str, Settled)| {
            let name = name.to_owned();
            let what = if counter {
                What::Counter(Counter::default())
            } else {
                What::Tracepoint { format }
            };
            (name.clone(), Rc::new(Event { name, what }))
        };
        let events = settled.into_iter().map(event).collect();
        Ok(Replay { wall_ns, events, entries, lines, name: name.to_owned() })
    }

    /// Wall-clock time of time 0, in nanoseconds since the Unix epoch.
    pub fn wall_ns(&self) -> i64 {
        self.wall_ns
    }

    /// The lines in order of time.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// `FILE:LINE` of an entry.
    pub fn place(&self, entry: usize) -> String {
        format!("{}:{}", self.name, self.lines.get(entry).copied().unwrap_or_default())
    }

    /// The CPUs that they are from, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        let cpus: BTreeSet<u32> = self.entries.iter().map(|entry| entry.cpu).collect();
        cpus.into_iter().collect()
    }

    /// The events of the header, then the others in order of their first line; [`Happened::Event`]
    /// counts in this order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &Rc<Event>> {
        self.events.values()
    }

    /// The event of that place.
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
                let names = if names.is_empty() { "none at all" } else { &names };
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
struct Place<'a> {
    name: &'a str,
    number: usize,
    source: &'a str,
}

impl Place<'_> {
    /// `FILE:LINE: what`, then the line and a caret under the place.
    fn error(&self, mistake: &Mistake) -> anyhow::Error {
        const SHOWN: usize = 100;
        let column = self.source.get(..mistake.at).unwrap_or(self.source).chars().count();
        // A long line is shown around the place only; what controls a terminal is not shown at all.
        let from = column.saturating_sub(SHOWN * 3 / 4);
        let visible = |c: char| if c.is_control() { '.' } else { c };
        let source: String = self.source.chars().skip(from).take(SHOWN).map(visible).collect();
        let blanks = " ".repeat(column - from);
        // The message may quote a word of the line, of whatever length.
        let what: String = mistake.what.chars().take(3 * SHOWN).map(visible).collect();
        let (name, number) = (self.name, self.number);
        anyhow::anyhow!("{name}:{number}: {what}\n    {source}\n    {blanks}^")
    }
}

/// What a line tells, once all lines of its event are known.
fn happened(line: &Line<'_>, settled: &IndexMap<&str, Settled>) -> Result<Happened, Mistake> {
    if let Some((event, _, layout)) = settled.get_full(line.event) {
        let (raw, stack) = (layout.encode(line)?, line.stack.clone());
        return Ok(Happened::Event { event, raw, stack, value: layout.value(line) });
    }
    let number = |name: &str| match line.field(name).map(|field| &field.literal) {
        Some(Literal::Int(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    let task = |name: &str| number(name).and_then(|value| u32::try_from(value).ok());
    let text = |name: &str| line.field(name).map(line::Field::text);
    let missing = |what: &str| line.mistake(format!("{} needs {what}", line.event));
    Ok(match line.event {
        "LOST" => Happened::Lost {
            count: number("n").ok_or_else(|| missing("n=COUNT"))?,
            length_ns: number("ns").unwrap_or_default(),
        },
        "EXIT" => Happened::Exit,
        "FORK" => {
            let parent_pid =
                task("ppid").ok_or_else(|| missing("ppid=PID, the parent's process"))?;
            Happened::Fork { parent_pid, parent_tid: task("ptid").unwrap_or(parent_pid) }
        }
        "COMM" => Happened::Comm { comm: text("comm").ok_or_else(|| missing("comm=NEW"))? },
        "EXEC" => Happened::Exec { comm: text("comm").unwrap_or_else(|| line.comm.clone()) },
        other => {
            return Err(line.mistake(format!(
                "`{other}` is none of LOST, EXIT, FORK, COMM, EXEC, and events are not all capitals"
            )));
        }
    })
}

/// The header's time.
fn wall(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests;
