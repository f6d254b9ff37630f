//! Exposition: the families as OpenMetrics text, or as protobuf with native histograms.

use super::exponential::SCHEMA;
use super::names::{base_name, identifier};
use super::number_family::{FamilyWriter, NumberType};
use super::store::{
    FamilyShape, MetricFamily, MetricStore, MonitorCounts, OPEN_HELP, SeriesValue, UP_HELP,
};
use super::text_family::{is_integer, push_family};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NativeHistogram, NativeHistogramBuckets, NoLabelSet,
};
use prometheus_client::encoding::{prometheus_protobuf, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bounds the width of the zero bucket; 2^-128, as client libraries have it.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// OpenMetrics text.
    Text,
    /// Length-delimited messages of `io.prometheus.client.MetricFamily`.
    Protobuf,
}

impl ExpositionFormat {
    /// Returns the format that the header `Accept` of a request prefers. Text is the default.
    pub fn accepted(accept: &str) -> ExpositionFormat {
        let quality = |range: &str| {
            let q = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
            q.and_then(|q| q.parse::<f64>().ok()).unwrap_or(1.0)
        };
        let best = |wanted: fn(&str) -> bool| {
            accept.split(',').filter(|range| wanted(range)).map(quality).fold(0.0, f64::max)
        };
        let protobuf = best(|range| {
            range.trim().starts_with("application/vnd.google.protobuf")
                && range.contains("io.prometheus.client.MetricFamily")
                && range.contains("delimited")
        });
        let text = best(|range| !range.trim().starts_with("application/vnd.google.protobuf"));
        // A scraper lists what it prefers first, or with the higher quality.
        if protobuf > 0.0 && protobuf >= text {
            ExpositionFormat::Protobuf
        } else {
            ExpositionFormat::Text
        }
    }

    /// Returns the value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            ExpositionFormat::Text => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ExpositionFormat::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

/// Returns all families in a format. The library encodes what is not written directly.
pub fn expose(store: &Arc<Mutex<MetricStore>>, format: ExpositionFormat) -> Vec<u8> {
    let mut page = Vec::new();
    let held = store.lock().unwrap_or_else(PoisonError::into_inner);
    match format {
        ExpositionFormat::Text => {
            held.families.iter().for_each(|(name, family)| push_family(&mut page, name, family));
        }
        ExpositionFormat::Protobuf => {
            held.families.iter().for_each(|(name, family)| push_numbers(&mut page, name, family));
        }
    }
    // The library's collector takes the lock, too.
    drop(held);
    page.extend(match format {
        ExpositionFormat::Text => text_of_library(store, |_| false).into_bytes(),
        ExpositionFormat::Protobuf => {
            protobuf_of_library(store, |family| number_type(family).is_none())
        }
    });
    page
}

/// Chooses families that the library encodes.
type FamilyFilter = fn(&MetricFamily) -> bool;

/// Returns coverage, limits and the chosen families as text, as the library encodes them.
pub(super) fn text_of_library(store: &Arc<Mutex<MetricStore>>, includes: FamilyFilter) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut page, &registry(store, includes));
    page
}

/// Returns coverage, limits and the chosen families as protobuf, as the library encodes them.
pub(super) fn protobuf_of_library(
    store: &Arc<Mutex<MetricStore>>,
    includes: FamilyFilter,
) -> Vec<u8> {
    prometheus_protobuf::encode_to_vec(&registry(store, includes)).unwrap_or_default()
}

fn registry(store: &Arc<Mutex<MetricStore>>, includes: FamilyFilter) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposed { store: store.clone(), includes }));
    registry
}

/// Appends a family as protobuf if it has numbers.
fn push_numbers(page: &mut Vec<u8>, name: &str, family: &MetricFamily) {
    let Some(of) = number_type(family) else { return };
    let unit = if base_name(name, family.unit).1 { family.unit } else { "" };
    let mut writer = FamilyWriter::new(of, name, &family.help, unit);
    for (labels, value) in &family.series {
        if let SeriesValue::Number(value) = value {
            writer.push(labels, *value);
        }
    }
    writer.finish(page);
}

fn number_type(family: &MetricFamily) -> Option<NumberType> {
    match family.shape {
        FamilyShape::Counter => Some(NumberType::COUNTER),
        FamilyShape::Gauge => Some(NumberType::GAUGE),
        FamilyShape::Exponential(_) | FamilyShape::Buckets => None,
    }
}

#[derive(Debug)]
struct Exposed {
    store: Arc<Mutex<MetricStore>>,
    includes: FamilyFilter,
}

impl Collector for Exposed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, family) in &store.families {
            if (self.includes)(family) {
                encode_family(&mut encoder, name, family)?;
            }
        }
        for (monitor, counts) in &store.monitors {
            encode_counts(&mut encoder, monitor, counts, &store)?;
        }
        encode_up(&mut encoder, &store)?;
        let mut info = encoder.encode_descriptor(
            "perilune_build",
            "Version of perilune",
            None,
            MetricType::Info,
        )?;
        info.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

