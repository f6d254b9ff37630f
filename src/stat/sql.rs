//! Events of an interval as tables of SQLite: `sql { "SELECT …" }`.
//!
//! Each event of the run has a table with its name without the system (`sched__sched_switch` where
//! two would have one name), its fields as columns, and `_time _cpu _pid _tid _comm`. Rows are
//! inserted as they come, into a database in memory, or into a file that keeps them; the
//! query runs at the end of the interval and sees the rows of that interval. Beyond the limit of
//! rows it sees a sample.
//!
//! A query reads: an authorizer refuses everything but SELECT and functions, so that it cannot
//! attach or write another file. The run's interrupt and a time limit stop a long query, a memory
//! limit a large one.

mod authorizer;
mod events;
mod functions;
mod kept;
mod result;
mod sample;
mod value;

pub use events::{EventTable, SqlEvents, SqlSample, SqlSource, VisitEvent};
pub use result::SqlResult;

use super::leaf::{BorrowedEvent, EventLeaf};
use crate::base::event::value::Value;
use authorizer::Restriction;
use kept::IntervalTimes;
use result::failed;
use rusqlite::{Connection, Statement};
use sample::RowSample;
use std::path::PathBuf;
use std::rc::Rc;
use value::{SqlParameter, quoted};

/// Compiled statements that are kept: one for each event.
const STATEMENTS: usize = 1024;
/// Rows between two checks of the memory of the tables.
const CHECKED_ROWS: u64 = 4096;

/// A database of events and its query.
pub struct SqlStore {
    db: Connection,
    restriction: Restriction,
    query: String,
    events: Rc<SqlEvents>,
    /// By role.
    tables: Vec<StoredTable>,
    are_created: bool,
    /// The file that keeps the rows; without one they are removed after each interval.
    file: Option<PathBuf>,
    sample: RowSample,
    times: IntervalTimes,
    /// Memory limit of the tables, in bytes, and whether it is reached.
    memory: u64,
    is_full: bool,
    /// Why the file does not have all rows.
    unwritten: Option<String>,
    /// Number of rows of earlier intervals in the transaction.
    uncommitted: u64,
    /// Number of rows of this interval that are in no transaction any more.
    committed: u64,
    /// Events that SQLite refused or that had no room, and rows of results that were not shown.
    dropped: u64,
}

struct StoredTable {
    insert: String,
    columns: usize,
    /// Its name, quoted.
    name: String,
}

impl SqlStore {
    /// Returns an empty database with a query. `limit` is the maximum number of rows of an
    /// interval, `memory` that of bytes of all databases of the run.
    ///
    /// # Errors
    /// SQLite cannot be opened; a sentence.
    pub fn open(
        query: &str,
        events: &Rc<SqlEvents>,
        limit: u64,
        memory: usize,
    ) -> Result<SqlStore, String> {
        let db = Connection::open_in_memory().map_err(|why| why.to_string())?;
        // Of the process: tables get half of it, so that an insertion does not reach the limit.
        // The rest is for sorting and for results.
        db.pragma_update(None, "hard_heap_limit", memory as i64).map_err(|why| why.to_string())?;
        // No row is undone, so the tables in memory need no journal.
        let (db, restriction) = prepared(db, "PRAGMA journal_mode = OFF")?;
        Ok(SqlStore {
            db,
            restriction,
            query: query.to_owned(),
            events: events.clone(),
            tables: Vec::new(),
            are_created: false,
            unwritten: None,
            uncommitted: 0,
            committed: 0,
            file: None,
            sample: RowSample::new(limit),
            times: IntervalTimes::default(),
            memory: memory as u64 / 2,
            is_full: false,
            dropped: 0,
        })
    }

    /// Creates the tables of all events of the run, once they are known, and checks the query.
    ///
    /// # Errors
    /// The query is invalid; a sentence.
    pub fn check(&mut self) -> Result<(), String> {
        self.create(0)?;
        let statement = self.prepare()?;
        match statement.readonly() {
            true => Ok(()),
            false => Err("a query only reads: use SELECT".to_owned()),
        }
    }

