//! Families and their series, over all intervals.

use super::exponential::{self, ExponentialBuckets};
use super::labels::{Labels, RowLabels, with_row};
use super::names::{MetricUnit, family_name, identifier, split_unit, unit_of};
use crate::base::report::coverage::Coverage;
use crate::base::report::metric::{Distribution, DistributionShape, MetricKind, MetricTable};
use hashbrown::{DefaultHashBuilder, HashMap};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Default limit of the series of a family.
pub const SERIES: usize = 1000;

/// Maximum number of families: tables and columns are few, but scripts can rename them.
const FAMILIES: usize = 1000;

/// Buckets of a histogram that count as one series. A histogram with more takes the place of
/// several.
const BUCKETS: usize = 64;

/// Families of all monitors together.
const TAKEN: [&str; 2] = ["perilune_monitor_up", "perilune_build"];

/// Help of the family that shows which monitors are whole.
pub(in crate::output) const UP_HELP: &str =
    "1 if every handler and callback of the monitor is on, 0 after one has failed";

/// Help of the number of open starts in the coverage of a monitor.
pub(in crate::output) const OPEN_HELP: &str = "Starts that are open now";

/// The measurements of one interval of one monitor.
#[derive(Clone, Debug)]
pub struct MetricInterval {
    /// The monitor.
    pub monitor: Arc<str>,
    /// Its tables.
    pub tables: Vec<MetricTable>,
    /// Coverage of the run so far.
    pub coverage: Coverage,
    /// Whether all its handlers and callbacks are on.
    pub is_up: bool,
    /// The end of the interval, in nanoseconds since the Unix epoch.
    pub wall_ns: i64,
}

/// All families.
#[derive(Debug)]
pub struct MetricStore {
    limit: usize,
    pub(super) families: IndexMap<String, MetricFamily>,
    pub(super) monitors: BTreeMap<Arc<str>, MonitorCounts>,
    /// Intervals that could not be handed over, of all monitors.
    pub(super) dropped: u64,
}

/// Counts of a monitor beside its families.
#[derive(Debug, Default)]
pub(super) struct MonitorCounts {
    pub(super) coverage: Coverage,
    pub(super) is_up: bool,
    pub(super) intervals: u64,
    pub(super) overflow: u64,
    pub(super) negative: u64,
    pub(super) families_refused: u64,
}

/// One family.
#[derive(Debug)]
pub(super) struct MetricFamily {
    pub(super) help: String,
    pub(super) unit: &'static str,
    pub(super) shape: FamilyShape,
    pub(super) series: IndexMap<Labels, SeriesValue, DefaultHashBuilder>,
    /// The monitor that it belongs to.
    pub(super) monitor: Arc<str>,
    /// The table and the column that it is made of.
    table: String,
}

/// The kind of the series of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FamilyShape {
    Counter,
    Gauge,
    /// A histogram with exponential buckets, and the powers of two of its classic ones.
    Exponential((i32, i32)),
    /// A histogram with buckets of its own.
    Buckets,
}

/// The value of a series.
#[derive(Debug)]
pub(super) enum SeriesValue {
    Number(f64),
    Exponential {
        count: u64,
        sum: f64,
        buckets: ExponentialBuckets,
    },
    /// Counts by the bits of the highest value of a bucket.
    Buckets {
        count: u64,
        sum: f64,
        buckets: BTreeMap<Bound, u64>,
    },
}

/// The highest value of a bucket, ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound(pub(super) f64);

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Bound) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Bound) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The part of a row for one family: a number, or a distribution.
#[derive(Clone, Copy)]
enum Measured<'a> {
    Number(f64),
    Distribution(&'a Distribution, &'a DistributionShape),
}

impl MetricStore {
    /// Returns a store without families, with a limit of series for each family.
    pub fn new(limit: usize) -> MetricStore {
        MetricStore { limit, families: IndexMap::new(), monitors: BTreeMap::new(), dropped: 0 }
    }

