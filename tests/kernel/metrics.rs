//! Metrics: what a scrape and a Prometheus server see of a workload.

pub(crate) mod otlp;
mod receiver;
pub(crate) mod serve;
mod server;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::live::{live_tests, skip};
use crate::load::{self, Load};
use crate::tool::Tool;
use server::{Prometheus, free_port, get};

live_tests! {
    a_scrape_has_the_exact_counts_of_the_workload,
    the_server_of_metrics_is_not_part_of_them,
    a_histogram_that_repeats_a_table_is_not_a_metric,
    prometheus_reads_exact_counts_and_quantiles_from_text,
    prometheus_reads_exact_counts_and_quantiles_from_native_histograms,
    the_dashboard_shows_metrics_that_exist,
    the_scrape_configuration_is_valid,
}

/// Timeout for a value to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// A monitor that serves metrics, of a workload and of a process that only waits: it keeps the
/// monitor running after the end of the workload.
struct Served {
    tool: Tool,
    port: u16,
    _waiting: Load,
}

impl Served {
    fn attach(monitor: &[&str], pid: u32) -> Served {
        let (port, waiting) = (free_port(), load::getppid(1));
        let pids = format!("{pid},{}", waiting.pid());
        let port_text = port.to_string();
        let more = ["-p", &pids, "--prometheus", &port_text, "-i", "200"];
        Served { tool: Tool::attach(&[monitor, &more].concat()), port, _waiting: waiting }
    }

    fn page(&self) -> String {
        get(self.port, "/metrics")
    }
}

