//! `--otlp`: what a receiver with the official definitions gets.

use std::io::Write as _;

use serde_json::Value;
use tempfile::NamedTempFile;

use super::receiver::{OtlpReceiver, attribute, number, points};
use crate::live::live_tests;
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    a_receiver_gets_exact_counts_and_quantiles_also_after_failures,
    emitted_events_and_alerts_become_log_records,
    what_no_receiver_takes_is_counted_in_the_coverage,
    a_refused_request_is_not_sent_again,
    stacks_become_profiles_with_exact_weights,
}

const DURATION: &str = "perilune_syscalls_duration";

/// Returns the points of the last request that has the metric.
fn last_points<'a>(requests: &'a [Value], name: &str) -> Vec<&'a Value> {
    let with = requests.iter().rev().map(|request| points(request, name));
    with.into_iter().find(|points| !points.is_empty()).unwrap_or_default()
}

/// Returns all log records.
fn records(requests: &[Value]) -> Vec<&Value> {
    let logs = requests.iter().filter(|one| one["path"] == "/v1/logs" && one["status"] == 200);
    logs.flat_map(records_of).collect()
}

/// Returns the log records of a request.
fn records_of(request: &Value) -> &Vec<Value> {
    let scope = &request["request"]["resourceLogs"][0]["scopeLogs"][0];
    scope["logRecords"].as_array().expect("it has records")
}

/// Returns the notes of a run, one per line.
fn notes(run: &Run) -> String {
    let notes = run.of("note").map(|note| note["text"].as_str().unwrap_or_default());
    notes.collect::<Vec<_>>().join("\n")
}

/// Returns a quantile of an exponential histogram: the middle of its bucket.
fn quantile(point: &Value, quantile: f64) -> f64 {
    let base = 2f64.powf(2f64.powf(-number(&point["scale"])));
    let positive = &point["positive"];
    let first = if positive["offset"].is_null() { 0.0 } else { number(&positive["offset"]) };
    let counts = positive["bucketCounts"].as_array().expect("it has buckets");
    let rank = (quantile * number(&point["count"])).ceil();
    let mut below = 0.0;
    for (at, count) in counts.iter().enumerate() {
        below += number(count);
        if below >= rank {
            return base.powf(first + at as f64 + 0.5);
        }
    }
    panic!("the buckets have fewer values than the count: {point}");
}

fn a_receiver_gets_exact_counts_and_quantiles_also_after_failures() {
    const SLEEPS: usize = 101;
    let receiver = OtlpReceiver::start(503, Some(2));
    let (load, measured) = load::sleeps::<SLEEPS>();
    let pid = load.pid().to_string();
    let args = ["syscalls", "--only", "clock_nanosleep", "-p", &pid, "-i", "200"];
    let tool = Tool::attach(&[&args[..], &["--otlp", &receiver.url]].concat());
    load.run();
    let run = tool.finish();
    run.is_complete();
    let requests = receiver.rest();
    assert!(requests[..2].iter().all(|request| request["status"] == 503), "{requests:?}");
    // The request that failed is sent again, unchanged.
    assert_eq!(requests[0]["request"], requests[2]["request"]);
    assert_eq!(run.coverage()["unsent"], Value::Null);
    assert!(requests.iter().all(|one| one["type"] == "application/x-protobuf"));

    let resource = &requests[2]["request"]["resourceMetrics"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), Some(&"perilune".into()));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("procfs is mounted");
    assert_eq!(attribute(resource, "host.name"), Some(&host.trim().into()));

    let of_call = |points: Vec<&Value>| -> Vec<Value> {
        let call = |point: &&&Value| {
            attribute(point, "syscall").is_some_and(|call| call == "clock_nanosleep")
        };
        points.iter().filter(call).map(|point| (*point).clone()).collect()
    };
    let last = of_call(last_points(&requests, DURATION)).pop().expect("the call has a point");
    assert_eq!(number(&last["count"]), SLEEPS as f64);
    for (q, index) in [(0.5, 0), (0.9, 1)] {
        let (found, truth) = (quantile(&last, q), measured.get(index) as f64 / 1e9);
        let ratio = (found / truth).max(truth / found);
        // A bucket is 4.4 % wide; the histogram that it is made of adds 1 %.
        assert!(ratio <= 1.06, "quantile {q}: {found} s, measured {truth} s");
    }
    let (sum, truth) = (number(&last["sum"]), measured.get(2) as f64 / 1e9);
    assert!(sum <= truth && sum > truth * 0.98, "sum of the sleeps: {sum} s, measured {truth} s");
    // Values are cumulative from one start.
    let counts: Vec<f64> = requests[2..]
        .iter()
        .flat_map(|request| of_call(points(request, DURATION)))
        .map(|point| number(&point["count"]))
        .collect();
    assert!(counts.is_sorted(), "{counts:?}");
    let starts: Vec<&Value> = requests
        .iter()
        .flat_map(|request| points(request, DURATION))
        .map(|point| &point["startTimeUnixNano"])
        .collect();
    assert!(starts.windows(2).all(|pair| pair[0] == pair[1]), "{starts:?}");
    let lost = last_points(&requests, "perilune_syscalls_coverage_lost");
    assert_eq!(number(&lost[0]["asInt"]), 0.0);
    let events = last_points(&requests, "perilune_syscalls_coverage_events");
    assert!(number(&events[0]["asInt"]) >= 2.0 * SLEEPS as f64, "{events:?}");
}

