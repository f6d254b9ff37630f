//! Measures a scrape of 10,000 series, and what an interval costs the server of metrics.

use divan::Bencher;
use perilune::base::report::coverage::Coverage;
use perilune::base::report::metric::{
    Distribution, DistributionShape, MetricKind, MetricRow, MetricTable,
};
use perilune::output::metrics::{ExpositionFormat, MetricInterval, MetricStore, expose};
use perilune::output::otlp::{OtlpResource, metrics_request};
use std::sync::{Arc, Mutex};

const SERIES: usize = 10_000;

fn main() {
    divan::main();
}

/// A scrape of counters.
#[divan::bench(args = [ExpositionFormat::Text, ExpositionFormat::Protobuf])]
fn scrape_counters(bencher: Bencher, format: ExpositionFormat) {
    let store = store(&counters());
    bencher.bench(|| expose(&store, format));
}

/// A scrape of 10,000 series that are parts of histograms, each of 31 buckets, sum and count.
#[divan::bench(args = [ExpositionFormat::Text, ExpositionFormat::Protobuf])]
fn scrape_histograms(bencher: Bencher, format: ExpositionFormat) {
    let store = store(&histograms());
    bencher.bench(|| expose(&store, format));
}

/// A request of OTLP with the same histograms.
#[divan::bench]
fn otlp_histograms(bencher: Bencher) {
    let store = store(&histograms());
    let store = store.lock().expect("no other thread has it");
    let resource = OtlpResource { host: "host".to_owned(), pid: 1 };
    bencher.bench_local(|| metrics_request(&store, &resource, 0, 1));
}

/// The measurements of an interval.
#[divan::bench]
fn add_interval(bencher: Bencher) {
    let interval = counters();
    let mut store = MetricStore::new(2 * SERIES);
    bencher.bench_local(|| store.add(&interval));
}

fn store(interval: &MetricInterval) -> Arc<Mutex<MetricStore>> {
    let mut store = MetricStore::new(2 * SERIES);
    store.add(interval);
    Arc::new(Mutex::new(store))
}

fn interval(table: MetricTable) -> MetricInterval {
    let (coverage, tables) = (Coverage::default(), vec![table]);
    MetricInterval { monitor: "syscalls".into(), tables, coverage, is_up: true, wall_ns: 0 }
}

fn table(rows: usize, row: impl Fn(usize) -> MetricRow) -> MetricTable {
    MetricTable {
        name: "latency".to_owned(),
        labels: vec!["comm".to_owned(), "syscall".to_owned()],
        columns: Vec::new(),
        distribution: None,
        adds_up: true,
        rows: (0..rows).map(row).collect(),
    }
}

fn labels(i: usize) -> Vec<String> {
    vec![format!("task-{}", i / 100), format!("call_{}", i % 100)]
}

fn counters() -> MetricInterval {
    let row = |i| MetricRow { labels: labels(i), values: vec![Some(i as f64)], distribution: None };
    let columns = vec![("calls".to_owned(), MetricKind::Counter)];
    interval(MetricTable { columns, ..table(SERIES, row) })
}

fn histograms() -> MetricInterval {
    let row = |i| {
        let buckets = (0..20).map(|step| (1000.0 * f64::from(step * step + 1), 3));
        let distribution = Distribution { count: 60, sum: 1e6, buckets: buckets.collect() };
        MetricRow { labels: labels(i), values: Vec::new(), distribution: Some(distribution) }
    };
    let shape = ("duration".to_owned(), DistributionShape::Durations);
    interval(MetricTable { distribution: Some(shape), ..table(SERIES / 33, row) })
}
