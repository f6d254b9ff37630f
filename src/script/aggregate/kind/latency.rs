//! `latency { column…, unit="us", count=, title=, top=n, percentiles=bool, keep=bool }`: durations
//! by key. `add(ns, key…)`, `each()` → key…, `{ calls total … }`.

use super::super::{
    body::{AggregateBody, KernelTarget, PushRow},
    cells::TableParts,
    declare::{
        AggregateKind, DeclaredAggregate, KindPrelude, NewAggregate, key_columns, named_leaves,
        present, share, value_and_keys,
    },
    draw::{RowShape, UndrawnRows, UndrawnTable},
    interval::Interval,
    measure::{MeasuredRow, variance_column},
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use crate::{
    base::{
        report::cell::Cell,
        report::coverage::Coverage,
        report::draw::{Column, Report, Style},
        report::metric::{Distribution, DistributionShape, MetricTable},
    },
    script::aggregate::column::{column, error_column, json_key},
    stat::{
        latency::{Latency, Timing},
        leaf::SharedAggregate,
        strings::Marks,
        weight::EventWeight,
        word::{Word, order_keys},
    },
};
use mlua::{IntoLua, Lua, Value};
use std::{cell::RefCell, rc::Rc};

pub(super) const KIND: AggregateKind = AggregateKind {
    name: "latency",
    is_drawn: true,
    estimates: true,
    declare,
    prelude: Some(PRELUDE),
};

const PRELUDE: KindPrelude = KindPrelude {
    source: include_str!("../../prelude/latency.lua"),
    leaves: |lua| named_leaves(lua, []),
};

/// Size limit in bytes: a key has a large histogram.
const BYTES: usize = 16 << 20;

/// Percentiles of a latency table, in order.
const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

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

fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let known = ["unit", "count", "title", "top", "percentiles", "keep"];
    let spec = AggregateSpec::new("latency", spec, &known)?;
    let columns = key_columns("latency", &spec, 1)?;
    let look = LatencyLook::read(&spec)?;
    let title = spec.text("title")?;
    let live = new_latency(present(&columns), shared);
    Ok(NewAggregate::new(
        &live,
        value_and_keys("ns", &columns),
        DeclaredAggregate {
            name: json_key(title.as_deref().unwrap_or_default(), "latency"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Box::new(LatencyTable::new(live.clone(), look)),
        },
    ))
}

/// Returns an empty table of latencies with keys of this many words.
pub(super) fn new_latency(keys: usize, shared: &AggregateSettings) -> Rc<RefCell<Latency>> {
    let weight = EventWeight::of_aggregate(&shared.weight);
    share(Latency::new(keys, BYTES).with_budget(&shared.budget).with_weight(weight))
}

/// Options for drawing latencies.
pub(super) struct LatencyLook {
    unit: &'static str,
    /// Title of the count.
    count: String,
    top: Option<usize>,
    percentiles: bool,
}

impl LatencyLook {
    /// Reads them.
    ///
    /// # Errors
    /// An option is malformed.
    pub(super) fn read(spec: &AggregateSpec<'_>) -> Checked<LatencyLook> {
        Ok(LatencyLook {
            unit: spec.choice("unit", &["ns", "us", "ms", "s", "none"])?.unwrap_or("us"),
            count: spec.text("count")?.unwrap_or_else(|| "calls".to_owned()),
            top: spec.top()?,
            percentiles: spec.flag("percentiles", true),
        })
    }

    fn columns(&self, parts: &TableParts<'_>, is_estimated: bool) -> Vec<Column> {
        let unit = self.unit;
        let widths = if self.percentiles { &NARROW } else { &WIDE };
        let mut columns = parts.key_columns(Some(widths.key));
        columns.push(Column { decimals: None, ..column(&self.count, "calls", widths.calls) });
        let timed = |name: &str, width| Column {
            shrinks: self.percentiles,
            ..match unit {
                "none" => column(name, name, width),
                unit => column(&format!("{name}({unit})"), &format!("{name}_{unit}"), width),
            }
        };
        columns.extend(is_estimated.then(|| error_column(&self.count, false)));
        columns.push(timed("total", widths.total));
        let total_error = || Column { title: "±".to_owned(), ..timed("total_error", 6) };
        columns.extend(is_estimated.then(total_error));
        columns.push(Column { spare: true, ..timed("min", widths.time) });
        columns.push(timed("avg", widths.time));
        columns.extend(PERCENTILES.map(|percent| Column {
            json_only: !(self.percentiles || parts.shared.verbose.get()),
            spare: true,
            ..timed(&format!("p{percent}"), widths.time)
        }));
        columns.push(timed("max", widths.max));
        columns
    }
}

/// Latencies by key.
pub(super) struct LatencyTable {
    of: Interval<Latency>,
    look: LatencyLook,
}

impl LatencyTable {
    pub(super) fn new(live: SharedAggregate<Latency>, look: LatencyLook) -> LatencyTable {
        LatencyTable { of: Interval::new(live), look }
    }
}

impl AggregateBody for LatencyTable {
    fn mark(&self, marks: &mut Marks) {
        self.of.mark(marks);
    }

    fn count(&self, counts: &mut Coverage) {
        self.of.each(|latency| {
            counts.evicted += latency.losses().evicted;
            counts.disordered += latency.losses().disordered;
            counts.clamped += latency.losses().clamped;
        });
    }

    fn draw(&self, parts: &TableParts<'_>, total: bool) -> mlua::Result<Vec<Report>> {
        self.of.draw(total, |latency| {
            let columns = self.look.columns(parts, latency.borrow().is_estimated());
            let (rows, hidden) = undrawn(&latency.borrow(), &self.look, parts, columns.len());
            let (style, samples) = (Style::Ruled, 0);
            let table = UndrawnTable { style, samples, columns, rows, hidden, name: None };
            Ok(vec![parts.table(table)?])
        })
    }

    /// Returns all rows, those beyond `top` included.
    fn measure(&self, parts: &TableParts<'_>) -> mlua::Result<Option<MetricTable>> {
        let is_estimated = self.of.live.borrow().is_estimated();
        let row = |key: Option<&[Word]>, timing: &Timing, variance: Option<f64>| MeasuredRow {
            key: key.map(<[Word]>::to_vec),
            distribution: Some(Distribution {
                count: timing.count(),
                sum: timing.total().value(),
                buckets: timing.buckets().collect(),
            }),
            values: variance.into_iter().map(Some).collect(),
        };
        let rows: Vec<MeasuredRow> = {
            let latency = self.of.live.borrow();
            let row = |key, timing| row(key, timing, latency.variance(timing));
            let rows = latency.rows().map(|(key, timing)| row(Some(key), timing));
            rows.chain(latency.folded().map(|(_, timing)| row(None, timing))).collect()
        };
        let shape = match self.look.unit {
            "none" => ("value".to_owned(), DistributionShape::Values),
            _ => ("duration".to_owned(), DistributionShape::Durations),
        };
        parts.measured(variance_column(is_estimated), Some(shape), rows).map(Some)
    }

    fn rows(&self, parts: &TableParts<'_>, push: &mut PushRow<'_>) -> mlua::Result<()> {
        let latency = self.of.live.borrow();
        for (key, timing) in sorted(&latency, parts) {
            push(key, vec![timing_table(parts.lua, timing)?])?;
        }
        Ok(())
    }

    fn restart(&self, totals: bool) {
        self.of.restart(totals);
    }

    fn has_total(&self) -> bool {
        self.of.has_total()
    }

    fn kernel_target(&self) -> Option<KernelTarget<'_>> {
        Some(KernelTarget::Delays(&self.of.live))
    }
}

