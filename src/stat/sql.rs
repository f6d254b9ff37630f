//! Events of an interval as tables of SQLite: `sql { "SELECT …" }`.
//!
//! Each event of the run has a table with its name without the system (`sched__sched_switch` where
//! two would have one name), its fields as columns, and `_time _cpu _pid _tid _comm`. Rows are
//! inserted as they come, into a database in memory; the query runs at the end of the interval,
//! after which the tables are empty again.
//!
//! A query reads: an authorizer refuses everything but SELECT and functions, so that it cannot
//! attach or write another file. The run's interrupt and a time limit stop a long query.

mod authorizer;
mod events;
mod functions;
mod value;

pub use events::{EventTable, SqlEvents, SqlSample, SqlSource, VisitEvent};

use super::leaf::{BorrowedEvent, EventLeaf};
use crate::base::event::value::Value;
use crate::base::report::draw::Cell;
use authorizer::Restriction;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use std::rc::Rc;
use value::{SqlParameter, quoted};

/// Instructions of a query between two checks whether it is to be stopped.
const STEPS: i32 = 10_000;
/// Compiled statements that are kept: one for each event.
const STATEMENTS: usize = 1024;
/// Maximum number of rows of a result; further ones are counted.
const RESULT_ROWS: usize = 100_000;

/// A database of events and its query.
pub struct SqlStore {
    db: Connection,
    restriction: Restriction,
    query: String,
    events: Rc<SqlEvents>,
    /// By role.
    tables: Vec<StoredTable>,
    are_created: bool,
    /// Maximum number of rows of an interval, and their number so far.
    limit: u64,
    rows: u64,
    losses: SqlLosses,
}

/// Counts of events and rows that were not stored or not shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SqlLosses {
    /// Events beyond the limit, or that SQLite refused.
    pub dropped: u64,
}

struct StoredTable {
    insert: String,
    columns: usize,
    name: String,
}

/// The rows of a query.
#[derive(Debug, Default)]
pub struct SqlResult {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl SqlStore {
    /// Returns an empty database with a query. `limit` is the maximum number of rows of an
    /// interval.
    ///
    /// # Errors
    /// SQLite cannot be opened; a sentence.
    pub fn open(query: &str, events: &Rc<SqlEvents>, limit: u64) -> Result<SqlStore, String> {
        let failed = |why: rusqlite::Error| why.to_string();
        let mut db = Connection::open_in_memory().map_err(failed)?;
        // Nothing is undone, so no journal is needed. One transaction for all rows.
        db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA temp_store = MEMORY; BEGIN")
            .map_err(failed)?;
        functions::register(&db).map_err(failed)?;
        let restriction = Restriction::begin(&mut db).map_err(failed)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(SqlStore {
            db,
            restriction,
            query: query.to_owned(),
            events: events.clone(),
            tables: Vec::new(),
            are_created: false,
            limit,
            rows: 0,
            losses: SqlLosses::default(),
        })
    }

    /// Creates the tables of all events of the run, once they are known, and checks the query.
    ///
    /// # Errors
    /// The query is invalid; a sentence.
    pub fn check(&mut self) -> Result<(), String> {
        self.create()?;
        let statement = self.prepare()?;
        match statement.readonly() {
            true => Ok(()),
            false => Err("a query only reads: use SELECT".to_owned()),
        }
    }

    fn create(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.are_created, true) {
            return Ok(());
        }
        for table in self.events.tables() {
            let stored = self.create_table(&table)?;
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
        let create = format!("CREATE TABLE IF NOT EXISTS {name} ({list})");
        self.restriction
            .lift(&self.db, |db| db.execute_batch(&create))
            .map_err(|why| format!("table {name}: {why}"))?;
        let places = vec!["?"; columns.len()].join(", ");
        let insert = format!("INSERT INTO {name} VALUES ({places})");
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
        if self.rows >= self.limit {
            self.losses.dropped += 1;
            return;
        }
        let Some(table) = self.tables.get(role) else { return };
        let inserted = self.restriction.lift(&self.db, |db| {
            let mut statement = db.prepare_cached(&table.insert)?;
            let mut place = 0;
            for parameter in sample.parameters() {
                place += 1;
                statement.raw_bind_parameter(place, parameter)?;
            }
            for (_, value) in values.take(table.columns - place) {
                place += 1;
                statement.raw_bind_parameter(place, SqlParameter(value))?;
            }
            for place in place + 1..=table.columns {
                statement.raw_bind_parameter(place, rusqlite::types::Null)?;
            }
            statement.raw_execute()
        });
        match inserted {
            Ok(_) => self.rows += 1,
            Err(_) => self.losses.dropped += 1,
        }
    }

    /// Runs the query.
    ///
    /// # Errors
    /// It is invalid, or `is_stopped` returned true while it ran; a sentence.
    pub fn result(&mut self, is_stopped: fn() -> bool) -> Result<SqlResult, String> {
        self.create()?;
        functions::look_up_in(&self.events);
        let failed = |why: rusqlite::Error| match why.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => {
                "the query was stopped, by an interrupt or after its time limit".to_owned()
            }
            _ => why.to_string(),
        };
        self.db.progress_handler(STEPS, Some(is_stopped)).map_err(failed)?;
        let mut statement = self.prepare()?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut found = SqlResult { columns, rows: Vec::new() };
        let mut rows = statement.query([]).map_err(failed)?;
        let mut beyond = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            if found.rows.len() == RESULT_ROWS {
                beyond += 1;
                continue;
            }
            let cell = |i| row.get_ref(i).map(cell_of).unwrap_or(Cell::Empty);
            found.rows.push((0..found.columns.len()).map(cell).collect());
        }
        drop(rows);
        drop(statement);
        self.losses.dropped += beyond;
        Ok(found)
    }

    /// Starts the next interval.
    pub fn restart(&mut self) {
        self.rows = 0;
        for table in &self.tables {
            let delete = format!("DELETE FROM {}", table.name);
            // Without conditions, SQLite frees the pages of the table.
            let _ = self.restriction.lift(&self.db, |db| db.execute_batch(&delete));
        }
    }

    /// Returns what was not stored or not shown since the start.
    pub fn losses(&self) -> SqlLosses {
        self.losses
    }
}

impl EventLeaf for SqlStore {
    fn take_event(&mut self, event: Option<BorrowedEvent<'_>>, _: &[f64], _: u32) -> u32 {
        // Before the event is read: its source cannot be asked for tables meanwhile.
        if let (Some(event), Ok(())) = (event, self.create()) {
            let events = self.events.clone();
            events.read(&event, &mut |sample, values| {
                self.insert(event.slot.ev as usize, sample, values);
            });
        }
        0
    }
}

fn cell_of(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Empty,
        ValueRef::Integer(value) => Cell::Int(value.into()),
        ValueRef::Real(value) => Cell::Num(value),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            Cell::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
    }
}

#[cfg(test)]
mod tests;
