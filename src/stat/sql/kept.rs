//! The rows of a run in a database file.
//!
//! Each interval is a transaction of its own with a rollback journal, so the file of a killed run
//! has all complete intervals. The rows of an interval are its sample, and the table `intervals`
//! has their weight. Rows are never read back while the run lasts, except by the query.

use super::{SqlStore, failed, prepared};
use crate::base::report::coverage::Coverage;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Columns that get an index when the run ends.
const INDEXED: [&str; 3] = ["_time", "_pid", "_tid"];
/// The table with a row for each interval that had events.
const INTERVALS: &str = "CREATE TABLE main.intervals (since_ns INTEGER, until_ns INTEGER, \
    events INTEGER, rows INTEGER, weight INTEGER)";

/// The times of the events of an interval: `since_ns <= time < until_ns`. An interval begins where
/// the one before ended, so that each time belongs to one interval only.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IntervalTimes {
    since_ns: i64,
    until_ns: i64,
}

impl IntervalTimes {
    /// Adds an event.
    pub(super) fn add(&mut self, time_ns: i64) {
        self.until_ns = self.until_ns.max(time_ns.saturating_add(1));
    }

    /// Starts the next interval.
    pub(super) fn restart(&mut self) {
        self.since_ns = self.until_ns;
    }
}

impl SqlStore {
    /// Keeps the rows of all intervals in the file at `path`, which is empty.
    ///
    /// # Errors
    /// SQLite cannot open it; a sentence.
    pub fn keep_in(&mut self, path: &Path) -> Result<(), String> {
        let of_path = |why: String| format!("failed to open `{}`: {why}", path.display());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let db = Connection::open_with_flags(path, flags).map_err(failed).map_err(of_path)?;
        // The page cache is enough to survive the end of the process, but not that of the machine.
        (self.db, self.restriction) = prepared(db, "PRAGMA synchronous = OFF").map_err(of_path)?;
        self.file = Some(path.to_owned());
        self.tables.clear();
        self.are_created = false;
        let created = self.restriction.lift(&self.db, |db| db.execute_batch(INTERVALS));
        created.map_err(failed).map_err(of_path)?;
        self.create(0)
    }

    /// Makes the file complete for the interval so far: removes the rows that left the sample, and
    /// stores the weight of the others.
    pub(super) fn store_interval(&mut self) {
        if self.file.is_none() || self.unwritten.is_some() || self.sample.events() == 0 {
            return;
        }
        if self.sample.has_hidden_rows() {
            self.compact();
        }
        let IntervalTimes { since_ns, until_ns } = self.times;
        let sample = &self.sample;
        // An interval is stored again if it goes on after a query.
        let insert = format!(
            "INSERT OR REPLACE INTO main.intervals (rowid, since_ns, until_ns, events, rows, weight)
             VALUES ({}, {since_ns}, {until_ns}, {}, {}, {})",
            sample.since(),
            sample.events(),
            sample.rows(),
            sample.weight()
        );
        self.write(&insert);
    }

    /// Runs statements of the runtime. If they fail, nothing more is written to the file.
    pub(super) fn write(&mut self, script: &str) {
        if self.unwritten.is_none()
            && let Err(why) = self.restriction.lift(&self.db, |db| db.execute_batch(script))
            && self.file.is_some()
        {
            self.fail_to_write(failed(why));
        }
    }

    /// Completes the file: adds indexes, and the table `coverage` with what the run missed. Returns
    /// a summary, or None if no file keeps the rows.
    ///
    /// # Errors
    /// The file cannot be written; a sentence.
    pub fn complete(&mut self, coverage: &Coverage) -> Result<Option<String>, String> {
        let Some(path) = self.file.clone() else { return Ok(None) };
        self.store_interval();
        self.check_written()?;
        let mut names: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut script = String::from("CREATE TABLE main.coverage (name TEXT, count INTEGER);");
        for (name, count) in coverage.problems() {
            script += &format!("INSERT INTO main.coverage VALUES ('{name}', {count});");
        }
        for name in &names {
            for column in INDEXED {
                let index = name.trim_matches('"').to_owned() + column;
                script += &format!("CREATE INDEX main.\"{index}\" ON {name} ({column});");
            }
        }
        let written = self.restriction.lift(&self.db, |db| {
            db.execute_batch(&script)?;
            if !db.is_autocommit() {
                db.execute_batch("COMMIT")?;
            }
            let count = |name: &&str| {
                db.query_row(&format!("SELECT count(*) FROM main.{name}"), [], |row| {
                    row.get::<_, i64>(0)
                })
            };
            names.iter().map(count).sum::<rusqlite::Result<i64>>()
        });
        let rows = written.map_err(|why| format!("failed to write `{}`: {why}", path.display()))?;
        Ok(Some(format!("wrote {} ({rows} rows of {} tables)", path.display(), names.len())))
    }
}