fn emitted_events_and_alerts_become_log_records() {
    const CALLS: u32 = 300;
    let receiver = OtlpReceiver::start(200, None);
    let load = load::getppid(CALLS);
    let pid = load.pid();
    let mut script = NamedTempFile::with_suffix(".lua").expect("a file can be created");
    let text = "local m = monitor { summary = 'calls' }\n\
                function m.init()\n\
                  evsel('raw_syscalls:sys_enter/id==110/', function(e)\n\
                    alert { 'called' }\n\
                    emit(e)\n\
                  end)\n\
                end\n\
                return m\n";
    script.write_all(text.as_bytes()).expect("the file can be written");
    let path = script.path().to_str().expect("the path is UTF-8");
    let pid_text = pid.to_string();
    let tool = Tool::attach(&[path, "-p", &pid_text, "--otlp", &receiver.url]);
    load.run();
    let run = tool.finish();
    run.is_complete();
    assert_eq!(run.events_of(pid).len(), CALLS as usize, "{}", run.stderr);
    let requests = receiver.rest();
    let records = records(&requests);
    let events: Vec<&&Value> =
        records.iter().filter(|one| one["eventName"] == "raw_syscalls:sys_enter").collect();
    assert_eq!(events.len(), CALLS as usize);
    for event in &events {
        assert_eq!(attribute(event, "process.pid").map(number), Some(f64::from(pid)));
        assert_eq!(attribute(event, "id").map(number), Some(110.0), "{event}");
        assert_eq!(event["severityNumber"], "SEVERITY_NUMBER_INFO");
    }
    let alerts: Vec<&&Value> = records.iter().filter(|one| one["eventName"] == "alert").collect();
    assert_eq!(alerts.len(), 1, "an alert is repeated once per minute: {alerts:?}");
    assert_eq!(alerts[0]["body"]["stringValue"], "called");
}

fn what_no_receiver_takes_is_counted_in_the_coverage() {
    const CALLS: u32 = 6000;
    /// The queue's limit.
    const WAITING: u32 = 4096;
    let load = load::getppid(CALLS);
    let pid = load.pid().to_string();
    let url = format!("http://127.0.0.1:{}", super::free_port());
    let tool = Tool::attach(&[
        "trace",
        "-e",
        "raw_syscalls:sys_enter/id==110/",
        "-p",
        &pid,
        "-i",
        "60s",
        "--otlp",
        &url,
    ]);
    load.run();
    let run = tool.finish();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let unsent = run.coverage()["unsent"].as_u64().unwrap_or(0);
    assert_eq!(unsent, u64::from(CALLS - WAITING), "{}", run.coverage());
    let all =
        format!("{} items (log records, profiles, intervals of metrics) not delivered", CALLS + 1);
    let notes = notes(&run);
    assert!(notes.contains(&all) && notes.contains("refused"), "{notes}");
}

