//! From measurements and events to requests, decoded again.

use super::*;
use crate::base::event::value::Value;
use crate::base::report;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, EventText, Level, Stamp};
use crate::base::report::frame::Frame;
use crate::base::report::metric::{
    Distribution, DistributionShape, MetricKind, MetricRow, MetricTable,
};
use crate::base::text::stack_style::StackStyle;
use crate::output::messages::MessagesOutput;
use crate::output::metrics::{MetricInterval, MetricStore, SERIES};
use crate::output::test_support::{TestContext, draw_event, plain_options, stamp};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::ArrayValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::ScopeMetrics;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use std::cell::Cell;
use std::rc::Rc;

fn resource() -> OtlpResource {
    OtlpResource { host: "web-1".to_owned(), pid: 7 }
}

/// Returns the scope that the interval of one table becomes.
fn exported(table: MetricTable, times: usize) -> ScopeMetrics {
    let mut store = MetricStore::new(SERIES);
    let coverage = Coverage { lost: 3, starts: 8, open: 2, ..Coverage::default() };
    let (tables, monitor) = (vec![table], "page-faults".into());
    let interval = MetricInterval { monitor, tables, coverage, is_up: false, wall_ns: 0 };
    (0..times).for_each(|_| store.add(&interval));
    let bytes = metrics_request(&store, &resource(), 5, 9);
    let request = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
    let of_host = request.resource_metrics.into_iter().next().unwrap();
    let attributes = of_host.resource.unwrap().attributes;
    assert!(attributes.contains(&text_attribute("host.name", "web-1")));
    of_host.scope_metrics.into_iter().next().unwrap()
}

fn data(scope: &ScopeMetrics, name: &str) -> (String, Data) {
    let found = scope.metrics.iter().find(|metric| metric.name == name);
    let found = found.unwrap_or_else(|| panic!("no metric {name}"));
    (found.unit.clone(), found.data.clone().unwrap())
}

fn table(columns: &[(&str, MetricKind)], values: &[f64]) -> MetricTable {
    MetricTable {
        name: "kv".to_owned(),
        labels: vec!["comm".to_owned()],
        columns: columns.iter().map(|(key, kind)| ((*key).to_owned(), *kind)).collect(),
        distribution: None,
        adds_up: true,
        rows: vec![MetricRow {
            labels: vec!["sh".to_owned()],
            values: values.iter().map(|value| Some(*value)).collect(),
            distribution: None,
        }],
    }
}

fn distribution(shape: DistributionShape, buckets: &[(f64, u64)]) -> MetricTable {
    let count = buckets.iter().map(|(_, count)| count).sum();
    let sum = buckets.iter().map(|(value, count)| value * *count as f64).sum();
    let distribution = Some(Distribution { count, sum, buckets: buckets.to_vec() });
    let row = MetricRow { labels: vec!["sh".to_owned()], values: Vec::new(), distribution };
    let shape = Some(("duration".to_owned(), shape));
    MetricTable { distribution: shape, rows: vec![row], ..table(&[], &[]) }
}

#[test]
fn counters_are_cumulative_sums_and_gauges_are_gauges() {
    let columns = [("wait_us", MetricKind::Counter), ("grown_bytes", MetricKind::Gauge)];
    let scope = exported(table(&columns, &[1.5e6, 4.0]), 2);
    assert_eq!(scope.scope.as_ref().unwrap().name, "perilune/page-faults");
    let (unit, Data::Sum(sum)) = data(&scope, "perilune_page_faults_wait") else { panic!() };
    assert_eq!((unit.as_str(), sum.is_monotonic, sum.aggregation_temporality), ("s", true, 2));
    let point = &sum.data_points[0];
    assert_eq!(point.value, Some(Number::AsDouble(3.0)));
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
    assert_eq!(point.attributes, [text_attribute("comm", "sh")]);
    let (unit, Data::Gauge(gauge)) = data(&scope, "perilune_page_faults_grown") else { panic!() };
    assert_eq!((unit.as_str(), &gauge.data_points[0].value), ("By", &Some(Number::AsDouble(4.0))));
}

#[test]
fn coverage_and_failures_are_metrics_too() {
    let scope = exported(table(&[], &[]), 1);
    for (name, count) in [("lost", 3), ("starts", 8)] {
        let name = format!("perilune_page_faults_coverage_{name}");
        let (_, Data::Sum(sum)) = data(&scope, &name) else { panic!("{name}") };
        assert_eq!(sum.data_points[0].value, Some(Number::AsInt(count)), "{name}");
    }
    let name = "perilune_page_faults_coverage_open";
    let (_, Data::Gauge(open)) = data(&scope, name) else { panic!() };
    assert_eq!(open.data_points[0].value, Some(Number::AsInt(2)));
    let (_, Data::Gauge(up)) = data(&scope, "perilune_monitor_up") else { panic!() };
    assert_eq!(up.data_points[0].value, Some(Number::AsInt(0)));
}

