//! `hist.log2 { column…, title=, unit=, keep=bool, metric="none" }` and `hist.linear { …, min=0,
//! step=1, max= }`: one histogram per key. `add(value, key…)`, `each()` → key…, buckets.

use super::super::{
    body::{AggregateBody, KernelTarget, PushRow},
    cells::TableParts,
    declare::{
        AggregateKind, DeclaredAggregate, NewAggregate, key_columns, present, share, value_and_keys,
    },
    interval::Interval,
    measure::{MeasuredRow, variance_column},
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use crate::{
    base::{
        report::coverage::Coverage,
        report::draw::{Bucket, DrawnHistogram, Report},
        report::metric::{Distribution, DistributionShape, MetricTable},
    },
    script::aggregate::column::{column_key, json_key},
    stat::{
        hist::{Histograms, Scale},
        strings::Marks,
        weight::EventWeight,
        word::{Word, order_keys},
    },
};
use mlua::{IntoLua, Value};

pub(super) const LOG2: AggregateKind = AggregateKind {
    name: "hist.log2",
    is_drawn: true,
    estimates: true,
    declare: log2,
    prelude: None,
};
pub(super) const LINEAR: AggregateKind = AggregateKind {
    name: "hist.linear",
    is_drawn: true,
    estimates: true,
    declare: linear,
    prelude: None,
};

/// Size limit in bytes.
const BYTES: usize = 4 << 20;

fn log2(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new(LOG2.name, spec, &["title", "unit", "keep", "metric"])?;
    declare(LOG2.name, &spec, |_| Ok(Scale::Log2), shared)
}

fn linear(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let known = ["title", "unit", "keep", "metric", "min", "step", "max"];
    let spec = AggregateSpec::new(LINEAR.name, spec, &known)?;
    declare(LINEAR.name, &spec, linear_scale, shared)
}

fn linear_scale(spec: &AggregateSpec<'_>) -> Checked<Scale> {
    let max = spec.integer("max")?.ok_or("hist.linear needs `max`, the end of its last bucket")?;
    let (min, step) = (spec.integer("min")?.unwrap_or(0), spec.integer("step")?.unwrap_or(1));
    Scale::linear(min, step, max).map_err(|why| format!("hist.linear: {why}"))
}

fn declare(
    kind: &str,
    spec: &AggregateSpec<'_>,
    scale: impl FnOnce(&AggregateSpec<'_>) -> Checked<Scale>,
    shared: &AggregateSettings,
) -> Checked<NewAggregate> {
    let columns = key_columns(kind, spec, 1)?;
    let scale = scale(spec)?;
    let title = spec.text("title")?;
    let unit = spec.text("unit")?.unwrap_or_default();
    let is_measured = spec.choice("metric", &["none"])?.is_none();
    let live = share(
        Histograms::new(scale, present(&columns), BYTES)
            .with_budget(&shared.budget)
            .with_weight(EventWeight::of_aggregate(&shared.weight)),
    );
    Ok(NewAggregate::new(
        &live,
        value_and_keys("value", &columns),
        DeclaredAggregate {
            name: json_key(title.as_deref().unwrap_or_default(), "hist"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Box::new(HistTable { of: Interval::new(live.clone()), unit, is_measured }),
        },
    ))
}

/// Histograms by key.
struct HistTable {
    of: Interval<Histograms>,
    unit: String,
    /// Whether it becomes a metric: not if another table has the same values.
    is_measured: bool,
}

impl AggregateBody for HistTable {
    fn mark(&self, marks: &mut Marks) {
        self.of.mark(marks);
    }

    fn count(&self, counts: &mut Coverage) {
        self.of.each(|hist| {
            counts.evicted += hist.losses().evicted;
            counts.disordered += hist.losses().disordered;
        });
    }

    /// Draws one histogram per key, the one with the most values first.
    fn draw(&self, parts: &TableParts<'_>, total: bool) -> mlua::Result<Vec<Report>> {
        self.of.draw(total, |hist| {
            let rows = {
                let hist = hist.borrow();
                let errors =
                    |row, buckets: &[Bucket]| hist.errors(row, buckets).unwrap_or_default();
                let keyed = |(at, key, buckets): (_, &[Word], Vec<Bucket>)| {
                    (Some(key.to_vec()), errors(Some(at), &buckets), buckets)
                };
                let rows = sorted(&hist, parts).into_iter().map(keyed);
                let folded = hist.folded();
                let folded = folded.map(|(_, buckets)| (None, errors(None, &buckets), buckets));
                rows.chain(folded).collect::<Vec<_>>()
            };
            let mut texts = parts.texts();
            let mut reports = Vec::new();
            for (key, errors, buckets) in rows {
                let cells = parts.key_cells(&mut texts, key.as_deref())?;
                let titles = parts.columns.iter().flatten().map(|column| column_key(&column.title));
                reports.push(Report::Hist(DrawnHistogram {
                    name: parts.name.to_owned(),
                    title: parts.title.unwrap_or("value").to_owned(),
                    unit: self.unit.clone(),
                    keys: titles.zip(cells).collect(),
                    buckets,
                    errors,
                }));
            }
            Ok(reports)
        })
    }

    fn measure(&self, parts: &TableParts<'_>) -> mlua::Result<Option<MetricTable>> {
        if !self.is_measured {
            return Ok(None);
        }
        let row = |key: Option<&[Word]>, buckets: Vec<Bucket>, sum, variance| MeasuredRow {
            key: key.map(<[Word]>::to_vec),
            values: Option::into_iter(variance).map(Some).collect(),
            distribution: Some(distribution(&buckets, sum)),
        };
        let (rows, most, is_estimated): (Vec<MeasuredRow>, usize, bool) = {
            let hist = self.of.live.borrow();
            let (sums, folded_sum) = hist.sums();
            let variances = hist.variances();
            let variance = |at: usize| variances.as_ref()?.0.get(at).copied();
            let rows = hist.rows().zip(sums).enumerate();
            let rows =
                rows.map(|(at, ((key, buckets), sum))| row(Some(key), buckets, *sum, variance(at)));
            let of_folded = variances.as_ref().map(|(_, folded)| *folded);
            let folded = hist.folded();
            let folded = folded.map(|(_, buckets)| row(None, buckets, folded_sum, of_folded));
            (rows.chain(folded).collect(), hist.buckets(), variances.is_some())
        };
        let shape = DistributionShape::Buckets { most, unit: self.unit.clone() };
        parts
            .measured(variance_column(is_estimated), Some(("value".to_owned(), shape)), rows)
            .map(Some)
    }

    fn rows(&self, parts: &TableParts<'_>, push: &mut PushRow<'_>) -> mlua::Result<()> {
        let (hist, lua) = (self.of.live.borrow(), parts.lua);
        for (_, key, buckets) in sorted(&hist, parts) {
            let list = buckets.into_iter().map(|bucket| {
                let bounds = [bucket.low as f64, bucket.high as f64, bucket.count as f64];
                lua.create_sequence_from(bounds)
            });
            let list = lua.create_sequence_from(list.collect::<mlua::Result<Vec<_>>>()?)?;
            push(key, vec![list.into_lua(lua)?])?;
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
        let is_log2 = self.of.live.borrow().is_log2();
        is_log2.then_some(KernelTarget::Histograms(&self.of.live))
    }
}

/// Returns the values of buckets as a distribution, whose last bucket is open.
fn distribution(buckets: &[Bucket], sum: f64) -> Distribution {
    let bound = |high| if high == i64::MAX { f64::INFINITY } else { high as f64 };
    let filled = buckets.iter().filter(|bucket| bucket.count > 0);
    Distribution {
        count: buckets.iter().map(|bucket| bucket.count).sum(),
        sum,
        buckets: filled.map(|bucket| (bound(bucket.high), bucket.count)).collect(),
    }
}

/// Returns row numbers, keys and buckets in drawing order.
fn sorted<'t>(
    hist: &'t Histograms,
    parts: &TableParts<'_>,
) -> Vec<(usize, &'t [Word], Vec<Bucket>)> {
    let strings = parts.strings.borrow();
    let mut rows: Vec<_> = hist.rows().enumerate().collect();
    rows.sort_by(|(i, a), (j, b)| {
        hist.order(*i, *j).then_with(|| order_keys(a.0, b.0, |id| strings.get(id)))
    });
    rows.into_iter().map(|(at, (key, buckets))| (at, key, buckets)).collect()
}
