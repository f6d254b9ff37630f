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
//!   then.
//! - The header `# wall` gives the wall-clock time of 0, `# cpus 0-3` the watched CPUs (otherwise
//!   those of the lines), and `# end 12.5` the end of the run in seconds (otherwise the last line).
//!   Other lines that begin with `#`, and blank lines, are ignored.
//! - `# event sched:sched_switch: prev_comm=text prev_pid=s32` declares an event of the recording,
//!   even if no line of it follows. Types are `s8` to `s64`, `u8` to `u64`, arrays of them
//!   (`u32[]`) and `pointer text bytes`; an integer without a declared type has 64 bits. Further
//!   fields of the lines are added to the declared ones.
//! - TID is the thread, `PID/TID` if its process ID differs. COMM `-` is unknown. Text with blanks,
//!   quotes, `=` or `\` must be in double quotes, where `\" \\ \n \r \t \xNN` are escapes; any
//!   other text, and a frame of the stack, may be.
//! - A field is decimal, hexadecimal (`0x…`: a pointer), an array, bytes, or else text. An event
//!   whose only field is always `value` is a count: the increase since the previous such line of
//!   the CPU. A monitor that counts adds 1 for any other line, or what the kernel would add: the
//!   `period` of a counter's sample, the nanoseconds of `sched_stat_*`.
//! - Names in capitals are not events but changes of the line's task: `EXIT:`,
//!   `FORK: ppid=PID ptid=TID` (of the parent), `COMM: comm=NEW`, `EXEC: comm=NEW`. With
//!   `watched=0`, the run did not watch the task (for a fork, the parent).
//! - `LOST: n=N ns=LENGTH` is a loss in the ring of its CPU: N records from that time on. With
//!   `window=0`, an earlier line gives the time of the loss. `LOST: n=0 total=N tasks=M` is the
//!   kernel's own count of lost events, and of lost records of tasks, since the beginning of the
//!   run: it includes losses that no other line reports.
//!
//! Events become raw records in a format derived from all their lines, so code that handles records
//! of a kernel handles these. Fields that a line omits read as 0 or "". A recording is held in
//! memory.

mod header;
mod layout;
mod line;

use crate::base::text::fault::Fault;
use crate::event::catalog::Catalog;
use crate::event::kind::{Counter, Event, Tracepoint};
use anyhow::{Context, Result, bail};
use header::HeaderLine;
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
    /// The watched CPUs, if the recording contains them.
    watched_cpus: Option<Vec<u32>>,
    end_ns: Option<u64>,
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
    /// Whether the recorded run watched the task; for a fork, the parent.
    pub watched: bool,
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
        /// Duration of the loss, from the line's time on; None if an earlier line has it.
        length_ns: Option<u64>,
    },
    /// The kernel's own count of losses since the beginning of the run.
    LostSoFar {
        /// Number of events.
        events: u64,
        /// Number of records of tasks.
        of_tasks: u64,
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
        let (mut wall_ns, mut watched_cpus, mut end_ns) = (WALL_NS, None, None);
        let mut lines = Vec::new();
        let mut layouts: IndexMap<&str, LineLayout> = IndexMap::new();
        for (i, source) in text.lines().enumerate() {
            let at = LineLocation { name, number: i + 1, source };
            if let Some(header) = header::parse(source) {
                match header.map_err(|mistake| at.error(&mistake))? {
                    HeaderLine::Wall(ns) => wall_ns = ns,
                    HeaderLine::Cpus(cpus) => watched_cpus = Some(cpus),
                    HeaderLine::End(ns) => end_ns = Some(ns),
                }
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
            let watched = !line.is_side_band() || number_of(&line, "watched") != Some(0);
            let ParsedLine { time_ns, came_ns, cpu, pid, tid, comm, .. } = line;
            let entry = RecordingLine { time_ns, came_ns, cpu, pid, tid, comm, watched, what };
            entries.push((entry, number));
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
        let name = name.to_owned();
        Ok(Replay { wall_ns, watched_cpus, end_ns, events, entries, lines, name })
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

    /// Returns the end of the run in nanoseconds; None if the recording does not contain it.
    pub fn end_ns(&self) -> Option<u64> {
        self.end_ns
    }

    /// Returns the watched CPUs, ascending; those of the lines if the recording does not contain
    /// them.
    pub fn cpus(&self) -> Vec<u32> {
        self.watched_cpus.clone().unwrap_or_else(|| {
            let cpus: BTreeSet<u32> = self.entries.iter().map(|entry| entry.cpu).collect();
            cpus.into_iter().collect()
        })
    }

    /// Returns one more than the highest CPU of the recording. A line may be of a CPU that is not
    /// watched: a change of a task.
    pub fn processors(&self) -> usize {
        let of_lines = self.entries.iter().map(|entry| entry.cpu);
        let watched = self.watched_cpus.iter().flatten().copied();
        of_lines.chain(watched).max().map_or(0, |cpu| cpu as usize + 1)
    }

    /// Returns whether the recording contains the changes of tasks. Those of earlier versions do
    /// not, unless they were written by hand.
    pub fn has_tasks(&self) -> bool {
        let is_fork = |entry: &RecordingLine| matches!(entry.what, RecordedEntry::Fork { .. });
        self.watched_cpus.is_some() || self.entries.iter().any(is_fork)
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
    let number = |name: &str| number_of(line, name);
    let task = |name: &str| number(name).and_then(|value| u32::try_from(value).ok());
    let text = |name: &str| line.field(name).map(line::FieldText::text);
    let missing = |what: &str| line.fault(format!("{} needs {what}", line.event));
    Ok(match line.event {
        "LOST" => match (number("n").ok_or_else(|| missing("n=COUNT"))?, number("total")) {
            (_, Some(events)) => {
                RecordedEntry::LostSoFar { events, of_tasks: number("tasks").unwrap_or_default() }
            }
            (count, None) => {
                let has_window = number("window") != Some(0);
                let length_ns = has_window.then(|| number("ns").unwrap_or_default());
                RecordedEntry::Lost { count, length_ns }
            }
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

/// Returns the value of a field that is a number; None for any other.
fn number_of(line: &ParsedLine<'_>, name: &str) -> Option<u64> {
    match line.field(name)?.literal {
        Literal::Int(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