#[test]
fn each_latency_lies_within_its_exponential_bucket() {
    let values = [(250e6, 3), (251e6, 2), (2e9, 1), (0.0, 4), (170.0, 5)];
    let scope = exported(distribution(DistributionShape::Durations, &values), 1);
    let name = "perilune_page_faults_duration";
    let (unit, Data::ExponentialHistogram(data)) = data(&scope, name) else { panic!() };
    assert_eq!((unit.as_str(), data.aggregation_temporality), ("s", 2));
    let point = &data.data_points[0];
    assert_eq!((point.count, point.zero_count, point.scale), (15, 4, 4));
    let positive = point.positive.as_ref().unwrap();
    assert_eq!(positive.bucket_counts.iter().sum::<u64>(), 11);
    // A bucket has the values above base^index and up to base^(index + 1).
    let base = 2f64.powf(2f64.powi(-point.scale));
    for (ns, count) in values.into_iter().filter(|(ns, _)| *ns > 0.0) {
        let value = ns / 1e9;
        let within = positive.bucket_counts.iter().enumerate().filter(|(at, counted)| {
            let index = f64::from(positive.offset) + *at as f64;
            **counted > 0
                && base.powf(index) < value * (1.0 + 1e-9)
                && value <= base.powf(index + 1.0) * (1.0 + 1e-9)
        });
        let counted: u64 = within.map(|(_, counted)| *counted).sum();
        assert!(counted >= count, "{value} s: {counted} of {count}");
    }
}

#[test]
fn histograms_of_scripts_keep_their_bounds() {
    let shape = DistributionShape::Buckets { most: 65, unit: "us".to_owned() };
    let buckets = [(255.0, 2), (511.0, 4), (f64::INFINITY, 1)];
    let mut table = distribution(shape, &buckets);
    if let Some(distribution) = &mut table.rows[0].distribution {
        distribution.sum = 1e6;
    }
    let scope = exported(table, 1);
    let name = "perilune_page_faults_duration";
    let (unit, Data::Histogram(histogram)) = data(&scope, name) else { panic!() };
    let point = &histogram.data_points[0];
    assert_eq!((unit.as_str(), point.count, point.sum), ("s", 7, Some(1.0)));
    assert_eq!(point.explicit_bounds, [0.000255, 0.000511]);
    assert_eq!(point.bucket_counts, [2, 4, 1]);
}

/// Returns the records of what is drawn, and the number of those that were dropped.
fn logged(draw: impl FnOnce(&mut dyn Draw)) -> (Vec<LogRecord>, u64) {
    let queue = LogQueue::default();
    let shared = queue.clone();
    let inner = MessagesOutput::new(Box::new(std::io::sink()), plain_options());
    draw(&mut LoggedOutput::new(Box::new(inner), shared, "trace", StackStyle::default()));
    let records = queue.take().into_iter().map(OtlpLog::into_record);
    (records.collect(), queue.dropped())
}

#[test]
fn an_event_is_a_record_with_its_fields() {
    let fields =
        [("sig", Value::Int(9)), ("at", Value::Pointer(255)), ("big", Value::Uint(u64::MAX))];
    let text = EventText::Printer(b"sig nine");
    let around = TestContext { text, ..TestContext::default() };
    let (records, dropped) = logged(|out| draw_event(out, &fields, &around));
    assert_eq!((records.len(), dropped), (1, 0));
    let record = &records[0];
    assert_eq!(record.event_name, "signal:signal_generate");
    assert_eq!(record.time_unix_nano, stamp(100_000_000).wall_ns as u64);
    let has =
        |key: &str, value| assert!(record.attributes.contains(&attribute(key, value)), "{key}");
    has("perilune.monitor", Any::StringValue("trace".to_owned()));
    has("thread.id", Any::IntValue(300));
    has("thread.name", Any::StringValue("bash".to_owned()));
    has("sig", Any::IntValue(9));
    has("at", Any::StringValue("0xff".to_owned()));
    has("big", Any::StringValue(u64::MAX.to_string()));
    let body = record.body.as_ref().unwrap().value.clone();
    assert_eq!(body, Some(Any::StringValue("sig nine".to_owned())));
}