/// Returns the value of a series.
fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// Calls `read` until it returns `wanted`; fails after some time, with what it returned last.
#[track_caller]
fn becomes(wanted: f64, mut read: impl FnMut() -> Option<f64>) {
    let since = Instant::now();
    loop {
        let found = read();
        if found == Some(wanted) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "expected {wanted}, the last value is {found:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn a_scrape_has_the_exact_counts_of_the_workload() {
    const CALLS: u32 = 3000;
    let load = load::getppid(CALLS);
    let served = Served::attach(&["syscalls", "--only", "getppid"], load.pid());
    load.run();
    let series = "perilune_syscalls_duration_seconds_count{syscall=\"getppid\"}";
    becomes(CALLS.into(), || value(&served.page(), series));
    // Later intervals add nothing.
    std::thread::sleep(Duration::from_millis(700));
    let page = served.page();
    assert_eq!(value(&page, series), Some(CALLS.into()), "{page}");
    assert_eq!(value(&page, "perilune_syscalls_coverage_lost_total"), Some(0.0), "{page}");
    let rest = value(&page, "perilune_syscalls_coverage_events_total");
    assert_eq!(rest, Some(2.0 * f64::from(CALLS)), "{page}");
    assert_eq!(get(served.port, "/healthz"), "ok\n");
    served.tool.finish().is_complete();
}

fn the_server_of_metrics_is_not_part_of_them() {
    let load = load::getppid(10);
    let port = free_port();
    let port_text = port.to_string();
    let args = ["syscalls", "--only", "accept4,sendto,write,close", "--prometheus", &port_text];
    let tool = Tool::attach(&[&args[..], &["--than", "0.000001ms", "-i", "200"]].concat());
    let pid = tool.pid();
    load.run();
    for _ in 0..10 {
        assert!(get(port, "/metrics").contains("# EOF"));
    }
    let run = tool.finish();
    assert!(run.events_of(pid).is_empty(), "{:?}", run.events_of(pid));
    assert!(run.of("event").count() > 0, "nothing was traced: {}", run.stderr);
    run.is_complete();
}

fn a_histogram_that_repeats_a_table_is_not_a_metric() {
    const CALLS: u32 = 30;
    const TWICE: &str = "local m = monitor { summary = 'x' }\n\
         function m.init()\n\
           local a = hist.log2 { title = 'repeated', metric = 'none' }\n\
           local b = hist.log2 { title = 'other' }\n\
           evsel('syscalls:sys_enter_getppid', function() a:add(1) b:add(1) end)\n\
         end\nreturn m\n";
    let load = load::getppid(CALLS);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let script = folder.path().join("twice.lua");
    std::fs::write(&script, TWICE).expect("it can be written");
    let served = Served::attach(&[script.to_str().expect("UTF-8")], load.pid());
    load.run();
    becomes(CALLS.into(), || value(&served.page(), "perilune_twice_other_value_count{}"));
    assert!(!served.page().contains("repeated"), "{}", served.page());
    served.tool.finish().is_complete();
}

fn prometheus_reads_exact_counts_and_quantiles_from_text() {
    // A quantile is interpolated within a bucket, which ends at twice its beginning.
    quantiles(&[], "_count", 2.0);
}

fn prometheus_reads_exact_counts_and_quantiles_from_native_histograms() {
    // The buckets' resolution is 4.4 %; the histogram that they are made of adds 1 %.
    quantiles(&["--enable-feature=native-histograms"], "", 1.06);
}

/// Compares counts and quantiles of a Prometheus server with those that the workload measured;
/// `error` is the largest ratio of two quantiles.
fn quantiles(features: &[&str], count: &str, error: f64) {
    const SLEEPS: usize = 101;
    let (load, measured) = load::sleeps::<SLEEPS>();
    let served = Served::attach(&["syscalls", "--only", "clock_nanosleep"], load.pid());
    let server = Prometheus::start(served.port, features)
        .unwrap_or_else(|| skip("no prometheus; install Debian's package"));
    load.run();
    let family = "perilune_syscalls_duration_seconds";
    let labels = "{syscall=\"clock_nanosleep\"}";
    let wanted = match count {
        "" => format!("histogram_count({family}{labels})"),
        ending => format!("{family}{ending}{labels}"),
    };
    becomes(SLEEPS as f64, || server.query(&wanted));
    for (quantile, index) in [(0.5, 0), (0.9, 1)] {
        let query = match count {
            "" => format!("histogram_quantile({quantile}, {family}{labels})"),
            _ => format!("histogram_quantile({quantile}, {family}_bucket{labels})"),
        };
        let found = server.query(&query).unwrap_or_else(|| panic!("no result for {query}"));
        let truth = measured.get(index) as f64 / 1e9;
        let ratio = (found / truth).max(truth / found);
        assert!(ratio <= error, "quantile {quantile}: {found} s, measured {truth} s");
    }
    let sum = match count {
        "" => format!("histogram_sum({family}{labels})"),
        _ => format!("{family}_sum{labels}"),
    };
    let (sum, truth) = (server.query(&sum).unwrap_or(0.0), measured.get(2) as f64 / 1e9);
    assert!(sum <= truth && sum > truth * 0.98, "sum of the sleeps: {sum} s, measured {truth} s");
    let lost = server.query("perilune_syscalls_coverage_lost_total");
    assert_eq!(lost, Some(0.0));
    let up: Option<Value> = server.target();
    assert_eq!(up.map(|target| target["health"].clone()), Some("up".into()));
    served.tool.finish().is_complete();
}

fn the_dashboard_shows_metrics_that_exist() {
    let text = include_str!("../../contrib/grafana/perilune.json");
    let dashboard: Value = serde_json::from_str(text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("it has panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("a list"));
    let mut queries: Vec<&str> = targets.map(|t| t["expr"].as_str().expect("a query")).collect();
    // Names of recorded series are not exported.
    let rules = include_str!("../../contrib/prometheus/rules.yml");
    queries.extend(rules.lines().filter(|line| !line.contains("record:")));
    let patterns: Vec<NamePattern> = queries.iter().flat_map(|query| patterns_in(query)).collect();
    assert_eq!(patterns.len(), 6, "{patterns:?}");
    let is_name = |name: &&str| *name != PREFIX;
    let names = queries.iter().flat_map(|query| names_in(query)).filter(is_name);
    let mut wanted: Vec<&str> = names.collect();
    wanted.sort_unstable();
    wanted.dedup();
    assert!(wanted.len() > 8 && wanted.contains(&"perilune_monitor_up"), "{wanted:?}");
    for monitor in ["syscalls", "rundelay", "percpu-stat"] {
        let port = free_port();
        let port_text = port.to_string();
        let tool = Tool::attach(&[monitor, "--prometheus", &port_text, "-i", "200"]);
        let prefix = format!("perilune_{}_", monitor.replace('-', "_"));
        let since = Instant::now();
        while wanted.iter().any(|name| name.starts_with(&prefix)) {
            // Calls that fail, and switches.
            load::sleep_ms(5).run();
            let _ = std::fs::read("/no/such/file");
            let page = get(port, "/metrics");
            let exported = |name: &str| page.lines().any(|line| names_in(line).contains(&name));
            wanted.retain(|name| !exported(name));
            let missing = since.elapsed() >= PATIENCE;
            assert!(!missing, "{monitor} does not export {wanted:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        let page = get(port, "/metrics");
        for pattern in &patterns {
            let mut names = page.lines().flat_map(names_in);
            assert!(names.any(|name| pattern.matches(name)), "{monitor}: {pattern:?}");
        }
        tool.finish();
    }
    assert!(wanted.is_empty(), "of no monitor: {wanted:?}");
}

/// Start of the names of all metrics.
const PREFIX: &str = "perilune_";

/// Names of metrics: `start`, at least one character, `end`.
#[derive(Debug)]
struct NamePattern<'a> {
    start: &'a str,
    end: String,
}

impl NamePattern<'_> {
    fn matches(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.start).and_then(|rest| rest.strip_suffix(&self.end));
        rest.is_some_and(|rest| !rest.is_empty())
    }
}

/// Returns the alternatives of the matchers of names in a query: `START.+END(A|B)END`.
fn patterns_in(query: &str) -> Vec<NamePattern<'_>> {
    let matchers = query.split("__name__=~\"").skip(1).filter_map(|rest| rest.split('"').next());
    let alternatives = matchers.flat_map(|matcher| {
        let (start, rest) = matcher.split_once(".+").expect("it is of several monitors");
        let (before, rest) = rest.split_once('(').expect("it has alternatives");
        let (choice, after) = rest.split_once(')').expect("they have an end");
        let end = move |one: &str| format!("{before}{one}{after}");
        choice.split('|').map(move |one| NamePattern { start, end: end(one) })
    });
    alternatives.collect()
}

/// Returns the names of metrics in a query, or of the one in a line of the exposition.
fn names_in(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("perilune_")).collect()
}

fn the_scrape_configuration_is_valid() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/prometheus/prometheus.yml");
    let checked = std::process::Command::new("promtool").args(["check", "config", file]).output();
    let Ok(checked) = checked else { skip("no promtool; install Debian's package prometheus") };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
