//! The families and series of a store, read by other formats than Prometheus's.

use super::exponential::SCHEMA;
use super::labels::Labels;
use super::names::{base_name, identifier};
use super::store::{Bound, FamilyShape, MetricFamily, MetricStore, SeriesValue};
pub(in crate::output) use super::store::{OPEN_HELP, UP_HELP};
use crate::base::report::coverage::Coverage;
use std::borrow::Cow;

/// Scale of the exponential histograms: 2^scale buckets for each power of two.
pub(in crate::output) const SCALE: i32 = SCHEMA;

/// The kind of a family's series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::output) enum ExportedKind {
    Counter,
    Gauge,
    /// A histogram with exponential buckets.
    Exponential,
    /// A histogram with buckets of its own.
    Buckets,
}

/// A family.
pub(in crate::output) struct ExportedFamily<'a> {
    name: &'a str,
    pub(in crate::output) help: &'a str,
    /// The base unit; empty for none.
    pub(in crate::output) unit: &'static str,
    pub(in crate::output) kind: ExportedKind,
    family: &'a MetricFamily,
}

/// A series: labels and a value.
pub(in crate::output) struct ExportedSeries<'a> {
    labels: &'a Labels,
    value: &'a SeriesValue,
}

/// A histogram with exponential buckets.
pub(in crate::output) struct ExportedHistogram {
    pub(in crate::output) count: u64,
    pub(in crate::output) sum: f64,
    /// Values of 0 and below.
    pub(in crate::output) zero: u64,
    /// The index of the first bucket, by its upper bound, and the counts from it on, without gaps.
    pub(in crate::output) dense: Option<(i32, Vec<u64>)>,
}

/// Returns each monitor with its coverage, and whether it is whole.
pub(in crate::output) fn monitors(
    store: &MetricStore,
) -> impl Iterator<Item = (&str, &Coverage, bool)> {
    store.monitors.iter().map(|(name, counts)| (&**name, &counts.coverage, counts.is_up))
}

/// Returns the families of a monitor.
pub(in crate::output) fn families<'a>(
    store: &'a MetricStore,
    monitor: &'a str,
) -> impl Iterator<Item = ExportedFamily<'a>> {
    let own = store.families.iter().filter(move |(_, family)| &*family.monitor == monitor);
    own.map(|(name, family)| ExportedFamily {
        name,
        help: &family.help,
        unit: family.unit,
        kind: match family.shape {
            FamilyShape::Counter => ExportedKind::Counter,
            FamilyShape::Gauge => ExportedKind::Gauge,
            FamilyShape::Exponential(_) => ExportedKind::Exponential,
            FamilyShape::Buckets => ExportedKind::Buckets,
        },
        family,
    })
}

/// Returns the name of a metric of a monitor that is not of one of its tables.
pub(in crate::output) fn name(monitor: &str, what: &str) -> String {
    format!("perilune_{}_{what}", identifier(monitor))
}

impl ExportedFamily<'_> {
    /// Returns the name without the unit, which is a property of its own.
    pub(in crate::output) fn base_name(&self) -> &str {
        base_name(self.name, self.unit).0
    }

    pub(in crate::output) fn series(&self) -> impl Iterator<Item = ExportedSeries<'_>> {
        self.family.series.iter().map(|(labels, value)| ExportedSeries { labels, value })
    }

    /// Returns the bounds of the buckets of all series, the last one infinite.
    pub(in crate::output) fn bounds(&self) -> Vec<f64> {
        self.family.bounds()
    }
}

impl ExportedSeries<'_> {
    pub(in crate::output) fn labels(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.labels.pairs()
    }

    /// Returns the value of a counter or a gauge.
    pub(in crate::output) fn number(&self) -> Option<f64> {
        match self.value {
            SeriesValue::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the value of a histogram with exponential buckets.
    pub(in crate::output) fn exponential(&self) -> Option<ExportedHistogram> {
        match self.value {
            SeriesValue::Exponential { count, sum, buckets } => Some(ExportedHistogram {
                count: *count,
                sum: *sum,
                zero: buckets.zeros(),
                dense: buckets.dense(),
            }),
            _ => None,
        }
    }

    /// Returns count, sum and the count of each bucket of a histogram with these bounds.
    pub(in crate::output) fn buckets(&self, bounds: &[f64]) -> Option<(u64, f64, Vec<u64>)> {
        match self.value {
            SeriesValue::Buckets { count, sum, buckets } => {
                let each = bounds.iter().map(|bound| buckets.get(&Bound(*bound)).copied());
                Some((*count, *sum, each.map(Option::unwrap_or_default).collect()))
            }
            _ => None,
        }
    }
}