#[test]
fn the_attributes_of_an_event_are_those_of_json() {
    let elements = [1u16, 65_535].map(u16::to_ne_bytes).concat();
    let fields = [
        ("cpu", Value::Int(-1)),
        ("list", Value::Array { bytes: &elements, size: 2, signed: true }),
        ("stack", Value::Uint(3)),
        ("text", Value::Text(b"a\xff")),
    ];
    let frame = Frame { symbol: Some("main".into()), kernel: true, ..Frame::default() };
    let extra = [("list".to_owned(), report::cell::Cell::whole(4))];
    let around = TestContext {
        cpu: 2,
        tid: u32::MAX,
        extra: &extra,
        stack: &[frame],
        ..TestContext::default()
    };
    let (records, _) = logged(|out| draw_event(out, &fields, &around));
    let text = |text: &str| AnyValue { value: Some(Any::StringValue(text.to_owned())) };
    let number = |number| AnyValue { value: Some(Any::IntValue(number)) };
    let array = |values| AnyValue { value: Some(Any::ArrayValue(ArrayValue { values })) };
    let attributes = records[0].attributes.iter();
    let attributes: Vec<_> =
        attributes.map(|of| (of.key.as_str(), of.value.clone().unwrap())).collect();
    assert_eq!(
        attributes,
        [
            ("perilune.monitor", text("trace")),
            ("process.pid", number(300)),
            ("thread.id", number(-1)),
            ("thread.name", text("bash")),
            ("cpu", number(2)),
            ("cpu_", number(-1)),
            ("list", array(vec![number(1), number(-1)])),
            ("stack_", number(3)),
            ("text", text(r"a\xff")),
            ("list_", number(4)),
            ("stack", array(vec![text("main")])),
        ]
    );
}

#[test]
fn alerts_are_records_and_notes_are_not() {
    let (records, _) = logged(|out| {
        out.note(stamp(0), Level::Info, "watching");
        out.note(stamp(0), Level::Warning, "--otlp http://host: the receiver answered 503");
        out.note(stamp(0), Level::Alert, "late");
    });
    let names: Vec<&str> = records.iter().map(|record| record.event_name.as_str()).collect();
    assert_eq!(names, ["alert"]);
}

#[test]
fn records_beyond_the_limit_are_counted() {
    let (records, dropped) = logged(|out| {
        for _ in 0..5000 {
            out.note(stamp(0), Level::Error, "x");
        }
    });
    assert_eq!((records.len(), dropped), (4096, 904));
}

#[test]
fn records_beyond_the_limit_of_their_size_are_counted() {
    let text = "x".repeat(1 << 20);
    let (records, dropped) = logged(|out| {
        for _ in 0..40 {
            out.note(stamp(0), Level::Error, &text);
        }
    });
    assert_eq!((records.len(), dropped), (16, 24));
}

/// Counts the calls that only an output of files needs.
#[derive(Clone, Default)]
struct FileOutput(Rc<Cell<(u32, u32)>>);

impl Draw for FileOutput {
    fn measured(&mut self, _: Stamp, tables: &[MetricTable]) {
        self.0.set((self.0.get().0 + tables.len() as u32, self.0.get().1));
    }

    fn end(&mut self) -> std::io::Result<()> {
        self.0.set((self.0.get().0, self.0.get().1 + 1));
        Ok(())
    }
}

#[test]
fn the_output_behind_it_gets_measurements_and_the_end_of_the_run() {
    let files = FileOutput::default();
    let (inner, queue) = (Box::new(files.clone()), LogQueue::default());
    let mut out = LoggedOutput::new(inner, queue, "syscalls", StackStyle::default());
    out.measured(stamp(0), &[table(&[], &[])]);
    out.end().unwrap();
    assert_eq!(files.0.get(), (1, 1));
}

#[test]
fn a_partial_success_has_the_number_of_rejected_items() {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsPartialSuccess;
    let answer = |rejected_log_records| {
        let partial =
            ExportLogsPartialSuccess { rejected_log_records, error_message: "full".to_owned() };
        ExportLogsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
    };
    let rejected = |count| OtlpSignal::Logs.rejected(&answer(count)).map(|(count, _)| count);
    assert_eq!(OtlpSignal::Logs.rejected(&answer(3)), Some((3, "full".to_owned())));
    assert_eq!((rejected(0), rejected(-1)), (None, None));
    assert_eq!(rejected(i64::MAX), Some(u32::MAX.into()), "the counts of many answers add up");
    assert_eq!(OtlpSignal::Logs.rejected(b""), None);
    assert_eq!(OtlpSignal::Metrics.rejected(b"\xff\xff"), None);
}
