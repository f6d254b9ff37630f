//! What a run has to say, as data: events, tables, histograms, notes. A script returns these, `output` draws them.

use std::rc::Rc;

use crate::base::{
    coverage::Coverage,
    frame::Frame,
    value::{Value, ValueType},
};

/// When something happened, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// Nanoseconds of the clock that stamps events (`CLOCK_MONOTONIC` when live).
    pub clock_ns: u64,
}

/// One event to print, borrowed from its record.
pub struct EventLine<'a> {
    /// When.
    pub stamp: Stamp,
    /// The task's name; `<...>` when unknown.
    pub comm: &'a [u8],
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// CPU of the record.
    pub cpu: u32,
    /// The flags column as ftrace shows it: irqs off, need-resched, hard/soft irq, preempt depth. `....` when unknown.
    pub flags: [u8; 4],
    /// `sys:name`, or what a counter is called.
    pub name: &'a str,
    /// Of a sample that a counter or a clock took, how much it counted since the one before; None is a tracepoint's record.
    pub period: Option<u64>,
    /// The event's own fields, in the order of its format.
    pub fields: &'a mut dyn Iterator<Item = (&'a str, Value<'a>)>,
    /// The event as text, for people.
    pub text: EventText<'a>,
    /// Further fields that the script adds: shown before the event in text, among the fields in JSON.
    pub extra: &'a [(String, Cell)],
    /// Which detail it is a part of, of an event that is printed as one.
    pub detail: Option<Detail>,
    /// Frames of the call chain, outermost last.
    pub stack: &'a [Frame],
}

/// An event that a run has opened: its name, and its own fields with their types.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedEvent {
    /// `sys:name`, or what a counter is called.
    pub name: String,
    /// In the order of its format; none of a counter.
    pub fields: Vec<(String, ValueType)>,
}

/// The place of an event in a detail: all that happened around something that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The detail's number in the run, from 1 on.
    pub number: u64,
    /// Nanoseconds since what it begins with; negative before that.
    pub offset_ns: i64,
}

/// Where an event's text comes from.
#[derive(Clone, Copy)]
pub enum EventText<'a> {
    /// Its fields, as `name=value`.
    Fields,
    /// What its print format makes of the record. Appends it; false, and nothing is appended, when the record does not hold
    /// what the format asks for: then the fields are shown.
    Format(&'a dyn Fn(&mut Vec<u8>) -> bool),
    /// What somebody's printer made of it; JSON has it beside the fields.
    Printer(&'a [u8]),
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing to show: JSON null.
    Empty,
    /// An exact integer.
    Int(i128),
    /// A number with a fraction.
    Num(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
    /// A stack: an array in JSON.
    Stack {
        /// Its frames as they are shown, in the order in which they are.
        frames: Vec<Rc<str>>,
        /// What parts them in text.
        between: Rc<str>,
    },
}

impl From<f64> for Cell {
    /// Whole numbers become [`Cell::Int`], exactly.
    fn from(value: f64) -> Cell {
        // Every integer below 2^127 converts exactly.
        if value.fract() == 0.0 && value.abs() < 1e38 {
            Cell::Int(value as i128)
        } else {
            Cell::Num(value)
        }
    }
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At the left edge.
    Left,
    /// At the right edge.
    Right,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Title in text output.
    pub title: String,
    /// Key in JSON: snake_case, unit last (`max_us`).
    pub key: String,
    /// Least width; the widest cell or title widens it.
    pub width: usize,
    /// Side.
    pub align: Align,
    /// Digits after the point of a `Cell::Num`; None prints the shortest form.
    pub decimals: Option<usize>,
    /// Text shows fewer decimals, in all its cells, where the column would else be wider than `width` or its title.
    pub shrinks: bool,
    /// Joined to the next column by ` => `.
    pub arrow: bool,
    /// In JSON only.
    pub json_only: bool,
    /// Left out of text where a line has no room for all.
    pub spare: bool,
}

/// How a table looks as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Titles over a line of dashes: latency tables.
    Ruled,
    /// Titles, then rows.
    Plain,
    /// The title line of `top` (`perilune - HH:MM:SS  sample N events`) before the titles.
    Top,
}

/// Rows under titles.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The key `table` of its JSON rows.
    pub name: String,
    /// A line of its own above the titles, or none.
    pub title: Option<String>,
    /// Look.
    pub style: Style,
    /// Events counted, for the title of `Style::Top`.
    pub samples: u64,
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Rows in order, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// One bucket of a histogram, bounds inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Lowest value.
    pub low: i64,
    /// Highest value.
    pub high: i64,
    /// How many.
    pub count: u64,
}