    /// Creates the tables of all roles so far, if there is none for this one: a prompt opens events
    /// at any time.
    fn create(&mut self, role: usize) -> Result<(), String> {
        if std::mem::replace(&mut self.are_created, true) && role < self.tables.len() {
            return Ok(());
        }
        for table in self.events.tables().iter().skip(self.tables.len()) {
            let stored = self.create_table(table)?;
            self.tables.push(stored);
        }
        Ok(())
    }

    fn create_table(&self, table: &EventTable) -> Result<StoredTable, String> {
        let names = SqlSample::COLUMNS.iter().copied().map(str::to_owned);
        let names: Vec<String> = names.chain(table.columns.iter().cloned()).collect();
        let columns: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let (name, list) = (quoted(&table.name), columns.join(", "));
        // Two roles of one event share its table.
        let create = format!("CREATE TABLE IF NOT EXISTS main.{name} ({list})");
        self.restriction
            .lift(&self.db, |db| db.execute_batch(&create))
            .map_err(|why| format!("table {name}: {why}"))?;
        let places = vec!["?"; columns.len() + 1].join(", ");
        // A view of the interval may have the same name.
        let insert = format!("INSERT INTO main.{name} (rowid, {list}) VALUES ({places})");
        Ok(StoredTable { insert, columns: columns.len(), name })
    }

