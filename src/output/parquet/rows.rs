//! Rows of reports: tables, single rows, histograms, measured latencies, coverage.

use super::Parquet;
use super::column::ParquetColumn;
use super::column_kind::ColumnKind;
use super::place::folder_name;
use super::table::ParquetTable;
use crate::base::report::cell::Cell;
use crate::base::report::draw::{Bucket, DrawnHistogram, Report, Stamp};
use crate::base::report::metric::{Distribution, DistributionShape, MetricTable};
use crate::base::text::digits;
use crate::stat::latency::bucket_of;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// A value of a row.
enum RowValue<'a> {
    Cell(&'a Cell),
    /// A number that has a fraction in other rows.
    Fraction(&'a Cell),
    Text(&'a str),
    Count(u64),
    Sum(Option<f64>),
    Buckets(&'a mut dyn Iterator<Item = Bucket>),
}

impl RowValue<'_> {
    fn kind(&self) -> ColumnKind {
        match self {
            RowValue::Cell(cell) => kind_of(cell),
            RowValue::Fraction(cell) => ColumnKind::Double.join(kind_of(cell)),
            RowValue::Text(_) => ColumnKind::Text,
            RowValue::Count(_) => ColumnKind::Int,
            RowValue::Sum(_) => ColumnKind::Double,
            RowValue::Buckets(_) => ColumnKind::Buckets,
        }
    }

    fn push(self, column: &mut ParquetColumn) {
        match self {
            RowValue::Cell(cell) | RowValue::Fraction(cell) => push_cell(column, cell),
            RowValue::Text(text) => column.push_text(text.as_bytes()),
            RowValue::Count(count) => column.push_int(count.cast_signed()),
            RowValue::Sum(Some(sum)) => column.push_double(sum),
            RowValue::Sum(None) => column.push_null(),
            RowValue::Buckets(buckets) => column.push_buckets(buckets),
        }
    }
}

fn kind_of(cell: &Cell) -> ColumnKind {
    match cell {
        Cell::Empty => ColumnKind::Unknown,
        Cell::Int(value) if i64::try_from(value.get()).is_ok() => ColumnKind::Int,
        Cell::Int(value) if u64::try_from(value.get()).is_ok() => ColumnKind::Uint,
        Cell::Int(_) => ColumnKind::Text,
        Cell::Num(_) => ColumnKind::Double,
        Cell::Bool(_) => ColumnKind::Bool,
        Cell::Text(_) => ColumnKind::Text,
        Cell::Stack(_) => ColumnKind::Texts,
    }
}

/// Appends a cell to a column that accepts its kind.
pub(super) fn push_cell(column: &mut ParquetColumn, cell: &Cell) {
    match (column.kind, cell) {
        (_, Cell::Empty) => column.push_null(),
        (ColumnKind::Texts, Cell::Stack(stack)) => {
            column.push_texts(stack.frames.iter().map(|frame| frame.as_bytes()));
        }
        (ColumnKind::Int | ColumnKind::Uint, Cell::Int(n)) => column.push_int(n.get() as i64),
        (ColumnKind::Double, Cell::Int(value)) => column.push_double(value.get() as f64),
        (ColumnKind::Double, Cell::Num(value)) if value.is_finite() => column.push_double(*value),
        (ColumnKind::Bool, Cell::Bool(value)) => column.push_bool(*value),
        (ColumnKind::Text, Cell::Text(text)) => column.push_text(text.as_bytes()),
        (ColumnKind::Text, cell) => column.push_text(text_of(cell).as_bytes()),
        _ => column.push_null(),
    }
}

fn text_of(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Int(value) => {
            let mut text = Vec::new();
            digits::push_i128(&mut text, value.get());
            String::from_utf8_lossy(&text).into_owned()
        }
        Cell::Num(value) => value.to_string(),
        Cell::Bool(value) => value.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Stack(stack) => stack.frames.join(";"),
    }
}

/// Returns the kind that a column needs for a cell.
pub(super) fn kind_of_cell(cell: &Cell) -> ColumnKind {
    kind_of(cell)
}

impl Parquet {
    pub(super) fn push_part(&mut self, stamp: Stamp, part: &Report) {
        match part {
            Report::Table(table) => table.rows.iter().for_each(|row| {
                let cells = table.columns.iter().zip(row).map(|(column, cell)| {
                    let is_fraction = column.decimals.is_some();
                    let value = if is_fraction { RowValue::Fraction } else { RowValue::Cell };
                    (column.key.as_str(), value(cell))
                });
                self.push_row(stamp, "rows", &table.name, cells.collect());
            }),
            Report::Hist(hist) => self.push_histogram(stamp, hist),
            Report::Row(pairs) => {
                let cells = pairs.iter().map(|(name, cell)| (name.as_str(), RowValue::Cell(cell)));
                let monitor = self.monitor.clone();
                self.push_row(stamp, "rows", &monitor, cells.collect());
            }
        }
    }

    pub(super) fn push_pairs(
        &mut self,
        stamp: Stamp,
        kind: &str,
        name: &str,
        pairs: &[(&str, Cell)],
    ) {
        let cells = pairs.iter().map(|(name, cell)| (*name, RowValue::Cell(cell)));
        self.push_row(stamp, kind, name, cells.collect());
    }

    fn push_histogram(&mut self, stamp: Stamp, hist: &DrawnHistogram) {
        let keys = hist.keys.iter().map(|(key, cell)| (key.as_str(), RowValue::Cell(cell)));
        let mut row = vec![("unit", RowValue::Text(&hist.unit))];
        row.extend(keys);
        let count = hist.buckets.iter().map(|bucket| bucket.count).sum();
        let mut buckets = hist.buckets.iter().copied().filter(|bucket| bucket.count > 0);
        row.push(("count", RowValue::Count(count)));
        row.push(("sum", RowValue::Sum(None)));
        row.push(("buckets", RowValue::Buckets(&mut buckets)));
        self.push_row(stamp, "histograms", &hist.name, row);
    }

    /// Appends the distributions of a table of latencies. Histograms are parts of reports already.
    pub(super) fn push_measured(&mut self, stamp: Stamp, table: &MetricTable) {
        let unit = match &table.distribution {
            Some((_, DistributionShape::Durations)) => "ns",
            Some((_, DistributionShape::Values)) => "",
            _ => return,
        };
        for measured in &table.rows {
            let Some(Distribution { count, sum, buckets }) = &measured.distribution else {
                continue;
            };
            let labels = table.labels.iter().zip(&measured.labels);
            let mut row = vec![("unit", RowValue::Text(unit))];
            row.extend(labels.map(|(name, text)| (name.as_str(), RowValue::Text(text))));
            let mut buckets = buckets.iter().map(|(value, count)| {
                let (low, high) = bucket_of(*value);
                Bucket { low, high, count: *count }
            });
            row.push(("count", RowValue::Count(*count)));
            row.push(("sum", RowValue::Sum(Some(*sum))));
            row.push(("buckets", RowValue::Buckets(&mut buckets)));
            self.push_row(stamp, "histograms", &table.name, row);
        }
    }

    /// Appends a row to a table, which is added if it is new. After a failure, only counts the row.
    fn push_row(&mut self, stamp: Stamp, kind: &str, name: &str, row: Vec<(&str, RowValue<'_>)>) {
        self.attempt_row(|parquet| parquet.write_row(stamp, kind, name, row));
    }

    fn write_row(
        &mut self,
        stamp: Stamp,
        kind: &str,
        name: &str,
        row: Vec<(&str, RowValue<'_>)>,
    ) -> Result<()> {
        // Tables of one name may have other columns in another monitor.
        let path = match kind {
            "coverage" => PathBuf::from(kind),
            _ if name == self.monitor => Path::new(kind).join(folder_name(name)),
            _ => Path::new(kind).join(folder_name(&format!("{}.{name}", self.monitor))),
        };
        let index = match self.tables.by_path.get(&path) {
            Some(index) => *index,
            None => {
                let time = ParquetColumn::required("time", ColumnKind::Time);
                self.tables.add(path.clone(), ParquetTable::new(path, vec![time]))
            }
        };
        let Some((table, _)) = self.tables.all.get_mut(index) else { return Ok(()) };
        let context = &mut self.context;
        table.begin_row(stamp.wall_ns, context)?;
        let mut taken = Vec::with_capacity(row.len() + 1);
        taken.push(0);
        for (position, (name, value)) in row.iter().enumerate() {
            let column = table.column(name, position + 1, &taken);
            table.accept(column, value.kind(), context)?;
            taken.push(column);
        }
        let filled = taken.len();
        for (column, (_, value)) in taken.into_iter().skip(1).zip(row) {
            if let Some(column) = table.columns.get_mut(column) {
                value.push(column);
            }
        }
        if let Some(time) = table.columns.first_mut() {
            time.push_time(stamp.wall_ns.div_euclid(1000));
        }
        table.end_row(filled, context)?;
        self.tables.check(index, context)
    }
}
