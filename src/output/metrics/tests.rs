//! From measurements to the exposition.

use super::*;
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Align, Column, Report, Style, Table};
use crate::base::report::metric::{
    Distribution, DistributionShape, MetricKind, MetricRow, MetricTable,
};
use prost::Message as _;
use std::sync::{Arc, Mutex};

/// A table with one label, `comm`.
fn table(name: &str, columns: &[(&str, MetricKind)], rows: &[(&str, &[f64])]) -> MetricTable {
    MetricTable {
        name: name.to_owned(),
        labels: vec!["comm".to_owned()],
        columns: columns.iter().map(|(key, kind)| ((*key).to_owned(), *kind)).collect(),
        distribution: None,
        adds_up: true,
        rows: (rows.iter())
            .map(|(label, values)| MetricRow {
                labels: vec![(*label).to_owned()],
                values: values.iter().map(|value| Some(*value)).collect(),
                distribution: None,
            })
            .collect(),
    }
}

fn interval(tables: Vec<MetricTable>) -> MetricInterval {
    let coverage = Coverage { events: 12, lost: 3, open: 2, ..Coverage::default() };
    MetricInterval { monitor: "page-faults".into(), tables, coverage, is_up: true, wall_ns: 0 }
}

fn text_of(store: MetricStore) -> String {
    String::from_utf8(expose(&Arc::new(Mutex::new(store)), ExpositionFormat::Text)).unwrap()
}

/// Returns the text for these intervals, each with these tables.
fn exposed(intervals: Vec<Vec<MetricTable>>) -> String {
    let mut store = MetricStore::new(SERIES);
    intervals.into_iter().for_each(|tables| store.add(&interval(tables)));
    text_of(store)
}

#[track_caller]
fn assert_has(text: &str, line: &str) {
    assert!(text.lines().any(|one| one == line), "no line `{line}` in\n{text}");
}