    fn prepare(&self) -> Result<Statement<'_>, String> {
        self.db.prepare(&self.query).map_err(|why| match why {
            rusqlite::Error::SqlInputError { msg, .. } => msg,
            why => why.to_string(),
        })
    }

    /// Inserts an event into the table of its role.
    fn insert(
        &mut self,
        role: usize,
        sample: &SqlSample<'_>,
        values: &mut dyn Iterator<Item = (&str, Value<'_>)>,
    ) {
        if self.sample.is_full() {
            self.compact();
        }
        let Some(table) = self.tables.get(role) else {
            self.dropped += 1;
            return;
        };
        if self.unwritten.is_some() {
            self.dropped += 1;
            return;
        }
        self.times.add(sample.time_ns);
        let Some(number) = self.sample.take() else { return };
        if self.is_full {
            self.dropped += 1;
            return;
        }
        let inserted = self.restriction.lift(&self.db, |db| {
            let mut statement = db.prepare_cached(&table.insert)?;
            statement.raw_bind_parameter(1, number)?;
            let mut place = 1;
            for parameter in sample.parameters() {
                place += 1;
                statement.raw_bind_parameter(place, parameter)?;
            }
            for (_, value) in values.take(table.columns + 1 - place) {
                place += 1;
                statement.raw_bind_parameter(place, SqlParameter(value))?;
            }
            for place in place + 1..=table.columns + 1 {
                statement.raw_bind_parameter(place, rusqlite::types::Null)?;
            }
            statement.raw_execute()
        });
        match inserted {
            Ok(_) => {}
            // Such as a full disk.
            Err(why) if self.file.is_some() => self.fail_to_write(failed(why)),
            Err(_) => self.dropped += 1,
        }
        if number.cast_unsigned() % CHECKED_ROWS == 0 && self.file.is_none() {
            self.is_full = self.bytes().is_none_or(|bytes| bytes > self.memory);
        }
    }

    /// Returns the bytes of the tables.
    fn bytes(&self) -> Option<u64> {
        let read = |name| {
            let lifted = |db: &Connection| db.pragma_query_value(None, name, |row| row.get(0));
            self.restriction.lift(&self.db, lifted).ok()
        };
        let (pages, size): (i64, i64) = (read("page_count")?, read("page_size")?);
        Some(pages.checked_mul(size)?.cast_unsigned())
    }

    /// Removes the rows of the interval that are not in the sample.
    fn compact(&mut self) {
        let (since, exponent) = (self.sample.since(), self.sample.exponent());
        let delete = |table: &StoredTable| {
            format!(
                "DELETE FROM main.{} WHERE rowid >= {since} AND NOT in_sample(rowid, {exponent});",
                table.name
            )
        };
        let script: String = self.tables.iter().map(delete).collect();
        // Rows that stay in memory are hidden by the view.
        self.write(&script);
        self.sample.compacted();
    }

    /// Lets the query see the rows of the interval that are in the sample.
    fn show_interval(&self) -> rusqlite::Result<()> {
        let (since, exponent) = (self.sample.since(), self.sample.exponent());
        let is_part = self.file.is_some() || exponent > 0;
        let mut script = String::new();
        for StoredTable { name, .. } in &self.tables {
            script += &format!("DROP VIEW IF EXISTS temp.{name};");
            if is_part {
                script += &format!(
                    "CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} \
                     WHERE rowid >= {since} AND in_sample(rowid, {exponent});"
                );
            }
        }
        self.restriction.lift(&self.db, |db| db.execute_batch(&script))
    }

    /// Runs the query.
    ///
    /// # Errors
    /// It is invalid, it needs more memory than its limit, or `is_stopped` returned true while it
    /// ran; a sentence.
    pub fn result(&mut self, is_stopped: fn() -> bool) -> Result<SqlResult, String> {
        self.check_written()?;
        self.create(0)?;
        self.store_interval();
        // Without an open transaction, which the failure of a query would undo.
        self.commit()?;
        let found = self.show_interval().map_err(failed);
        let found = found.and_then(|()| self.select(is_stopped));
        self.begin()?;
        let (found, beyond) = found?;
        self.dropped += beyond;
        Ok(found)
    }

    /// Checks that the file has all rows so far.
    fn check_written(&self) -> Result<(), String> {
        match (&self.file, &self.unwritten) {
            (Some(path), Some(why)) => Err(format!("failed to write `{}`: {why}", path.display())),
            _ => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<(), String> {
        if !self.db.is_autocommit()
            && let Err(why) = self.restriction.lift(&self.db, |db| db.execute_batch("COMMIT"))
        {
            // The transaction stays open while another process reads the file.
            let is_read = why.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
            if is_read || self.file.is_none() {
                return Err(failed(why));
            }
            self.fail_to_write(failed(why));
        }
        (self.uncommitted, self.committed) = (0, self.sample.rows());
        self.check_written()
    }

    /// Undoes the transaction; nothing more is written.
    fn fail_to_write(&mut self, why: String) {
        if !self.db.is_autocommit() {
            // SQLite may have undone it already.
            let _ = self.restriction.lift(&self.db, |db| db.execute_batch("ROLLBACK"));
        }
        self.dropped += self.rows_of_transaction();
        (self.uncommitted, self.committed) = (0, self.sample.rows());
        self.unwritten = Some(why);
    }

    fn rows_of_transaction(&self) -> u64 {
        self.uncommitted + self.sample.rows().saturating_sub(self.committed)
    }

    fn begin(&self) -> Result<(), String> {
        self.restriction.lift(&self.db, |db| db.execute_batch("BEGIN")).map_err(failed)
    }

    /// Starts the next interval.
    pub fn restart(&mut self) {
        (self.uncommitted, self.committed) = (self.rows_of_transaction(), 0);
        self.sample.restart();
        self.times.restart();
        self.is_full = false;
        if self.file.is_some() {
            return;
        }
        for table in &self.tables {
            let delete = format!("DELETE FROM main.{}", table.name);
            // Without conditions, SQLite frees the pages of the table.
            let _ = self.restriction.lift(&self.db, |db| db.execute_batch(&delete));
        }
    }

    /// Returns how many events each row of the interval stands for.
    pub fn weight(&self) -> u64 {
        self.sample.weight()
    }

    /// Returns the number of events that no query saw, and of rows that were not shown, since the
    /// start.
    pub fn dropped(&self) -> u64 {
        self.dropped + self.sample.omitted()
    }
}

impl EventLeaf for SqlStore {
    fn take_event(&mut self, event: Option<BorrowedEvent<'_>>, _: &[f64], _: u32) -> u32 {
        // Before the event is read: its source cannot be asked for tables meanwhile.
        let Some(event) = event else { return 0 };
        let role = event.slot.ev as usize;
        // A role without a table is counted below.
        let _ = self.create(role);
        let events = self.events.clone();
        events.read(&event, &mut |sample, values| self.insert(role, sample, values));
        0
    }
}

/// Returns a connection that only reads, except for the runtime's own work, in a transaction.
fn prepared(mut db: Connection, settings: &str) -> Result<(Connection, Restriction), String> {
    db.execute_batch(&format!("{settings}; PRAGMA temp_store = MEMORY; BEGIN")).map_err(failed)?;
    functions::register(&db).map_err(failed)?;
    let restriction = Restriction::begin(&mut db).map_err(failed)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok((db, restriction))
}

#[cfg(test)]
mod tests;
