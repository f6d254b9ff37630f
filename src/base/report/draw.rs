//! The output of a run, as data: events, tables, histograms, notes. A script returns these,
//! `output` draws them.

use crate::base::{
    event::value::{FieldType, Value},
    report::cell::Cell,
    report::coverage::Coverage,
    report::event_record::EventRecord,
    report::frame::Frame,
    report::metric::{MetricKind, MetricTable},
    report::rows::TableRows,
    report::run_record::RunRecord,
    report::run_stats::Stats,
};

/// A point in time, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// Nanoseconds of the clock of the events' timestamps (`CLOCK_MONOTONIC` when live).
    pub clock_ns: u64,
}

/// Fields of a tracepoint's record from which its column of flags is made.
pub const FLAG_FIELDS: [&str; 2] = ["common_flags", "common_preempt_count"];

/// One event to print, borrowed from its record.
pub struct EventLine<'a> {
    /// Time of the event.
    pub stamp: Stamp,
    /// The task's name; `<...>` when unknown.
    pub comm: &'a [u8],
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// CPU of the record.
    pub cpu: u32,
    /// The flags column as in ftrace: irqs off, need-resched, hard/soft irq, preempt depth. `....`
    /// if unknown.
    pub flags: [u8; 4],
    /// The fields [`FLAG_FIELDS`] of the record, from which `flags` are made; 0 for a record
    /// without them.
    pub common: [u8; 2],
    /// `common_pid` of the record if it differs from `tid`. In a PID namespace, `pid` and `tid` are
    /// numbers of that namespace; `common_pid` is that of the initial one.
    pub common_pid: Option<u32>,
    /// `sys:name`, or the name of a counter.
    pub name: &'a str,
    /// Index of the event in the run if `fields` are all that it can have. Two lines with the same
    /// index have the same names and types of fields, which need not be compared.
    pub role: Option<usize>,
    /// The count since the previous sample, for a sample of a counter or a clock; None for a
    /// tracepoint record.
    pub period: Option<u64>,
    /// The event's own fields, in format order. A slice, because an iterator that is called through
    /// a pointer returns each value in memory: 100 ns per event.
    pub fields: &'a [(&'a str, Value<'a>)],
    /// The event as text.
    pub text: EventText<'a>,
    /// Additional fields from the script: printed before the event in text, among the fields in
    /// JSON.
    pub extra: &'a [(String, Cell)],
    /// The detail that the event is part of, if it is printed as part of one.
    pub detail: Option<DetailPosition>,
    /// Frames of the call chain, outermost last.
    pub stack: &'a [Frame],
}

/// An event that a run has opened: its name, and its own fields with their types.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedEvent {
    /// `sys:name`, or the name of a counter.
    pub name: String,
    /// Fields in format order; empty for a counter.
    pub fields: Vec<(String, FieldType)>,
}

/// The position of an event in a detail, which is all that happened around something that took
/// long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetailPosition {
    /// Number of the detail in the run, from 1.
    pub number: u64,
    /// Nanoseconds since the beginning of the interval that the detail shows; negative for events
    /// before it.
    pub offset_ns: i64,
}

/// Source of an event's text.
#[derive(Clone, Copy)]
pub enum EventText<'a> {
    /// Its fields, as `name=value`.
    Fields,
    /// The record formatted by the event's print format. The function appends the text; if the
    /// record lacks data that the format needs, it appends nothing and returns false, and the
    /// fields are shown.
    Format(&'a dyn Fn(&mut Vec<u8>) -> bool),
    /// Output of a printer of the script; JSON has it in addition to the fields.
    Printer(&'a [u8]),
}

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned.
    Left,
    /// Right-aligned.
    Right,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Title in text output.
    pub title: String,
    /// Key in JSON: snake_case, unit last (`max_us`).
    pub key: String,
    /// Minimum width; the widest cell or title widens it.
    pub width: usize,
    /// Alignment.
    pub align: Align,
    /// Digits after the decimal point of a `Cell::Num`; None prints the shortest form.
    pub decimals: Option<usize>,
    /// In text, all cells get fewer decimals if the column would otherwise be wider than `width` or
    /// its title.
    pub shrinks: bool,
    /// Joined to the next column by ` => `.
    pub arrow: bool,
    /// In JSON only.
    pub json_only: bool,
    /// Omitted from text if the line does not have room for all columns.
    pub spare: bool,
    /// How it becomes a metric, if the table is one of the script's own.
    pub metric: MetricKind,
}

/// Layout of a table in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Titles over a line of dashes: latency tables.
    Ruled,
    /// Titles, then rows.
    Plain,
    /// As `Plain`, for many columns of counts: text output adds a row of their sums, omits columns
    /// of zeros unless `all`, and shows columns for which a line has no room below the others.
    Counts {
        /// Whether columns of zeros are shown.
        all: bool,
    },
    /// The title line of `top` (`perilune - HH:MM:SS  sample N events`) before the titles.
    Top,
}

