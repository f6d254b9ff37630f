//! Rows beyond the limits of tables, for outputs that have no place for their number: they are
//! counted, and reported once at the end.

use crate::base::report::draw::Table;
use crate::base::text::units::counted;
use indexmap::IndexMap;

/// Rows that no report contained, by the name of their table.
#[derive(Default)]
pub(super) struct OmittedRows(IndexMap<String, OmittedCount>);

#[derive(Default)]
struct OmittedCount {
    rows: u64,
    reports: u64,
}

impl OmittedRows {
    /// Counts the rows of a report's table that are beyond its limit.
    pub(super) fn add(&mut self, table: &Table) {
        if table.hidden > 0 {
            let count = self.0.entry(table.name.clone()).or_default();
            count.rows = count.rows.saturating_add(table.hidden);
            count.reports += 1;
        }
    }

    /// Returns a message for each table that had such rows, and forgets them.
    pub(super) fn take_messages(&mut self) -> Vec<String> {
        let tables = std::mem::take(&mut self.0).into_iter();
        let message = |(name, count): (String, OmittedCount)| {
            let rows = counted(count.rows, "further row");
            let reports = counted(count.reports, "report");
            format!(
                "table {name}: omitted {rows} in {reports}, beyond the limit of the table (--rows, \
                 or `top` in the script)"
            )
        };
        tables.map(message).collect()
    }
}