/// Returns the rows, and the number of those beyond `top`.
fn undrawn(
    latency: &Latency,
    look: &LatencyLook,
    parts: &TableParts<'_>,
    columns: usize,
) -> (UndrawnRows, u64) {
    let cells = |timing: &Timing| timing_cells(timing, divisor(look.unit), latency.errors(timing));
    let all = sorted(latency, parts);
    let most = look.top.unwrap_or(usize::MAX).min(all.len());
    let mut rows = UndrawnRows::new(parts, RowShape::default(), columns, most + 1);
    for (key, timing) in all.iter().take(most) {
        rows.push(key, None, cells(timing));
    }
    if let Some((_, timing)) = latency.folded() {
        rows.push_evicted(cells(timing));
    }
    (rows, (all.len() - most) as u64)
}

/// Returns keys and timings, sorted by total, or by key if a column has an arrow to the next.
fn sorted<'t>(latency: &'t Latency, parts: &TableParts<'_>) -> Vec<(&'t [Word], &'t Timing)> {
    let strings = parts.strings.borrow();
    let by_key = parts.columns.iter().flatten().any(|column| column.arrow);
    let mut rows: Vec<_> = latency.rows().collect();
    rows.sort_by(|a, b| {
        let keys = || order_keys(a.0, b.0, |id| strings.get(id));
        if by_key { keys() } else { b.1.total().order(&a.1.total()).then_with(keys) }
    });
    rows
}

/// Returns the cells of a row; `errors` are those of the count and of the total.
fn timing_cells(timing: &Timing, divisor: f64, errors: Option<(f64, f64)>) -> Vec<Cell> {
    let mut ns = vec![timing.total().value()];
    ns.extend(errors.map(|(_, of_total)| of_total));
    ns.extend([timing.min(), timing.avg()]);
    ns.extend(PERCENTILES.map(|percent| timing.percentile(percent)));
    ns.push(timing.max());
    let times = ns.into_iter().map(|ns| Cell::Num(ns / divisor));
    let count = [Cell::whole(i128::from(timing.count()))];
    let error = errors.map(|(of_count, _)| Cell::Num(of_count));
    count.into_iter().chain(error).chain(times).collect()
}

fn divisor(unit: &str) -> f64 {
    match unit {
        "ns" | "none" => 1.0,
        "ms" => 1e6,
        "s" => 1e9,
        _ => 1e3,
    }
}

fn timing_table(lua: &Lua, timing: &Timing) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("calls", timing.count() as f64)?;
    table.raw_set("total", timing.total().value())?;
    table.raw_set("min", timing.min())?;
    table.raw_set("avg", timing.avg())?;
    table.raw_set("max", timing.max())?;
    for percent in PERCENTILES {
        table.raw_set(format!("p{percent}"), timing.percentile(percent))?;
    }
    table.into_lua(lua)
}
