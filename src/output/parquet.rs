//! Parquet, for engines that read a folder of files from many machines: DuckDB, Spark, ClickHouse,
//! Trino.
//!
//! Each kind of result has a folder, and each table has one in it:
//!
//! - `events/EVENT`: `time clock_ns cpu pid tid comm`, the event's own fields, those that the
//!   script adds, `detail`, `offset_ns`, `text`, `stack`;
//! - `rows/MONITOR.TABLE`: `time`, the keys that the columns have in JSON; `rows/MONITOR` for rows
//!   that `emit` prints;
//! - `histograms/MONITOR.NAME`: `time unit`, the keys, `count`, `sum` where it is known, `buckets`:
//!   a list of `(low, high, count)`. Tables of latencies have one, too, whose buckets are the same
//!   on all hosts, so that they add up exactly;
//! - `coverage`: the counts of each interval, and of the run (`final`).
//!
//! Below are partitions: `host=H/monitor=M/date=D/FILE.parquet`. Rows wait in memory for a row
//! group. A file is written without a name and linked when it is complete, after a limit of size or
//! age, so that a killed run leaves only complete files. Notes and stats go to stderr; so do, at
//! the end, the numbers of rows beyond the limits of tables.

mod bits;
mod column;
mod column_kind;
mod delta;
mod dictionary;
mod event;
mod numbers;
mod pages;
mod place;
mod rows;
mod schema;
mod staging;
mod table;

use super::omitted_rows::OmittedRows;
use super::text::{TextOptions, stats_text};
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, EventLine, Level, OpenedEvent, Report, Stamp};
use crate::base::report::event_record::EventRecord;
use crate::base::report::metric::MetricTable;
use crate::base::report::run_stats::Stats;
use crate::base::text::message::message;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::units::counted;
use anyhow::Result;
use event::EventTables;
use place::Partition;
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use table::{ParquetTable, TableContext};

/// Default size of a file in bytes; a row group may exceed it.
pub const FILE_BYTES: u64 = 64 << 20;
/// Default age of a file when it is finished.
pub const FILE_AGE: Duration = Duration::from_secs(60);
/// Memory for the rows of all tables that are not written yet.
const MEMORY: usize = 64 << 20;

/// Where files go, and when one is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParquetSettings {
    /// The folder of all tables.
    pub folder: PathBuf,
    /// The name of this machine.
    pub host: String,
    /// Size at which a file is finished.
    pub size: u64,
    /// Age at which a file is finished.
    pub age: Duration,
}

/// Writes Parquet files.
pub struct Parquet {
    messages: Box<dyn Write>,
    quiet: bool,
    monitor: String,
    stacks: StackStyle,
    age: Duration,
    context: TableContext,
    tables: Tables,
    events: EventTables,
    /// Rows beyond the limits of tables.
    omitted: OmittedRows,
    /// The first failure; nothing is written after it.
    failure: Option<anyhow::Error>,
    is_reported: bool,
    /// Number of rows that came after the failure.
    rows_after: u64,
    /// Whether the user knows how many rows are lost.
    is_loss_reported: bool,
}

/// All tables, and the memory that each took at its last check.
#[derive(Default)]
struct Tables {
    all: Vec<(ParquetTable, usize)>,
    /// Index of each table by its path.
    by_path: HashMap<PathBuf, usize>,
    bytes: usize,
}

impl Tables {
    fn add(&mut self, path: PathBuf, table: ParquetTable) -> usize {
        self.all.push((table, 0));
        self.by_path.insert(path, self.all.len() - 1);
        self.all.len() - 1
    }

    /// Updates the memory of a table. Over the limit, writes the rows of the largest tables.
    fn check(&mut self, index: usize, context: &mut TableContext) -> Result<()> {
        self.measure(index);
        while self.bytes > MEMORY {
            let largest = (0..self.all.len()).max_by_key(|i| self.all.get(*i).map(|(_, b)| *b));
            let Some((table, bytes)) = largest.and_then(|i| self.all.get_mut(i)) else { break };
            table.write_rows(context)?;
            self.bytes -= std::mem::take(bytes);
        }
        Ok(())
    }

    fn measure(&mut self, index: usize) {
        let Some((table, bytes)) = self.all.get_mut(index) else { return };
        self.bytes -= *bytes;
        *bytes = table.bytes();
        self.bytes += *bytes;
    }
}

impl Parquet {
    /// Begins the output of a monitor with this name. Messages are written at once.
    ///
    /// # Errors
    /// The folder cannot be created or written to.
    pub fn begin(
        settings: &ParquetSettings,
        messages: Box<dyn Write>,
        monitor: &str,
        look: TextOptions,
    ) -> Result<Parquet> {
        let partition = Partition::begin(&settings.folder, &settings.host, monitor)?;
        Ok(Parquet {
            messages,
            quiet: look.quiet,
            monitor: monitor.to_owned(),
            stacks: look.stacks,
            age: settings.age,
            context: TableContext::new(partition, settings.size),
            tables: Tables::default(),
            events: EventTables::default(),
            omitted: OmittedRows::default(),
            failure: None,
            is_reported: false,
            rows_after: 0,
            is_loss_reported: false,
        })
    }

    /// Writes a line to stderr at once. A failure is ignored, because it cannot be reported.
    fn message(&mut self, text: &str) {
        let line = message(text);
        let _ = self.messages.write_all(&line).and_then(|()| self.messages.flush());
    }