#[test]
fn counters_add_up_and_gauges_are_replaced() {
    use MetricKind::{Counter, Gauge};
    let of = |count, state: &[(&str, &[f64])]| {
        vec![
            table("kv", &[("wait_us", Counter), ("calls", Counter)], &[("sh", &[count, 2.0])]),
            table("grown", &[("bytes", Gauge)], state),
        ]
    };
    let text = exposed(vec![of(1.5e6, &[("a", &[4.0]), ("b", &[5.0])]), of(5e5, &[("a", &[7.0])])]);
    assert_has(&text, "# TYPE perilune_page_faults_wait_seconds counter");
    assert_has(&text, "# UNIT perilune_page_faults_wait_seconds seconds");
    assert_has(&text, "perilune_page_faults_wait_seconds_total{comm=\"sh\"} 2");
    assert_has(&text, "perilune_page_faults_calls_total{comm=\"sh\"} 4");
    assert_has(&text, "perilune_page_faults_grown_bytes{comm=\"a\"} 7.0");
    assert!(!text.contains("comm=\"b\""), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn a_gauge_without_a_row_in_the_last_interval_is_absent() {
    let of = |rows: &[(&str, &[f64])]| table("state", &[("bytes", MetricKind::Gauge)], rows);
    let of_two = |tables| exposed(vec![vec![of(&[("a", &[4.0])])], tables]);
    for tables in [vec![], vec![of(&[])], vec![MetricTable { columns: vec![], ..of(&[]) }]] {
        let text = of_two(tables);
        assert!(!text.contains("comm=\"a\""), "{text}");
    }
    assert_has(
        &of_two(vec![of(&[("a", &[5.0])])]),
        "perilune_page_faults_state_bytes{comm=\"a\"} 5.0",
    );
}

#[test]
fn coverage_is_exported_beside_the_families() {
    let text = exposed(vec![Vec::new(), Vec::new()]);
    assert_has(&text, "perilune_page_faults_coverage_lost_total 3");
    assert_has(&text, "perilune_page_faults_coverage_events_total 12");
    assert_has(&text, "perilune_page_faults_coverage_open 2.0");
    assert_has(&text, "perilune_page_faults_export_intervals_total 2");
}

#[test]
fn a_label_has_its_text_as_tables_show_it() {
    let name = "a\"b\\c\nd\u{1b}[31m";
    let text = exposed(vec![vec![table("kv", &[("n", MetricKind::Counter)], &[(name, &[1.0])])]]);
    assert_has(&text, "perilune_page_faults_n_total{comm=\"a\\\"b\\\\c\\\\nd\\\\x1b[31m\"} 1");
}

#[test]
fn series_above_the_limit_are_counted_and_added_to_one() {
    let names: Vec<String> = (0..10).map(|i| format!("task-{i}")).collect();
    let rows: Vec<(&str, &[f64])> = names.iter().map(|name| (name.as_str(), &[3.0][..])).collect();
    let mut store = MetricStore::new(4);
    for _ in 0..2 {
        store.add(&interval(vec![
            table("kv", &[("n", MetricKind::Counter)], &rows),
            table("now", &[("n", MetricKind::Gauge)], &rows),
        ]));
    }
    let text = text_of(store);
    assert_has(&text, "perilune_page_faults_n_total{comm=\"task-0\"} 6");
    assert_has(&text, "perilune_page_faults_n_total{comm=\"(other)\"} 42");
    assert_has(&text, "perilune_page_faults_export_overflow_total 28");
    assert_has(&text, "perilune_page_faults_export_series{family=\"perilune_page_faults_n\"} 4.0");
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("perilune_page_faults_n_total{"), 4);
    assert_eq!(series("perilune_page_faults_now_n{"), 3);
}

#[test]
fn a_negative_value_does_not_lower_a_counter() {
    let of = |value| vec![table("kv", &[("n", MetricKind::Counter)], &[("sh", &[value])])];
    let text = exposed(vec![of(5.0), of(-3.0), of(f64::NAN)]);
    assert_has(&text, "perilune_page_faults_n_total{comm=\"sh\"} 5");
    assert_has(&text, "perilune_page_faults_export_negative_total 2");
}

#[test]
fn two_tables_that_would_share_a_name_do_not_overwrite_each_other() {
    let of = |name: &str, kind| table(name, &[("n", kind)], &[("sh", &[1.0])]);
    let tables = vec![of("kv", MetricKind::Counter), of("n", MetricKind::Counter)];
    let text = exposed(vec![tables]);
    assert_has(&text, "perilune_page_faults_n_total{comm=\"sh\"} 1");
    assert_has(&text, "perilune_page_faults_n_2_total{comm=\"sh\"} 1");
}

/// A table of a script's own: columns `cpu`, `state`, `share%` and `n`.
fn own_table(rows: Vec<Vec<Cell>>) -> Report {
    let column = |key: &str, metric| Column {
        title: key.to_owned(),
        key: key.to_owned(),
        width: 0,
        align: Align::Right,
        decimals: None,
        shrinks: false,
        arrow: false,
        json_only: false,
        spare: false,
        metric,
    };
    let inferred = MetricKind::Inferred;
    let columns = vec![
        column("cpu", inferred),
        column("state", inferred),
        column("share_percent", inferred),
        column("n", MetricKind::Counter),
    ];
    let (name, style, rows) = ("report".to_owned(), Style::Plain, rows.into());
    Report::Table(Table { name, title: None, style, samples: 0, columns, rows, hidden: 0 })
}

#[test]
fn rows_of_a_table_without_a_declared_key_do_not_overwrite_each_other() {
    let row = |state: &str, share| {
        vec![Cell::whole(0), Cell::Text(state.to_owned()), Cell::Num(share), Cell::whole(1)]
    };
    let report = own_table(vec![row("run", 25.0), row("run", 50.0), row("sleep", 10.0)]);
    let tables = tables_of_reports(&[report], &[]);
    let text = exposed(vec![tables.clone(), tables]);
    let name = "perilune_page_faults_share_ratio";
    assert_has(&text, &format!("{name}{{cpu=\"0\",state=\"run\"}} 0.25"));
    assert_has(&text, &format!("{name}{{cpu=\"0\",state=\"run\",row=\"2\"}} 0.5"));
    assert_has(&text, &format!("{name}{{cpu=\"0\",state=\"sleep\"}} 0.1"));
    assert_has(&text, "perilune_page_faults_n_total{cpu=\"0\",state=\"run\"} 4");
}

fn durations(values: &[(f64, u64)]) -> MetricTable {
    let count = values.iter().map(|(_, count)| count).sum();
    let sum = values.iter().map(|(value, count)| value * *count as f64).sum();
    let distribution = Distribution { count, sum, buckets: values.to_vec() };
    MetricTable {
        distribution: Some(("duration".to_owned(), DistributionShape::Durations)),
        rows: vec![MetricRow {
            labels: vec!["sh".to_owned()],
            values: Vec::new(),
            distribution: Some(distribution),
        }],
        ..table("latency", &[], &[])
    }
}

#[test]
fn latencies_are_histograms_in_seconds() {
    let text = exposed(vec![vec![durations(&[(250e6, 3)])], vec![durations(&[(2e9, 1)])]]);
    let name = "perilune_page_faults_duration_seconds";
    assert_has(&text, &format!("# TYPE {name} histogram"));
    assert_has(&text, &format!("{name}_sum{{comm=\"sh\"}} 2.75"));
    assert_has(&text, &format!("{name}_count{{comm=\"sh\"}} 4"));
    assert_has(&text, &format!("{name}_bucket{{le=\"0.125\",comm=\"sh\"}} 0"));
    assert_has(&text, &format!("{name}_bucket{{le=\"0.25\",comm=\"sh\"}} 3"));
    assert_has(&text, &format!("{name}_bucket{{le=\"2.0\",comm=\"sh\"}} 4"));
    assert_has(&text, &format!("{name}_bucket{{le=\"+Inf\",comm=\"sh\"}} 4"));
}

#[test]
fn protobuf_has_the_native_histogram_too() {
    use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
    let mut store = MetricStore::new(SERIES);
    store.add(&interval(vec![durations(&[(250e6, 3), (251e6, 2), (2e9, 1)])]));
    let page = expose(&Arc::new(Mutex::new(store)), ExpositionFormat::Protobuf);
    let (mut rest, mut families) = (&page[..], Vec::new());
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
    }
    let wanted = "perilune_page_faults_duration_seconds";
    let family = families.iter().find(|family| family.name == wanted).unwrap();
    let histogram = family.metric[0].histogram.as_ref().unwrap();
    assert_eq!((histogram.sample_count, histogram.schema), (6, 4));
    let (mut count, mut counts) = (0, Vec::new());
    for delta in &histogram.positive_delta {
        count += delta;
        counts.push(count);
    }
    assert_eq!(counts, [3, 2, 1]);
    // 0.25 s ends bucket -32, 0.251 s is in bucket -31, 2 s ends bucket 16.
    let spans: Vec<_> = histogram.positive_span.iter().map(|s| (s.offset, s.length)).collect();
    assert_eq!(spans, [(-32, 2), (46, 1)]);
    assert_eq!(histogram.bucket.last().unwrap().cumulative_count, 6);
}