    /// Sets how many intervals could not be handed over.
    pub fn set_dropped(&mut self, dropped: u64) {
        self.dropped = dropped;
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: &MetricInterval) {
        let counts = self.monitors.entry(interval.monitor.clone()).or_default();
        counts.coverage = interval.coverage;
        counts.is_up = interval.is_up;
        counts.intervals += 1;
        // A gauge has the value of the last interval: a table without a row in it has none.
        let of_monitor = |family: &&mut MetricFamily| family.monitor == interval.monitor;
        let gauges = self.families.values_mut().filter(of_monitor);
        for family in gauges.filter(|family| family.shape == FamilyShape::Gauge) {
            family.series.clear();
        }
        for table in &interval.tables {
            self.add_table(&interval.monitor, table);
        }
    }

    fn add_table(&mut self, monitor: &Arc<str>, table: &MetricTable) {
        let labels = RowLabels::new(&table.labels, &table.rows);
        let rows = || labels.iter().zip(&table.rows);
        for (at, (key, kind)) in table.columns.iter().enumerate() {
            let shape = match kind {
                MetricKind::Counter => FamilyShape::Counter,
                _ => FamilyShape::Gauge,
            };
            let (column, unit) = split_unit(key);
            let Some(mut adder) = self.adder(monitor, table, &column, unit, shape) else {
                continue;
            };
            let numbers_rows = !table.adds_up && shape == FamilyShape::Gauge;
            let mut repeated: HashMap<&str, u32> = HashMap::new();
            for (text, row) in rows() {
                let Some(value) = row.values.get(at).copied().flatten() else { continue };
                let value = Measured::Number(value / unit.divisor);
                let times = if numbers_rows { repeated.entry(text).or_insert(0) } else { &mut 0 };
                *times += 1;
                match *times {
                    1 => adder.add(text, labels.other(), value),
                    times => adder.add(&with_row(text, times), labels.other(), value),
                }
            }
        }
        let Some((column, shape)) = &table.distribution else { return };
        let (unit, family_shape) = match shape {
            DistributionShape::Durations => {
                (unit_of("ns"), FamilyShape::Exponential(exponential::SECONDS))
            }
            DistributionShape::Values => {
                (unit_of(""), FamilyShape::Exponential(exponential::PLAIN))
            }
            DistributionShape::Buckets { unit, .. } => (unit_of(unit), FamilyShape::Buckets),
        };
        let adder = self.adder(monitor, table, column, unit, family_shape);
        let Some(mut adder) = adder else { return };
        for (text, row) in rows() {
            if let Some(distribution) = &row.distribution {
                let value = Measured::Distribution(distribution, shape);
                adder.add(text, labels.other(), value);
            }
        }
    }

    /// Returns what adds rows to the family of a column.
    fn adder(
        &mut self,
        monitor: &Arc<str>,
        table: &MetricTable,
        column: &str,
        unit: MetricUnit,
        shape: FamilyShape,
    ) -> Option<SeriesAdder<'_>> {
        let name = self.family(monitor, table, column, unit, shape)?;
        let (family, counts) = (self.families.get_mut(&name)?, self.monitors.get_mut(monitor)?);
        Some(SeriesAdder { family, counts, limit: self.limit })
    }

    /// Returns the name of a family with its unit, and adds it if it is new. A name that another
    /// table or shape has gets a number.
    fn family(
        &mut self,
        monitor: &Arc<str>,
        table: &MetricTable,
        column: &str,
        unit: MetricUnit,
        shape: FamilyShape,
    ) -> Option<String> {
        let mut base = family_name(monitor, &table.name, column);
        if !unit.name.is_empty() && !base.ends_with(&format!("_{}", unit.name)) {
            base = format!("{base}_{}", unit.name);
        }
        // The name of a counter gets this ending.
        let base = base.strip_suffix("_total").unwrap_or(&base).to_owned();
        let owner = format!("{}\0{column}", table.name);
        for number in 1..=FAMILIES {
            let name = if number == 1 { base.clone() } else { format!("{base}_{number}") };
            match self.families.get(&name) {
                Some(family)
                    if family.table == owner
                        && family.monitor == *monitor
                        && family.shape == shape =>
                {
                    return Some(name);
                }
                Some(_) => continue,
                None if TAKEN.contains(&name.as_str()) => continue,
                None if self.families.len() >= FAMILIES => break,
                None => {}
            }
            let help = help(monitor, &table.name, column, shape);
            let family = MetricFamily {
                help,
                unit: unit.name,
                shape,
                series: IndexMap::default(),
                monitor: monitor.clone(),
                table: owner,
            };
            self.families.insert(name.clone(), family);
            return Some(name);
        }
        self.monitors.entry(monitor.clone()).or_default().families_refused += 1;
        None
    }
}