    /// Does some work unless there was a failure; keeps the first failure.
    fn attempt(&mut self, work: impl FnOnce(&mut Parquet) -> Result<()>) {
        if self.failure.is_none()
            && let Err(why) = work(self)
        {
            self.fail(why);
        }
    }

    /// Writes a row unless there was a failure; counts it otherwise.
    fn attempt_row(&mut self, write: impl FnOnce(&mut Parquet) -> Result<()>) {
        self.rows_after += u64::from(self.failure.is_some());
        self.attempt(write);
    }

    /// Keeps the first failure. Its table has no rows any more; the files of the others are
    /// finished if that is still possible.
    #[cold]
    fn fail(&mut self, why: anyhow::Error) {
        self.failure = Some(why);
        for (table, _) in &mut self.tables.all {
            // Rows of another table that cannot be written are counted as lost, too.
            let _ = table.finish(&mut self.context);
            table.abandon();
        }
    }

    /// Writes which rows a failed run has kept and which it has lost, once.
    fn report_loss(&mut self) {
        if self.failure.is_none() || std::mem::replace(&mut self.is_loss_reported, true) {
            return;
        }
        let TableContext { begun, files, rows, .. } = self.context;
        let kept = format!("{} in {}", counted(rows, "row"), counted(files, "file"));
        let before = counted(begun.saturating_sub(rows), "row");
        let after = self.rows_after;
        self.message(&format!(
            "--parquet: kept {kept}; lost {before} before the error and {after} after it"
        ));
    }

    /// Finishes the files that are old enough, or all.
    fn finish_files(&mut self, all: bool) -> Result<()> {
        for (table, bytes) in &mut self.tables.all {
            if all || table.since().is_some_and(|since| since.elapsed() >= self.age) {
                table.finish(&mut self.context)?;
                self.tables.bytes -= std::mem::take(bytes);
            }
        }
        Ok(())
    }

    /// Returns the first failure, once.
    fn result(&mut self) -> io::Result<()> {
        match &self.failure {
            Some(why) if !self.is_reported => {
                self.is_reported = true;
                Err(io::Error::other(format!("--parquet: {why:#}")))
            }
            _ => Ok(()),
        }
    }
}

impl Draw for Parquet {
    fn opened(&mut self, events: &[OpenedEvent]) {
        self.events.open(events, &mut self.tables);
    }

    fn event(&mut self, event: &mut EventLine<'_>) {
        self.attempt_row(|parquet| {
            let Parquet { events, tables, context, stacks, .. } = parquet;
            events.push(event, tables, context, stacks)
        });
    }

    fn keeps_events(&self) -> bool {
        true
    }

    fn drawn_event(&mut self, event: &mut EventLine<'_>) {
        self.event(event);
    }

    fn takes_records(&self) -> bool {
        true
    }

    fn event_record(&mut self, event: &EventRecord<'_>) -> bool {
        if self.failure.is_some() {
            self.rows_after += 1;
            return true;
        }
        match self.events.push_record(event, &mut self.tables, &mut self.context) {
            Ok(is_written) => is_written,
            Err(why) => {
                self.fail(why);
                true
            }
        }
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        for part in parts {
            if let Report::Table(table) = part {
                self.omitted.add(table);
            }
            self.push_part(stamp, part);
        }
    }

    fn measured(&mut self, stamp: Stamp, tables: &[MetricTable]) {
        tables.iter().for_each(|table| self.push_measured(stamp, table));
    }

    fn note(&mut self, _stamp: Stamp, level: Level, text: &str) {
        if let Some(prefix) = level.prefix(self.quiet) {
            self.message(&format!("{prefix}{text}"));
        }
    }

    fn coverage(&mut self, stamp: Stamp, coverage: &Coverage, last: bool) {
        let counts = [("events", coverage.events), ("filtered", coverage.filtered)];
        let states = [("starts", coverage.starts), ("open", coverage.open)];
        let counts = counts.into_iter().chain(coverage.gaps()).chain(states);
        let pairs: Vec<(&str, Cell)> = std::iter::once(("final", Cell::Bool(last)))
            .chain(counts.map(|(name, count)| (name, Cell::whole(count.into()))))
            .collect();
        self.push_pairs(stamp, "coverage", "coverage", &pairs);
        let problems = Coverage { exited: 0, ..*coverage };
        if last && !problems.is_perfect() {
            let mut text = Vec::new();
            super::text::push_problems(&mut text, &problems.problems());
            self.message(&format!("coverage of the run: {}", String::from_utf8_lossy(&text)));
        }
    }

    fn stats(&mut self, _stamp: Stamp, stats: &Stats) {
        self.message(&stats_text(stats));
    }

    /// Finishes the files that are old enough; rows wait for a whole row group.
    fn flush(&mut self) -> io::Result<()> {
        self.attempt(|parquet| parquet.finish_files(false));
        self.result()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.attempt(|parquet| parquet.finish_files(true));
        // Also with `--quiet`: the results do not show this loss.
        for text in self.omitted.take_messages() {
            self.message(&text);
        }
        self.report_loss();
        self.result()?;
        if !self.quiet && self.failure.is_none() {
            let TableContext { files, rows, bytes, .. } = self.context;
            let folder = self.context.partition.folder().display().to_string();
            self.message(&format!(
                "note: wrote {rows} rows in {files} files ({bytes} bytes) below {folder}"
            ));
        }
        Ok(())
    }
}

/// Finishes the files of a run that ends with an error.
impl Drop for Parquet {
    fn drop(&mut self) {
        self.attempt(|parquet| parquet.finish_files(true));
        self.report_loss();
    }
}

#[cfg(test)]
mod tests;