/// Rows under titles.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The key `table` of its JSON rows.
    pub name: String,
    /// A line above the titles, or none.
    pub title: Option<String>,
    /// Layout.
    pub style: Style,
    /// Number of events counted, for the title of `Style::Top`.
    pub samples: u64,
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Rows in order, each as long as `columns`.
    pub rows: TableRows,
    /// Number of further rows, beyond the limit of the table.
    pub hidden: u64,
}

/// One bucket of a histogram, bounds inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Lowest value.
    pub low: i64,
    /// Highest value.
    pub high: i64,
    /// Number of values.
    pub count: u64,
}

/// A histogram: `title(unit) : count distribution`, one per key.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnHistogram {
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
    /// Half the width of the 95 % confidence interval of each count; empty if counts are exact.
    pub errors: Vec<f64>,
}

/// Severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Information.
    Info,
    /// A problem that does not stop the run.
    Warning,
    /// A script's alert.
    Alert,
    /// A failure.
    Error,
}

impl Level {
    /// Returns what precedes a message of this level on stderr; None if `--quiet` omits it.
    pub fn prefix(self, quiet: bool) -> Option<&'static str> {
        match self {
            Level::Info | Level::Warning if quiet => None,
            Level::Info => Some("note: "),
            Level::Warning => Some("warning: "),
            Level::Alert => Some("ALERT "),
            Level::Error => Some(""),
        }
    }
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// Rows.
    Table(Table),
    /// A histogram.
    Hist(DrawnHistogram),
    /// A row on its own, made by `emit { … }`.
    Row(Vec<(String, Cell)>),
}

/// Output of a run, with one implementation per output format. The default methods discard their
/// arguments.
pub trait Draw {
    /// Receives the events of the run, before the first of them occurs.
    fn opened(&mut self, _events: &[OpenedEvent]) {}
    /// Receives what a recording contains beside the events, when it happens.
    fn run_record(&mut self, _stamp: Stamp, _record: &RunRecord<'_>) {}
    /// Prints one event immediately.
    fn event(&mut self, _event: &mut EventLine<'_>) {}
    /// Returns whether the output also stores events that a flame graph shows instead of it; these
    /// arrive in [`Draw::drawn_event`].
    fn keeps_events(&self) -> bool {
        false
    }
    /// Stores an event that a flame graph shows.
    fn drawn_event(&mut self, _event: &mut EventLine<'_>) {}
    /// Returns whether the output accepts events as records ([`Draw::event_record`]).
    fn takes_records(&self) -> bool {
        false
    }
    /// Prints one event, or returns false if the output needs the [`EventLine`] of this event.
    fn event_record(&mut self, _event: &EventRecord<'_>) -> bool {
        false
    }
    /// Prints the parts of one report under one time line; prints nothing if `parts` is empty.
    fn report(&mut self, _stamp: Stamp, _parts: &[Report]) {}
    /// Receives the measurements of an interval: all rows, with their distributions.
    fn measured(&mut self, _stamp: Stamp, _tables: &[MetricTable]) {}
    /// Prints parts that were requested at a prompt: they have no time line.
    fn answer(&mut self, _parts: &[Report]) {}
    /// Prints lines for a prompt, among the results.
    fn line(&mut self, _text: &str) {}
    /// Prints a message of the script or the runtime. Text output sends all but alerts to stderr.
    fn note(&mut self, _stamp: Stamp, _level: Level, _text: &str) {}
    /// Prints a message of the script's `note` function, which may be called once per event.
    fn script_note(&mut self, stamp: Stamp, text: &str) {
        self.note(stamp, Level::Info, text);
    }
    /// Prints the coverage of an interval, or of the run if `last`; text output omits perfect
    /// coverage.
    fn coverage(&mut self, _stamp: Stamp, _coverage: &Coverage, _last: bool) {}
    /// Prints the run's own overhead.
    fn stats(&mut self, _stamp: Stamp, _stats: &Stats) {}
    /// Writes everything so far to the operating system.
    ///
    /// # Errors
    /// A write fails; with `BrokenPipe` if the reader has closed the pipe.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    /// Flushes if too much data is pending to wait for the end of the interval.
    ///
    /// # Errors
    /// The same as for [`Draw::flush`].
    fn flush_if_large(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    /// Writes everything at the end of the run; nothing is drawn after it.
    ///
    /// # Errors
    /// The same as for [`Draw::flush`].
    fn end(&mut self) -> std::io::Result<()> {
        self.flush()
    }
}
