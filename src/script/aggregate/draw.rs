//! Draws aggregates as parts of a report: their columns, widths and order.
//!
//! Copies the rows first and calls Lua for texts only then, once per distinct value: a function of
//! the script may itself add to an aggregate.

use super::super::column::{column, column_key, make_unique};
use super::AggregateSettings;
use super::spec::{KeyColumn, SumColumn};
use crate::{
    base::draw::{self, Align, Cell, Report, Style, Table},
    stat::{
        hist::Histograms,
        kv::{Kv, KvRow},
        latency::{Latency, Timing},
        strings::Strings,
        sum::Sum,
        word::{Word, order_keys},
    },
};
use mlua::Lua;
use std::{cell::RefCell, collections::HashMap};

/// Options for drawing latencies.
pub(super) struct LatencyLook {
    pub(super) unit: &'static str,
    /// Title of the count.
    pub(super) count: String,
    pub(super) top: Option<usize>,
    pub(super) percentiles: bool,
}

/// Options for drawing counts and sums.
pub(super) struct KvLook {
    /// Title of the count, if it is shown.
    pub(super) count: Option<String>,
    pub(super) sums: Vec<SumColumn>,
    pub(super) top: Option<usize>,
    pub(super) style: Style,
    pub(super) hide_key: bool,
    pub(super) name: Option<KeyColumn>,
    /// Whether it was declared as a flame graph: its sum is the weight, regardless of `--weight`.
    pub(super) flame: bool,
}

/// The parts that every table has.
pub(super) struct TableParts<'a> {
    pub(super) lua: &'a Lua,
    pub(super) strings: &'a RefCell<Strings>,
    pub(super) shared: &'a AggregateSettings,
    pub(super) name: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) columns: &'a [Option<KeyColumn>],
}

/// Percentiles of a latency table, in order.
pub(super) const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// Key of the row of evicted keys.
pub(super) const EVICTED: &str = "(evicted)";

/// Minimum width of a column with an arrow: fits names of tracepoints.
const ARROW_WIDTH: usize = 19;

/// Minimum widths of the columns of a latency table.
struct Widths {
    key: usize,
    calls: usize,
    total: usize,
    time: usize,
    max: usize,
}

/// Without percentiles: the customary layout of latency tables, 79 columns wide.
const WIDE: Widths = Widths { key: 20, calls: 8, total: 16, time: 9, max: 12 };
/// With percentiles: also 79 columns wide. Times drop decimals before they get wider.
const NARROW: Widths = Widths { key: 13, calls: 6, total: 9, time: 7, max: 8 };

/// A row whose key is not drawn yet. The key is None for the row of evicted keys.
struct UndrawnRow {
    key: Option<Vec<Word>>,
    name: Option<u32>,
    cells: Vec<Cell>,
}

