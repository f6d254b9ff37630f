//! The rows of a run in a database file.
//!
//! Each interval is a transaction of its own with a rollback journal, so the file of a killed run
//! has all complete intervals. Rows are never read back while the run lasts, except by the query.

use super::{SqlStore, failed, prepared};
use crate::base::report::coverage::Coverage;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Columns that get an index when the run ends.
const INDEXED: [&str; 3] = ["_time", "_pid", "_tid"];

impl SqlStore {
    /// Keeps all rows in the file at `path`, which is empty.
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
        self.create(0)
    }

    /// Completes the file: adds indexes, and the table `coverage` with what the run missed. Returns
    /// a summary, or None if no file keeps the rows.
    ///
    /// # Errors
    /// The file cannot be written; a sentence.
    pub fn complete(&mut self, coverage: &Coverage) -> Result<Option<String>, String> {
        let Some(path) = self.file.clone() else { return Ok(None) };
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