#[test]
fn numbers_as_protobuf_are_those_of_the_library() {
    use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily;
    let store = Arc::new(Mutex::new(MetricStore::new(SERIES)));
    let rows: [(&str, &[f64]); 3] =
        [("sh", &[3.0, 0.0]), ("", &[9.5, -2.5]), ("a\"\n\u{e9}", &[2f64.powi(60), 1e-9])];
    let columns = [("calls", MetricKind::Counter), ("delay_us", MetricKind::Gauge)];
    store.lock().unwrap().add(&interval(vec![table("own", &columns, &rows)]));
    let page = expose(&store, ExpositionFormat::Protobuf);
    let sorted = |page: &[u8]| {
        let (mut rest, mut families) = (page, Vec::new());
        while !rest.is_empty() {
            families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
        }
        families.sort_by(|a, b| a.name.cmp(&b.name));
        families
    };
    let own = sorted(&page);
    assert_eq!(own, sorted(&exposition::protobuf_of_library(&store, |_| true)));
    let delays = own.iter().find(|family| family.name == "perilune_page_faults_own_delay_seconds");
    assert_eq!(delays.map(|family| family.metric.len()), Some(3), "{own:?}");
}

#[test]
fn text_is_that_of_the_library() {
    use MetricKind::{Counter, Gauge};
    let rows: [(&str, &[f64]); 3] = [
        ("sh", &[3.0, 0.0, 0.5]),
        ("", &[9.5, -2.5, f64::NAN]),
        ("a\"\n\\\u{e9}", &[2f64.powi(60), 1e-9, f64::INFINITY]),
    ];
    let columns = [("calls", Counter), ("delay_us", Gauge), ("load", Gauge)];
    let without_labels = |table: MetricTable| MetricTable {
        labels: Vec::new(),
        rows: table.rows.into_iter().map(|row| MetricRow { labels: vec![], ..row }).collect(),
        ..table
    };
    let named = |name: &str, table: MetricTable| MetricTable { name: name.to_owned(), ..table };
    let shape = DistributionShape::Buckets { most: 65, unit: "us".to_owned() };
    let buckets = |table: MetricTable| MetricTable {
        distribution: Some(("value".to_owned(), shape.clone())),
        ..table
    };
    let latencies = durations(&[(0.0, 1), (250e6, 3), (2e11, 1)]);
    let store = Arc::new(Mutex::new(MetricStore::new(SERIES)));
    store.lock().unwrap().add(&interval(vec![
        table("own", &columns, &rows),
        table("empty", &columns, &[]),
        without_labels(table("total", &columns[..1], &rows[..1])),
        latencies.clone(),
        named("size", buckets(latencies.clone())),
        without_labels(named("all", latencies.clone())),
        without_labels(named("sizes", buckets(latencies))),
    ]));
    let page = String::from_utf8(expose(&store, ExpositionFormat::Text)).unwrap();
    let lines = |page: &str| page.lines().map(str::to_owned).collect::<Vec<String>>();
    assert_eq!(lines(&page), lines(&exposition::text_of_library(&store, |_| true)));
    assert_has(&page, "perilune_page_faults_total_calls_total{} 3");
    assert_has(&page, "perilune_page_faults_all_duration_seconds_count{} 5");
}

