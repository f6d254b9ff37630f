//! The families of metrics as an OTLP request.

use super::{OtlpResource, scope, text_attribute};
use crate::base::report::coverage::Coverage;
use crate::output::metrics::export::{ExportedFamily, ExportedKind, ExportedSeries};
use crate::output::metrics::{MetricStore, export};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use prost::Message as _;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// The time of all points of a request.
#[derive(Clone, Copy)]
struct PointTime {
    start_ns: u64,
    end_ns: u64,
}

/// Returns the request with all families, whose values were counted from `start_ns` up to `end_ns`,
/// in nanoseconds since the Unix epoch.
pub fn metrics_request(
    store: &MetricStore,
    resource: &OtlpResource,
    start_ns: u64,
    end_ns: u64,
) -> Vec<u8> {
    let time = PointTime { start_ns, end_ns };
    let monitors = export::monitors(store);
    let scopes = monitors.map(|(name, coverage, is_up)| {
        let families = export::families(store, name);
        let mut metrics: Vec<Metric> = families.map(|one| metric(&one, time)).collect();
        metrics.extend(coverage_metrics(name, coverage, time));
        metrics.push(up(name, is_up, time));
        let scope = Some(scope(&format!("perilune/{name}")));
        ScopeMetrics { scope, metrics, ..ScopeMetrics::default() }
    });
    let scope_metrics = scopes.collect();
    let resource = Some(resource.message());
    let resource_metrics =
        vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

/// Returns a unit in the notation of UCUM, as OpenTelemetry wants it.
fn ucum(unit: &str) -> &'static str {
    match unit {
        "seconds" => "s",
        "bytes" => "By",
        "ratio" => "1",
        _ => "",
    }
}

fn metric(family: &ExportedFamily<'_>, time: PointTime) -> Metric {
    let series = || family.series();
    let data = match family.kind {
        ExportedKind::Counter => Data::Sum(Sum {
            data_points: series().filter_map(|one| number(&one, time)).collect(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        ExportedKind::Gauge => Data::Gauge(Gauge {
            data_points: series().filter_map(|one| number(&one, time)).collect(),
        }),
        ExportedKind::Exponential => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: series().filter_map(|one| exponential(&one, time)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
        ExportedKind::Buckets => {
            let bounds = family.bounds();
            Data::Histogram(Histogram {
                data_points: series().filter_map(|one| explicit(&one, &bounds, time)).collect(),
                aggregation_temporality: CUMULATIVE,
            })
        }
    };
    Metric {
        name: family.base_name().to_owned(),
        description: family.help.to_owned(),
        unit: ucum(family.unit).to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn attributes(series: &ExportedSeries<'_>) -> Vec<KeyValue> {
    series.labels().map(|(name, value)| text_attribute(name, &value)).collect()
}

fn number(series: &ExportedSeries<'_>, time: PointTime) -> Option<NumberDataPoint> {
    Some(NumberDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: time.start_ns,
        time_unix_nano: time.end_ns,
        value: Some(Number::AsDouble(series.number()?)),
        ..NumberDataPoint::default()
    })
}

fn exponential(
    series: &ExportedSeries<'_>,
    time: PointTime,
) -> Option<ExponentialHistogramDataPoint> {
    let histogram = series.exponential()?;
    Some(ExponentialHistogramDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: time.start_ns,
        time_unix_nano: time.end_ns,
        count: histogram.count,
        sum: Some(histogram.sum),
        scale: export::SCALE,
        zero_count: histogram.zero,
        positive: histogram.dense.map(|(first, counts)| Buckets {
            // A bucket of OTLP is named by its lower bound, one of Prometheus by its upper bound.
            offset: first - 1,
            bucket_counts: counts,
        }),
        ..ExponentialHistogramDataPoint::default()
    })
}

fn explicit(
    series: &ExportedSeries<'_>,
    bounds: &[f64],
    time: PointTime,
) -> Option<HistogramDataPoint> {
    let (count, sum, bucket_counts) = series.buckets(bounds)?;
    Some(HistogramDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: time.start_ns,
        time_unix_nano: time.end_ns,
        count,
        sum: Some(sum),
        bucket_counts,
        // The last bucket has no bound.
        explicit_bounds: bounds.iter().copied().filter(|bound| bound.is_finite()).collect(),
        ..HistogramDataPoint::default()
    })
}

fn coverage_metrics(monitor: &str, coverage: &Coverage, time: PointTime) -> Vec<Metric> {
    let counts =
        [("events", coverage.events), ("filtered", coverage.filtered), ("starts", coverage.starts)];
    let counts = counts.into_iter().chain(coverage.gaps());
    let points = |count: u64| vec![point(Number::AsInt(count as i64), Vec::new(), time)];
    let named = |what: &str, description: String, data: Data| Metric {
        name: export::name(monitor, &format!("coverage_{what}")),
        description,
        data: Some(data),
        ..Metric::default()
    };
    let sums = counts.map(|(what, count)| {
        let data = Data::Sum(Sum {
            data_points: points(count),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        });
        named(what, format!("Coverage: {what}"), data)
    });
    let open = Data::Gauge(Gauge { data_points: points(coverage.open) });
    sums.chain([named("open", export::OPEN_HELP.to_owned(), open)]).collect()
}

fn up(monitor: &str, is_up: bool, time: PointTime) -> Metric {
    let labels = vec![text_attribute("monitor", monitor)];
    let data = Gauge { data_points: vec![point(Number::AsInt(is_up.into()), labels, time)] };
    Metric {
        name: "perilune_monitor_up".to_owned(),
        description: export::UP_HELP.to_owned(),
        data: Some(Data::Gauge(data)),
        ..Metric::default()
    }
}

fn point(value: Number, attributes: Vec<KeyValue>, time: PointTime) -> NumberDataPoint {
    NumberDataPoint {
        attributes,
        start_time_unix_nano: time.start_ns,
        time_unix_nano: time.end_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}