/// Adds rows to the series of a family.
struct SeriesAdder<'a> {
    family: &'a mut MetricFamily,
    /// Counts of the family's monitor.
    counts: &'a mut MonitorCounts,
    /// Maximum number of series.
    limit: usize,
}

impl SeriesAdder<'_> {
    /// Adds to the series with these labels, or to that of `other` if it would exceed the limit.
    fn add(&mut self, labels: &str, other: &str, value: Measured<'_>) {
        let shape = self.family.shape;
        if let Measured::Number(number) = &value
            && shape == FamilyShape::Counter
            && (!number.is_finite() || *number < 0.0)
        {
            self.counts.negative += 1;
            return;
        }
        let divisor = unit_of_shape(&value);
        let series = &mut self.family.series;
        if let Some(series) = series.get_mut(labels) {
            series.add(&value, divisor);
            return;
        }
        let limit = match &value {
            Measured::Distribution(_, DistributionShape::Buckets { most, .. }) => {
                (self.limit * BUCKETS / (*most).max(BUCKETS)).max(1)
            }
            _ => self.limit,
        };
        let mut labels = labels;
        // One place is for what exceeds the limit.
        if series.len() + 1 >= limit {
            self.counts.overflow += 1;
            if shape == FamilyShape::Gauge {
                return;
            }
            labels = other;
        }
        let series = series.entry(Labels::new(labels)).or_insert_with(|| shape.empty());
        series.add(&value, divisor);
    }
}

/// Returns the divisor of the values of a distribution.
fn unit_of_shape(value: &Measured<'_>) -> f64 {
    match value {
        Measured::Distribution(_, DistributionShape::Durations) => unit_of("ns").divisor,
        Measured::Distribution(_, DistributionShape::Buckets { unit, .. }) => unit_of(unit).divisor,
        _ => 1.0,
    }
}

impl MetricFamily {
    /// Returns the bounds of the buckets of all series: each has all of them, so that they can be
    /// added.
    pub(super) fn bounds(&self) -> Vec<f64> {
        let mut bounds: Vec<f64> = Vec::new();
        for value in self.series.values() {
            if let SeriesValue::Buckets { buckets, .. } = value {
                bounds.extend(buckets.keys().map(|bound| bound.0));
            }
        }
        bounds.push(f64::INFINITY);
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        bounds
    }
}

impl FamilyShape {
    fn empty(self) -> SeriesValue {
        match self {
            FamilyShape::Counter | FamilyShape::Gauge => SeriesValue::Number(0.0),
            FamilyShape::Exponential(_) => {
                SeriesValue::Exponential { count: 0, sum: 0.0, buckets: Default::default() }
            }
            FamilyShape::Buckets => {
                SeriesValue::Buckets { count: 0, sum: 0.0, buckets: BTreeMap::new() }
            }
        }
    }
}

impl SeriesValue {
    fn add(&mut self, value: &Measured<'_>, divisor: f64) {
        match (self, value) {
            (SeriesValue::Number(sum), Measured::Number(number)) => *sum += number,
            (SeriesValue::Exponential { count, sum, buckets }, Measured::Distribution(from, _)) => {
                *count += from.count;
                *sum += from.sum / divisor;
                from.buckets.iter().for_each(|(value, n)| buckets.add(value / divisor, *n));
            }
            (SeriesValue::Buckets { count, sum, buckets }, Measured::Distribution(from, _)) => {
                *count += from.count;
                *sum += from.sum / divisor;
                for (high, n) in &from.buckets {
                    *buckets.entry(Bound(high / divisor)).or_default() += n;
                }
            }
            _ => {}
        }
    }
}

/// Returns the help of a family, without characters that would have to be escaped.
fn help(monitor: &str, table: &str, column: &str, shape: FamilyShape) -> String {
    let what = match shape {
        FamilyShape::Counter => "sum over all intervals",
        FamilyShape::Gauge => "value of the last interval",
        FamilyShape::Exponential(_) | FamilyShape::Buckets => "distribution over all intervals",
    };
    let column = identifier(column);
    let column = if column.is_empty() { identifier(table) } else { column };
    format!("{monitor}, table {}: {column}, {what}", identifier(table)).replace(['\\', '\n'], "_")
}