#[test]
fn histograms_of_scripts_have_the_same_buckets_in_all_series() {
    let row = |label: &str, buckets: &[(f64, u64)], sum| MetricRow {
        labels: vec![label.to_owned()],
        values: Vec::new(),
        distribution: Some(Distribution {
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum,
            buckets: buckets.to_vec(),
        }),
    };
    let shape = DistributionShape::Buckets { most: 65, unit: "us".to_owned() };
    let table = MetricTable {
        distribution: Some(("value".to_owned(), shape)),
        rows: vec![
            row("a", &[(255.0, 2), (f64::INFINITY, 1)], 500.0),
            row("b", &[(511.0, 4)], 1200.0),
        ],
        ..table("delay", &[], &[])
    };
    let text = exposed(vec![vec![table]]);
    let name = "perilune_page_faults_delay_value_seconds";
    assert_has(&text, &format!("{name}_bucket{{le=\"0.000255\",comm=\"a\"}} 2"));
    assert_has(&text, &format!("{name}_bucket{{le=\"0.000511\",comm=\"a\"}} 2"));
    assert_has(&text, &format!("{name}_bucket{{le=\"+Inf\",comm=\"a\"}} 3"));
    assert_has(&text, &format!("{name}_bucket{{le=\"0.000255\",comm=\"b\"}} 0"));
    assert_has(&text, &format!("{name}_sum{{comm=\"b\"}} 0.0012"));
    assert_has(&text, &format!("{name}_count{{comm=\"b\"}} 4"));
}

#[test]
fn the_scraper_chooses_the_format() {
    let of = ExpositionFormat::accepted;
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                    encoding=delimited";
    let openmetrics = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5,*/*;q=0.1";
    assert_eq!(of(&format!("{protobuf},{openmetrics}")), ExpositionFormat::Protobuf);
    assert_eq!(of(&format!("{openmetrics},{protobuf};q=0.3")), ExpositionFormat::Text);
    assert_eq!(of(openmetrics), ExpositionFormat::Text);
    assert_eq!(of(""), ExpositionFormat::Text);
    assert_eq!(of("application/vnd.google.protobuf;proto=other"), ExpositionFormat::Text);
}

#[test]
fn monitors_with_similar_names_have_their_own_families() {
    let mut store = MetricStore::new(SERIES);
    let rows: &[(&str, &[f64])] = &[("sh", &[1.0])];
    let of = |name: &str, table_name: &str, is_up| MetricInterval {
        monitor: name.into(),
        is_up,
        ..interval(vec![table(table_name, &[("calls", MetricKind::Counter)], rows)])
    };
    store.add(&of("cpu", "kv", true));
    store.add(&of("cpu-util", "kv", false));
    // It would have the name of the other's family.
    store.add(&of("cpu", "util", true));
    let text = text_of(store);
    assert_has(&text, "perilune_cpu_calls_total{comm=\"sh\"} 1");
    assert_has(&text, "perilune_cpu_util_calls_total{comm=\"sh\"} 1");
    assert_has(&text, "perilune_cpu_util_calls_2_total{comm=\"sh\"} 1");
    assert_has(&text, "perilune_cpu_export_series{family=\"perilune_cpu_util_calls_2\"} 1.0");
    assert!(!text.contains("perilune_cpu_export_series{family=\"perilune_cpu_util_calls\"}"));
    assert_has(&text, "perilune_monitor_up{monitor=\"cpu\"} 1.0");
    assert_has(&text, "perilune_monitor_up{monitor=\"cpu-util\"} 0.0");
}
