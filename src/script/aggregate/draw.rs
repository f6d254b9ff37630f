//! Aggregates as parts of a report: which columns, how wide, in which order.
//!
//! Rows are copied out first and Lua is asked for text only then, once per distinct value: a script's
//! function may itself add to an aggregate.

use super::super::column::{column, column_key, make_unique};
use super::super::table;
use super::Shared;
use super::spec::{Column, ReadsAs, SumColumn};
use crate::{
    base::{
        draw::{self, Align, Cell, Report, Style, Table},
        number::{IntegerType, Number, hex},
    },
    stat::{
        hist::Hist,
        kv::{Kv, Row},
        latency::{Latency, Timing},
        strings::Strings,
        sum::Sum,
        word::{Part, Word, order_keys},
    },
};
use mlua::{Lua, Value};
use std::{cell::RefCell, collections::HashMap};

/// How latencies are drawn.
pub(super) struct LatencyLook {
    pub(super) unit: &'static str,
    /// Title of the count.
    pub(super) count: String,
    pub(super) top: Option<usize>,
    pub(super) percentiles: bool,
}

/// How counts and sums are drawn.
pub(super) struct KvLook {
    /// Title of the count, where it is shown.
    pub(super) count: Option<String>,
    pub(super) sums: Vec<SumColumn>,
    pub(super) top: Option<usize>,
    pub(super) style: Style,
    pub(super) hide_key: bool,
    pub(super) name: Option<Column>,
    /// Whether it was declared as a flame graph: the sum weighs, whatever else is asked for.
    pub(super) flame: bool,
}

/// What every table has.
pub(super) struct Frame<'a> {
    pub(super) lua: &'a Lua,
    pub(super) strings: &'a RefCell<Strings>,
    pub(super) shared: &'a Shared,
    pub(super) name: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) columns: &'a [Option<Column>],
}

/// Percentiles of a latency table, in order.
pub(super) const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// What stands for the keys that a bound folded.
const EVICTED: &str = "(evicted)";

/// Least width of a column with an arrow: names of tracepoints.
const ARROW_WIDTH: usize = 19;

/// Least widths of the columns of a latency table.
struct Widths {
    key: usize,
    calls: usize,
    total: usize,
    time: usize,
    max: usize,
}

/// Without percentiles: the layout that is known from elsewhere, 79 wide.
const WIDE: Widths = Widths { key: 20, calls: 8, total: 16, time: 9, max: 12 };
/// With them: 79 wide, too. Times give up decimals before they need more.
const NARROW: Widths = Widths { key: 13, calls: 6, total: 9, time: 7, max: 8 };

/// A row whose key is not drawn yet; None for what was folded.
struct Drawn {
    key: Option<Vec<Word>>,
    name: Option<u32>,
    cells: Vec<Cell>,
}