impl TableParts<'_> {
    /// Draws latencies, sorted by total, or by key if a column has an arrow to the next.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn latency(
        &self,
        latency: &RefCell<Latency>,
        look: &LatencyLook,
    ) -> mlua::Result<Report> {
        let (divisor, unit) = (divisor(look.unit), look.unit);
        let widths = if look.percentiles { &NARROW } else { &WIDE };
        let mut columns = self.key_columns(Some(widths.key));
        columns.push(draw::Column { decimals: None, ..column(&look.count, "calls", widths.calls) });
        let timed = |name: &str, width| draw::Column {
            shrinks: look.percentiles,
            ..column(&format!("{name}({unit})"), &format!("{name}_{unit}"), width)
        };
        columns.push(timed("total", widths.total));
        columns.extend(["min", "avg"].map(|name| timed(name, widths.time)));
        columns.extend(PERCENTILES.map(|percent| draw::Column {
            json_only: !(look.percentiles || self.shared.verbose.get()),
            spare: true,
            ..timed(&format!("p{percent}"), widths.time)
        }));
        columns.push(timed("max", widths.max));
        let rows = {
            let latency = latency.borrow();
            let cells = |timing: &Timing| latency_cells(timing, divisor);
            let drawn = |(key, timing): (&[Word], &Timing)| UndrawnRow {
                key: Some(key.to_vec()),
                name: None,
                cells: cells(timing),
            };
            let mut rows: Vec<UndrawnRow> =
                self.latencies(&latency).into_iter().map(drawn).collect();
            rows.truncate(look.top.unwrap_or(usize::MAX));
            let folded = latency.folded().map(|(_, timing)| cells(timing));
            rows.extend(folded.map(|cells| UndrawnRow { key: None, name: None, cells }));
            rows
        };
        self.table(Style::Ruled, 0, columns, rows, false, None)
    }

    /// Returns keys and timings in drawing order.
    pub(super) fn latencies<'t>(&self, latency: &'t Latency) -> Vec<(&'t [Word], &'t Timing)> {
        let strings = self.strings.borrow();
        let by_key = self.columns.iter().flatten().any(|column| column.arrow);
        let mut rows: Vec<_> = latency.rows().collect();
        rows.sort_by(|a, b| {
            let keys = || order_keys(a.0, b.0, |id| strings.get(id));
            if by_key { keys() } else { b.1.total().order(&a.1.total()).then_with(keys) }
        });
        rows
    }

    /// Draws counts and sums.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn kv(&self, kv: &RefCell<Kv>, look: &KvLook) -> mlua::Result<Report> {
        let mut columns = if look.hide_key { Vec::new() } else { self.key_columns(None) };
        let titles = look.count.iter().chain(look.sums.iter().map(|sum| &sum.title));
        columns.extend(
            titles.map(|title| draw::Column {
                decimals: None,
                ..column(title, &column_key(title), 12)
            }),
        );
        if let Some(name) = &look.name {
            columns.push(draw::Column {
                align: Align::Left,
                decimals: None,
                ..column(&name.title, &column_key(&name.title), 0)
            });
        }
        let (rows, samples) = {
            let kv = kv.borrow();
            let count = |count: u64| look.count.iter().map(move |_| Cell::Int(i128::from(count)));
            let cells =
                |row: &KvRow<'_>| count(row.count).chain(row.sums.iter().map(Sum::cell)).collect();
            let drawn = |row: KvRow<'_>| UndrawnRow {
                cells: cells(&row),
                key: Some(row.key.to_vec()),
                name: row.name,
            };
            let mut rows: Vec<UndrawnRow> = self.counts(&kv).into_iter().map(drawn).collect();
            rows.truncate(look.top.unwrap_or(usize::MAX));
            let folded = kv.folded();
            if folded.keys > 0 {
                let row = KvRow { key: &[], count: folded.count, sums: &folded.sums, name: None };
                rows.push(UndrawnRow { key: None, name: None, cells: cells(&row) });
            }
            (rows, kv.samples())
        };
        self.table(look.style, samples, columns, rows, look.hide_key, look.name.as_ref())
    }

    /// Returns the rows in drawing order.
    pub(super) fn counts<'t>(&self, kv: &'t Kv) -> Vec<KvRow<'t>> {
        let strings = self.strings.borrow();
        let mut rows: Vec<(usize, KvRow<'t>)> = kv.numbered_rows().collect();
        rows.sort_by(|a, b| {
            kv.order(a.0, b.0).then_with(|| order_keys(a.1.key, b.1.key, |id| strings.get(id)))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Draws one histogram per key, the one with the most values first.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn hist(&self, hist: &RefCell<Histograms>, unit: &str) -> mlua::Result<Vec<Report>> {
        let rows = {
            let hist = hist.borrow();
            let rows =
                self.hists(&hist).into_iter().map(|(key, buckets)| (Some(key.to_vec()), buckets));
            rows.chain(hist.folded().map(|(_, buckets)| (None, buckets))).collect::<Vec<_>>()
        };
        let mut texts = self.texts();
        let mut reports = Vec::new();
        for (key, buckets) in rows {
            let cells = self.key_cells(&mut texts, key.as_deref())?;
            let titles = self.columns.iter().flatten().map(|column| column_key(&column.title));
            reports.push(Report::Hist(draw::DrawnHistogram {
                name: self.name.to_owned(),
                title: self.title.unwrap_or("value").to_owned(),
                unit: unit.to_owned(),
                keys: titles.zip(cells).collect(),
                buckets,
            }));
        }
        Ok(reports)
    }

    /// Returns keys and buckets in drawing order.
    pub(super) fn hists<'t>(&self, hist: &'t Histograms) -> Vec<(&'t [Word], Vec<draw::Bucket>)> {
        let strings = self.strings.borrow();
        let mut rows: Vec<_> = hist.rows().enumerate().collect();
        rows.sort_by(|(i, a), (j, b)| {
            hist.order(*i, *j).then_with(|| order_keys(a.0, b.0, |id| strings.get(id)))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Returns a table, even without rows: the output decides whether to print the titles alone.
    fn table(
        &self,
        style: Style,
        samples: u64,
        mut columns: Vec<draw::Column>,
        rows: Vec<UndrawnRow>,
        hide_key: bool,
        name: Option<&KeyColumn>,
    ) -> mlua::Result<Report> {
        let (mut texts, mut names) = (self.texts(), HashMap::new());
        let mut drawn = Vec::with_capacity(rows.len());
        for row in rows {
            let key = row.key.as_deref();
            let mut cells = if hide_key { Vec::new() } else { self.key_cells(&mut texts, key)? };
            cells.extend(row.cells);
            match (name, key) {
                (Some(_), None) if hide_key => cells.push(Cell::Text(EVICTED.to_owned())),
                (Some(_), None) => cells.push(Cell::Empty),
                (Some(column), Some(key)) if column.draw.is_some() => {
                    let word = key.first().copied().unwrap_or(Word::ZERO);
                    cells.push(self.text(&mut names, column, word)?);
                }
                (Some(_), Some(_)) => {
                    cells.push(row.name.map_or(Cell::Empty, |id| self.plain(Word::string(id))));
                }
                (None, _) => {}
            }
            drawn.push(cells);
        }
        make_unique(&mut columns);
        Ok(Report::Table(Table {
            name: self.name.to_owned(),
            title: self.title.map(str::to_owned),
            style,
            samples,
            columns,
            rows: drawn,
        }))
    }

    /// Returns the columns of the key. `ruled` is the minimum width of the last one in a ruled
    /// table.
    fn key_columns(&self, ruled: Option<usize>) -> Vec<draw::Column> {
        let columns: Vec<&KeyColumn> = self.columns.iter().flatten().collect();
        let last = columns.len().saturating_sub(1);
        let of = |(i, key): (usize, &&KeyColumn)| {
            let least = match (ruled, i == last) {
                _ if key.arrow => ARROW_WIDTH,
                (Some(width), true) => width,
                (Some(_), false) => 4,
                (None, _) => 8,
            };
            let side = if ruled.is_some() && !key.arrow { Align::Left } else { Align::Right };
            draw::Column {
                width: key.width.unwrap_or(least.max(key.names_width)),
                align: key.align.unwrap_or(side),
                arrow: key.arrow,
                decimals: None,
                ..column(&key.title, &column_key(&key.title), 0)
            }
        };
        columns.iter().enumerate().map(of).collect()
    }
}

fn latency_cells(timing: &Timing, divisor: f64) -> Vec<Cell> {
    let mut ns = vec![timing.total().value(), timing.min(), timing.avg()];
    ns.extend(PERCENTILES.map(|percent| timing.percentile(percent)));
    ns.push(timing.max());
    let times = ns.into_iter().map(|ns| Cell::Num(ns / divisor));
    std::iter::once(Cell::Int(i128::from(timing.count()))).chain(times).collect()
}

fn divisor(unit: &str) -> f64 {
    match unit {
        "ns" => 1.0,
        "ms" => 1e6,
        "s" => 1e9,
        _ => 1e3,
    }
}
