//! The result of a query: its rows as cells, with limits of their number and size.

use super::{SqlStore, functions};
use crate::base::report::cell::Cell;
use crate::base::text::message::utf8;
use rusqlite::ErrorCode;
use rusqlite::types::ValueRef;
use std::fmt::Write as _;

/// Instructions of a query between two checks whether it is to be stopped.
const STEPS: i32 = 10_000;
/// Maximum number of rows; further ones are counted.
const ROWS: usize = 100_000;
/// Maximum size of all texts in bytes; further rows are counted.
const BYTES: usize = 64 << 20;
/// Maximum size of a text in bytes; the end of a longer one is cut off.
const TEXT_BYTES: usize = 1 << 20;
/// The error of a query that `is_stopped` ended.
const STOPPED: &str = "the query was stopped, by an interrupt or after its time limit";

/// The rows of a query.
#[derive(Debug, Default)]
pub struct SqlResult {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl SqlStore {
    /// Runs the query. Returns also how many rows are not shown.
    pub(super) fn select(&mut self, is_stopped: fn() -> bool) -> Result<(SqlResult, u64), String> {
        functions::look_up_in(&self.events, self.sample.weight());
        self.db.progress_handler(STEPS, Some(is_stopped)).map_err(failed)?;
        let found = self.read_rows(is_stopped);
        // A handler that stays would interrupt the statements of the runtime as well.
        self.db.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
        found
    }

    fn read_rows(&self, is_stopped: fn() -> bool) -> Result<(SqlResult, u64), String> {
        let mut statement = self.prepare()?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut found = SqlResult { columns, rows: Vec::new() };
        let mut rows = statement.query([]).map_err(failed)?;
        let (mut beyond, mut bytes) = (0, 0);
        while let Some(row) = rows.next().map_err(failed)? {
            // Large values take longer than the instructions between two checks.
            if is_stopped() {
                return Err(STOPPED.to_owned());
            }
            if found.rows.len() == ROWS || bytes > BYTES {
                beyond += 1;
                continue;
            }
            let cell = |i| row.get_ref(i).map(cell_of).unwrap_or(Cell::Empty);
            let cells: Vec<Cell> = (0..found.columns.len()).map(cell).collect();
            bytes += cells.iter().map(text_bytes).sum::<usize>();
            found.rows.push(cells);
        }
        Ok((found, beyond))
    }
}

/// Returns an error of SQLite as a sentence.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failed(why: rusqlite::Error) -> String {
    match why.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => STOPPED.to_owned(),
        Some(ErrorCode::OutOfMemory) => {
            "the query needs more memory than --aggregate-mem allows".to_owned()
        }
        _ => why.to_string(),
    }
}

fn text_bytes(cell: &Cell) -> usize {
    if let Cell::Text(text) = cell { text.len() } else { 0 }
}

fn cell_of(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Empty,
        ValueRef::Integer(value) => Cell::whole(value.into()),
        ValueRef::Real(value) => Cell::Num(value),
        ValueRef::Text(text) => {
            let (start, is_cut) = start_of(text, TEXT_BYTES);
            Cell::Text(cut(utf8(start).into_owned(), is_cut))
        }
        ValueRef::Blob(bytes) => {
            let (start, is_cut) = start_of(bytes, TEXT_BYTES / 2);
            let mut text = String::with_capacity(2 * start.len());
            for byte in start {
                // Writing to a String does not fail.
                let _ = write!(text, "{byte:02x}");
            }
            Cell::Text(cut(text, is_cut))
        }
    }
}

fn start_of(bytes: &[u8], most: usize) -> (&[u8], bool) {
    bytes.get(..most).map_or((bytes, false), |start| (start, bytes.len() > most))
}

fn cut(text: String, is_cut: bool) -> String {
    if is_cut { text + "…" } else { text }
}