impl Frame<'_> {
    /// Latencies by total, or by key where an arrow leads from one column to the next.
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
            let drawn = |(key, timing): (&[Word], &Timing)| Drawn {
                key: Some(key.to_vec()),
                name: None,
                cells: cells(timing),
            };
            let mut rows: Vec<Drawn> = self.latencies(&latency).into_iter().map(drawn).collect();
            rows.truncate(look.top.unwrap_or(usize::MAX));
            let folded = latency.folded().map(|(_, timing)| cells(timing));
            rows.extend(folded.map(|cells| Drawn { key: None, name: None, cells }));
            rows
        };
        self.table(Style::Ruled, 0, columns, rows, false, None)
    }

    /// Keys and timings in the order they are drawn.
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

    /// Counts and sums.
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
                |row: &Row<'_>| count(row.count).chain(row.sums.iter().map(Sum::cell)).collect();
            let drawn = |row: Row<'_>| Drawn {
                cells: cells(&row),
                key: Some(row.key.to_vec()),
                name: row.name,
            };
            let mut rows: Vec<Drawn> = self.counts(&kv).into_iter().map(drawn).collect();
            rows.truncate(look.top.unwrap_or(usize::MAX));
            let folded = kv.folded();
            if folded.keys > 0 {
                let row = Row { key: &[], count: folded.count, sums: &folded.sums, name: None };
                rows.push(Drawn { key: None, name: None, cells: cells(&row) });
            }
            (rows, kv.samples())
        };
        self.table(look.style, samples, columns, rows, look.hide_key, look.name.as_ref())
    }

    /// Rows in the order they are drawn.
    pub(super) fn counts<'t>(&self, kv: &'t Kv) -> Vec<Row<'t>> {
        let strings = self.strings.borrow();
        let mut rows: Vec<(usize, Row<'t>)> = kv.numbered_rows().collect();
        rows.sort_by(|a, b| {
            kv.order(a.0, b.0).then_with(|| order_keys(a.1.key, b.1.key, |id| strings.get(id)))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// A histogram per key, the fullest first.
    pub(super) fn hist(&self, hist: &RefCell<Hist>, unit: &str) -> mlua::Result<Vec<Report>> {
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
            reports.push(Report::Hist(draw::Hist {
                name: self.name.to_owned(),
                title: self.title.unwrap_or("value").to_owned(),
                unit: unit.to_owned(),
                keys: titles.zip(cells).collect(),
                buckets,
            }));
        }
        Ok(reports)
    }

    /// Keys and buckets in the order they are drawn.
    pub(super) fn hists<'t>(&self, hist: &'t Hist) -> Vec<(&'t [Word], Vec<draw::Bucket>)> {
        let strings = self.strings.borrow();
        let mut rows: Vec<_> = hist.rows().enumerate().collect();
        rows.sort_by(|(i, a), (j, b)| {
            hist.order(*i, *j).then_with(|| order_keys(a.0, b.0, |id| strings.get(id)))
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// A table, also one without rows: whoever draws it decides whether its titles are worth a line.
    fn table(
        &self,
        style: Style,
        samples: u64,
        mut columns: Vec<draw::Column>,
        rows: Vec<Drawn>,
        hide_key: bool,
        name: Option<&Column>,
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

    /// The columns of the key; `ruled` is the least width of the last one in a ruled table.
    fn key_columns(&self, ruled: Option<usize>) -> Vec<draw::Column> {
        let columns: Vec<&Column> = self.columns.iter().flatten().collect();
        let last = columns.len().saturating_sub(1);
        let of = |(i, key): (usize, &&Column)| {
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

    fn texts(&self) -> Vec<HashMap<Word, Cell>> {
        vec![HashMap::new(); self.columns.len()]
    }

    /// The cells of a key; of a folded row, its name in the first.
    fn key_cells(
        &self,
        texts: &mut [HashMap<Word, Cell>],
        key: Option<&[Word]>,
    ) -> mlua::Result<Vec<Cell>> {
        let columns = self.columns.iter().flatten();
        let Some(key) = key else {
            let first = std::iter::once(Cell::Text(EVICTED.to_owned()));
            return Ok(first.chain(std::iter::repeat(Cell::Empty)).take(columns.count()).collect());
        };
        let cell = |((column, word), texts)| self.text(texts, column, word);
        columns.zip(key.iter().copied()).zip(texts).map(cell).collect()
    }

    pub(super) fn text(
        &self,
        texts: &mut HashMap<Word, Cell>,
        column: &Column,
        word: Word,
    ) -> mlua::Result<Cell> {
        if let (Some(style), Part::Number(id)) = (&column.stack, word.part()) {
            return Ok(self.stack(texts, style, word, id));
        }
        let Some(draw) = column.draw.as_ref().filter(|_| !self.shared.plain.get()) else {
            let of = column.reads_as.as_ref().map(ReadsAs::integer_type).transpose()?.flatten();
            let integer = of.and_then(|of| self.integer(of, word));
            return Ok(integer.unwrap_or_else(|| self.plain(word)));
        };
        if let Some(cell) = texts.get(&word) {
            return Ok(cell.clone());
        }
        let cell = table::cell(draw.call::<Value>(self.value(word)?)?);
        texts.insert(word, cell.clone());
        Ok(cell)
    }

    /// A 64-bit integer of that type. It came as hexadecimal text where no double holds it; where
    /// one does it came as a number, so other such text, a task's name perhaps, stays text.
    fn integer(&self, of: IntegerType, word: Word) -> Option<Cell> {
        let exact = |value: i128| value == (value as f64) as i128;
        let value = match word.part() {
            Part::Number(value) if of == IntegerType::Mixed => return Some(value.into()),
            Part::Number(value) => of.value(whole(value)?.cast_unsigned()),
            Part::String(id) => {
                let strings = self.strings.borrow();
                let text = strings.get(id);
                if !text.strip_prefix(b"-").unwrap_or(text).starts_with(b"0x") {
                    return None;
                }
                let value = Number::parse(text)?.to::<i128>()?;
                match u64::try_from(value) {
                    _ if of == IntegerType::Mixed => value,
                    Ok(bits) if !exact(bits.cast_signed().into()) => of.value(bits),
                    _ => return None,
                }
            }
        };
        Some(match of {
            IntegerType::Pointer => Cell::Text(hex(Number::Int(value))),
            _ => Cell::Int(value),
        })
    }

    fn plain(&self, word: Word) -> Cell {
        match word.part() {
            Part::Number(value) => value.into(),
            Part::String(id) => {
                Cell::Text(String::from_utf8_lossy(self.strings.borrow().get(id)).into_owned())
            }
        }
    }

    /// A word as Lua knows it.
    pub(super) fn value(&self, word: Word) -> mlua::Result<Value> {
        Ok(match word.part() {
            Part::Number(value) => Value::Number(value),
            Part::String(id) => {
                Value::String(self.lua.create_string(self.strings.borrow().get(id))?)
            }
        })
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

/// The integer that a double is, if it is one of 64 bits.
fn whole(value: f64) -> Option<i64> {
    let is_whole = value.fract() == 0.0 && (-I64_RANGE..I64_RANGE).contains(&value);
    is_whole.then_some(value as i64)
}

/// From here on a double is no `i64`.
const I64_RANGE: f64 = 9_223_372_036_854_775_808.0;