/// A histogram: `title(unit) : count distribution`, one per key.
#[derive(Clone, Debug, PartialEq)]
pub struct Hist {
    /// The key `name` of its JSON object.
    pub name: String,
    /// Title in text output, without the unit.
    pub title: String,
    /// Unit of the bounds; may be empty.
    pub unit: String,
    /// Key columns and their values, for a histogram per key.
    pub keys: Vec<(String, Cell)>,
    /// Buckets in order, from the first to the last that is not empty (log2 starts at 0).
    pub buckets: Vec<Bucket>,
}

/// How urgent a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something to know.
    Info,
    /// Something is not as it should be.
    Warning,
    /// A script's alert.
    Alert,
    /// Something failed.
    Error,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// Rows.
    Table(Table),
    /// A histogram.
    Hist(Hist),
    /// A row on its own, made by `emit { … }`.
    Row(Vec<(String, Cell)>),
}

/// What the run itself cost: `--stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Events dispatched.
    pub events: u64,
    /// Own CPU time, user and system, of the whole process.
    pub own_cpu_ns: u64,
    /// The CPU time from the moment the events were enabled, per event received: dispatched, or kept back by a filter here. None
    /// of so few that it would tell nothing of an event.
    pub ns_per_event: Option<f64>,
    /// Events lost.
    pub lost: u64,
    /// Peak resident memory.
    pub max_rss_kb: u64,
    /// From the start of the process to the first drain.
    pub start_ms: f64,
    /// What LuaJIT did.
    pub compiler: Compiler,
}

/// What LuaJIT made of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compiler {
    /// Pieces of machine code that it made.
    pub traces: u64,
    /// Attempts that it gave up. Some always are.
    pub aborted: u64,
    /// How often it threw all of them away, for want of room.
    pub flushed: u64,
    /// The part of the script's CPU time that was interpreted, from 0 to 1; none with too few
    /// samples.
    pub interpreted: Option<f64>,
}

/// Where a run's words go: one implementation per output format. What one does not implement goes nowhere.
pub trait Draw {
    /// The events of the run, before the first of them.
    fn opened(&mut self, _events: &[OpenedEvent]) {}
    /// One event, now.
    fn event(&mut self, _event: &mut EventLine<'_>) {}
    /// The parts of one report, under one time line; draws nothing when `parts` is empty.
    fn report(&mut self, _stamp: Stamp, _parts: &[Report]) {}
    /// Parts that somebody asked for by hand, at a prompt: they have no time line.
    fn answer(&mut self, _parts: &[Report]) {}
    /// Lines for a prompt, among the results.
    fn line(&mut self, _text: &str) {}
    /// A message of the script or the runtime. Text output sends all but alerts to stderr.
    fn note(&mut self, _stamp: Stamp, _level: Level, _text: &str) {}
    /// What a script says with `note`, which may be once for each event.
    fn script_note(&mut self, stamp: Stamp, text: &str) {
        self.note(stamp, Level::Info, text);
    }
    /// The coverage of an interval, or of the run when `last`; text output is silent when it is perfect.
    fn coverage(&mut self, _stamp: Stamp, _coverage: &Coverage, _last: bool) {}
    /// The run's own cost.
    fn stats(&mut self, _stamp: Stamp, _stats: &Stats) {}
    /// Hands everything so far to the operating system. `Err` with `BrokenPipe` when the reader has gone.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    /// Flushes when so much is pending that it should not wait for the interval.
    fn flush_if_large(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers() {
        assert_eq!(Cell::from(-3.0), Cell::Int(-3));
        assert_eq!(Cell::from(0.5), Cell::Num(0.5));
        assert_eq!(Cell::from(f64::INFINITY), Cell::Num(f64::INFINITY));
        assert_eq!(Cell::from(2f64.powi(64)), Cell::Int(1 << 64));
    }
}
