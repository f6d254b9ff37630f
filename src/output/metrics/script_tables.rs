//! Measurements of tables that a script builds itself, from what is printed of them: their columns
//! have no declared key.

use crate::base::report::cell::Cell;
use crate::base::report::draw::{Column, Report, Table};
use crate::base::report::metric::{MetricKind, MetricRow, MetricTable};

/// Columns of numbers that name a thing instead of measuring it.
const IDS: &[&str] = &["cpu", "pid", "tid", "ppid", "node", "irq", "prio", "fd", "major", "minor"];

/// Returns the measurements of the tables in a report, except those in `measured`, whose aggregates
/// were measured themselves.
pub fn tables_of_reports(parts: &[Report], measured: &[MetricTable]) -> Vec<MetricTable> {
    let own = parts.iter().filter_map(|part| match part {
        Report::Table(table) if measured.iter().all(|one| one.name != table.name) => Some(table),
        _ => None,
    });
    own.map(measure).collect()
}

fn measure(table: &Table) -> MetricTable {
    let cells = |at: usize| table.rows.iter().filter_map(move |row| row.get(at));
    let kinds: Vec<MetricKind> =
        (table.columns.iter().enumerate()).map(|(at, column)| kind(column, cells(at))).collect();
    let with = |wanted: &[MetricKind]| -> Vec<usize> {
        (0..kinds.len()).filter(|at| kinds.get(*at).is_some_and(|k| wanted.contains(k))).collect()
    };
    let (labels, numbers) =
        (with(&[MetricKind::Label]), with(&[MetricKind::Counter, MetricKind::Gauge]));
    let key = |at: &usize| table.columns.get(*at).map_or(String::new(), |c| c.key.clone());
    let kind_at = |at: &usize| kinds.get(*at).copied().unwrap_or_default();
    MetricTable {
        name: table.name.clone(),
        labels: labels.iter().map(key).collect(),
        columns: numbers.iter().map(|at| (key(at), kind_at(at))).collect(),
        distribution: None,
        adds_up: false,
        rows: (table.rows.iter())
            .map(|row| MetricRow {
                labels: labels.iter().map(|at| row.get(*at).map_or(String::new(), text)).collect(),
                values: numbers.iter().map(|at| row.get(*at).and_then(number)).collect(),
                distribution: None,
            })
            .collect(),
    }
}

/// Returns how a column becomes a metric.
fn kind<'a>(column: &Column, mut cells: impl Iterator<Item = &'a Cell>) -> MetricKind {
    match column.metric {
        MetricKind::Inferred if IDS.contains(&column.key.as_str()) => MetricKind::Label,
        MetricKind::Inferred => match cells.find(|cell| !matches!(cell, Cell::Empty)) {
            Some(Cell::Text(_) | Cell::Bool(_)) => MetricKind::Label,
            Some(Cell::Int(_) | Cell::Num(_)) => MetricKind::Gauge,
            Some(Cell::Stack(_) | Cell::Empty) | None => MetricKind::Omitted,
        },
        kind => kind,
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Int(value) => value.get().to_string(),
        Cell::Num(value) => value.to_string(),
        Cell::Bool(value) => value.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Empty | Cell::Stack(_) => String::new(),
    }
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Int(value) => Some(value.get() as f64),
        Cell::Num(value) => Some(*value),
        _ => None,
    }
}