fn a_refused_request_is_not_sent_again() {
    let receiver = OtlpReceiver::start(400, None);
    let load = load::getppid(10);
    let pid = load.pid().to_string();
    let tool = Tool::attach(&["syscalls", "-p", &pid, "-i", "60s", "--otlp", &receiver.url]);
    load.run();
    let run = tool.finish();
    let requests = receiver.rest();
    let metrics = requests.iter().filter(|request| request["path"] == "/v1/metrics");
    assert_eq!(metrics.count(), 1, "{requests:?}");
    let notes = notes(&run);
    assert!(notes.contains("the receiver answered 400 to "), "{notes}");
    let logs: Vec<&Value> = requests.iter().filter(|one| one["path"] == "/v1/logs").collect();
    let items = 1 + logs.iter().map(|one| records_of(one).len()).sum::<usize>();
    let items = if items == 1 { "1 item".to_owned() } else { format!("{items} items") };
    let text = format!("{items} (log records, profiles, intervals of metrics) not delivered");
    assert!(notes.contains(&text), "{notes}\n{logs:?}");
}

/// Returns the entry of a table of a request that an index refers to.
fn entry<'a>(request: &'a Value, table: &str, index: &Value) -> &'a Value {
    let index = if index.is_null() { 0 } else { number(index) as usize };
    let entry = &request["request"]["dictionary"][table][index];
    assert!(!entry.is_null(), "{table} has no entry {index}: {request}");
    entry
}

/// Returns the functions of a sample, innermost first, each with the type of its frame.
fn frames(request: &Value, sample: &Value) -> Vec<(String, String)> {
    let stack = entry(request, "stackTable", &sample["stackIndex"]);
    let locations = stack["locationIndices"].as_array().expect("the stack has locations");
    let frame = |location: &Value| {
        let location = entry(request, "locationTable", location);
        let function = entry(request, "functionTable", &location["lines"][0]["functionIndex"]);
        let attribute = entry(request, "attributeTable", &location["attributeIndices"][0]);
        let text = |index: &Value| {
            entry(request, "stringTable", index).as_str().unwrap_or_default().to_owned()
        };
        assert_eq!(text(&attribute["keyStrindex"]), "profile.frame.type");
        let kind = attribute["value"]["stringValue"].as_str().unwrap_or_default();
        (text(&function["nameStrindex"]), kind.to_owned())
    };
    locations.iter().map(frame).collect()
}

fn stacks_become_profiles_with_exact_weights() {
    const CALLS: u32 = 300;
    let receiver = OtlpReceiver::start(503, Some(1));
    let load = load::getppid(CALLS);
    let pid = load.pid().to_string();
    let event = ["stackcount", "-e", "raw_syscalls:sys_enter/id==110/", "-p", &pid, "-i", "100"];
    let tool = Tool::attach(&[&event[..], &["--otlp", &receiver.url, "--otlp-profiles"]].concat());
    load.run();
    let run = tool.finish();
    run.is_complete();
    assert_eq!(run.coverage()["unsent"], Value::Null);
    let requests = receiver.rest();
    let delivered: Vec<&Value> = requests
        .iter()
        .filter(|one| one["path"] == "/v1development/profiles" && one["status"] == 200)
        .collect();
    let (mut calls, mut ends) = (0.0, 0.0);
    for request in &delivered {
        let scope = &request["request"]["resourceProfiles"][0]["scopeProfiles"][0];
        assert_eq!(scope["scope"]["name"], "perilune.stackcount");
        for profile in scope["profiles"].as_array().expect("it has profiles") {
            let unit = &profile["sampleType"]["unitStrindex"];
            assert_eq!(entry(request, "stringTable", unit), "count");
            let begin = number(&profile["timeUnixNano"]);
            assert!(begin >= ends, "intervals overlap: {begin} and {ends}");
            ends = begin + number(&profile["durationNano"]);
            for sample in profile["samples"].as_array().expect("it has samples") {
                let frames = frames(request, sample);
                let kinds: Vec<&str> = frames.iter().map(|(_, kind)| kind.as_str()).collect();
                assert_eq!(kinds.first(), Some(&"kernel"), "{frames:?}");
                assert!(kinds.contains(&"native"), "{frames:?}");
                calls += number(&sample["values"][0]);
            }
        }
    }
    assert_eq!(calls, f64::from(CALLS));
    let first = &delivered[0]["request"]["dictionary"];
    for table in ["mapping", "location", "function", "link", "attribute", "stack"] {
        let none = &first[format!("{table}Table")][0];
        assert_eq!(none, &serde_json::json!({}), "{table}: entry 0 must be empty");
    }
    assert_eq!(first["stringTable"][0], "");
}