/// Encodes which monitors are whole: a script's failure is visible in one family.
fn encode_up(encoder: &mut DescriptorEncoder<'_>, store: &MetricStore) -> fmt::Result {
    let mut up =
        encoder.encode_descriptor("perilune_monitor_up", UP_HELP, None, MetricType::Gauge)?;
    for (monitor, counts) in &store.monitors {
        let labels = [("monitor", &**monitor)];
        up.encode_family(&labels)?.encode_gauge(&f64::from(u8::from(counts.is_up)))?;
    }
    Ok(())
}

fn encode_family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    family: &MetricFamily,
) -> fmt::Result {
    let kind = match family.shape {
        FamilyShape::Counter => MetricType::Counter,
        FamilyShape::Gauge => MetricType::Gauge,
        FamilyShape::Exponential(_) | FamilyShape::Buckets => MetricType::Histogram,
    };
    // The encoder appends the unit.
    let (base, has_unit) = base_name(name, family.unit);
    let unit = has_unit.then(|| Unit::Other(family.unit.to_owned()));
    let mut encoder = encoder.encode_descriptor(base, &family.help, unit.as_ref(), kind)?;
    let bounds = family.bounds();
    let mut buckets = Vec::new();
    for (labels, value) in &family.series {
        let labels: Vec<(&str, Cow<'_, str>)> = labels.pairs().collect();
        let mut one = encoder.encode_family(&labels)?;
        match (value, family.shape) {
            (SeriesValue::Number(value), FamilyShape::Counter) => encode_count(&mut one, *value)?,
            (SeriesValue::Number(value), _) => one.encode_gauge(value)?,
            (
                SeriesValue::Exponential { count, sum, buckets: from },
                FamilyShape::Exponential(powers),
            ) => {
                from.classic(powers, &mut buckets);
                let native = from.native();
                let none = NativeHistogramBuckets { spans: &[], deltas: &[] };
                let native = NativeHistogram {
                    schema: SCHEMA,
                    zero_threshold: ZERO_THRESHOLD,
                    zero_count: native.zero,
                    negative: none,
                    positive: NativeHistogramBuckets {
                        spans: &native.spans,
                        deltas: &native.deltas,
                    },
                    created: None,
                };
                one.encode_histogram_with_native(*sum, *count, &buckets, NO_EXEMPLARS, native)?;
            }
            (SeriesValue::Buckets { count, sum, buckets: from }, _) => {
                buckets.clear();
                buckets.extend(bounds.iter().map(|bound| {
                    let count = from.get(&super::store::Bound(*bound)).copied().unwrap_or(0);
                    (*bound, count)
                }));
                one.encode_histogram(*sum, *count, &buckets, NO_EXEMPLARS)?;
            }
            (SeriesValue::Exponential { .. }, _) => {}
        }
    }
    Ok(())
}

const NO_EXEMPLARS: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;

/// Encodes the value of a counter: an integer if it is one.
fn encode_count(encoder: &mut MetricEncoder<'_>, value: f64) -> fmt::Result {
    let none: Option<&Exemplar<NoLabelSet, f64>> = None;
    if is_integer(value) {
        encoder.encode_counter(&(value as u64), none)
    } else {
        encoder.encode_counter(&value, none)
    }
}

/// Encodes the coverage of a monitor, and the limits of its families.
fn encode_counts(
    encoder: &mut DescriptorEncoder<'_>,
    owner: &str,
    counts: &MonitorCounts,
    store: &MetricStore,
) -> fmt::Result {
    let monitor = identifier(owner);
    let coverage = &counts.coverage;
    let missed = coverage.gaps();
    let events =
        [("events", coverage.events), ("filtered", coverage.filtered), ("starts", coverage.starts)];
    let mut counter = |name: &str, help: &str, value: u64| {
        let name = format!("perilune_{monitor}_{name}");
        let mut one = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        let none: Option<&Exemplar<NoLabelSet, f64>> = None;
        one.encode_counter(&value, none)
    };
    for (name, count) in events.into_iter().chain(missed) {
        counter(&format!("coverage_{name}"), &format!("Coverage: {name}"), count)?;
    }
    counter("export_intervals", "Intervals in these metrics", counts.intervals)?;
    counter("export_intervals_dropped", "Intervals missing in these metrics", store.dropped)?;
    counter("export_overflow", "Rows above the limit of series of a family", counts.overflow)?;
    counter("export_negative", "Negative values that a counter cannot have", counts.negative)?;
    counter(
        "export_families_refused",
        "Tables above the limit of families",
        counts.families_refused,
    )?;
    let name = format!("perilune_{monitor}_coverage_open");
    encoder
        .encode_descriptor(&name, OPEN_HELP, None, MetricType::Gauge)?
        .encode_gauge(&(coverage.open as f64))?;
    let name = format!("perilune_{monitor}_export_series");
    let mut series =
        encoder.encode_descriptor(&name, "Series of a family", None, MetricType::Gauge)?;
    for (name, family) in store.families.iter().filter(|(_, family)| &*family.monitor == owner) {
        let labels = [("family", name.as_str())];
        series.encode_family(&labels)?.encode_gauge(&(family.series.len() as f64))?;
    }
    Ok(())
}
