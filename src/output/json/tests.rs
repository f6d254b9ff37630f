//! Tests of JSON lines, byte for byte.

use super::*;
use crate::base::report::draw::{Align, Bucket, Style};
use crate::base::report::run_stats::BudgetStats;
use crate::output::test_support::{Closed, TestContext, Written, draw_event, named, stamp};
use proptest::prelude::*;

fn drawn(draw: impl FnOnce(&mut Json)) -> String {
    let results = Written::default();
    let mut json = Json::new(Box::new(results.clone()), "who-kills", StackStyle::default());
    draw(&mut json);
    json.flush().unwrap();
    results.text()
}

fn read(line: &str) -> serde_json::Map<String, serde_json::Value> {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn column(key: &str) -> Column {
    let (title, key) = (key.to_uppercase(), key.to_owned());
    Column {
        title,
        key,
        width: 0,
        align: Align::Left,
        decimals: Some(1),
        arrow: false,
        shrinks: false,
        json_only: false,
        spare: false,
        metric: Default::default(),
    }
}

#[test]
fn an_event_has_the_keys_of_its_sample_and_its_fields() {
    let fields = [
        ("sig", Value::Int(-9)),
        ("comm", Value::Text(b"nginx")),
        ("pid", Value::Int(100)),
        ("pid_", Value::Uint(u64::MAX)),
        ("ip", Value::Pointer(0xffffffff81c01f58)),
        ("raw", Value::Bytes(&[0, 255])),
    ];
    let extra =
        [("sig".to_owned(), Cell::Text("KILL".into())), ("late_us".to_owned(), Cell::Num(0.5))];
    let stack = [named("a"), named("b\"")];
    let out = drawn(|json| {
        draw_event(
            json,
            &fields,
            &TestContext { extra: &extra, stack: &stack, ..TestContext::default() },
        );
    });
    assert_eq!(
        out,
        concat!(
            r#"{"type":"event","time":"2026-11-21T09:00:00.100000Z","monitor":"who-kills","#,
            r#""event":"signal:signal_generate","cpu":0,"pid":300,"tid":300,"comm":"bash","#,
            r#""sig":-9,"comm_":"nginx","pid_":100,"pid__":18446744073709551615,"#,
            r#""ip":"0xffffffff81c01f58","raw":"00ff","sig_":"KILL","late_us":0.5,"#,
            r#""stack":["a","b\""]}"#,
            "\n"
        )
    );
}

#[test]
fn array_fields_are_json_arrays() {
    let bytes: Vec<u8> = [1i16, -2].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let array = Value::Array { bytes: &bytes, size: 2, signed: true };
    let out = drawn(|json| draw_event(json, &[("list", array)], &TestContext::default()));
    assert!(out.contains(r#""list":[1,-2]}"#), "{out}");
}

#[test]
fn a_row_has_a_key_per_column_and_exact_numbers() {
    let table = Table {
        name: "calls".into(),
        title: None,
        style: Style::Plain,
        samples: 0,
        hidden: 3,
        columns: vec![
            column("time"),
            column("total_us"),
            Column { json_only: true, ..column("p99_us") },
            column("sum"),
        ],
        rows: vec![vec![
            Cell::Text("x".into()),
            Cell::Num(1234.5678),
            Cell::Empty,
            Cell::whole(1 << 70),
        ]]
        .into(),
    };
    let row = Report::Row(vec![
        ("signal".into(), Cell::Text("KILL".into())),
        ("bad".into(), Cell::Num(f64::NAN)),
    ]);
    assert_eq!(
        drawn(|json| json.report(stamp(0), &[Report::Table(table), row])),
        concat!(
            r#"{"type":"row","time":"2026-11-21T09:00:00.000000Z","monitor":"who-kills","#,
            r#""table":"calls","#,
            r#""time_":"x","total_us":1234.5678,"p99_us":null,"sum":1180591620717411303424}"#,
            "\n",
            r#"{"type":"hidden","time":"2026-11-21T09:00:00.000000Z","monitor":"who-kills","#,
            r#""table":"calls","rows":3}"#,
            "\n",
            r#"{"type":"row","time":"2026-11-21T09:00:00.000000Z","monitor":"who-kills","#,
            r#""table":"who-kills","#,
            r#""signal":"KILL","bad":null}"#,
            "\n"
        )
    );
}

#[test]
fn a_histogram_is_one_object() {
    let hist = DrawnHistogram {
        name: "runs".into(),
        title: "run time".into(),
        unit: "ns".into(),
        keys: vec![("comm".into(), Cell::Text("redis".into())), ("name".into(), Cell::whole(1))],
        buckets: vec![
            Bucket { low: 0, high: 1, count: 2 },
            Bucket { low: 2, high: i64::MAX, count: u64::MAX },
        ],
        errors: vec![],
    };
    assert_eq!(
        drawn(|json| json.report(stamp(0), &[Report::Hist(hist)])),
        concat!(
            r#"{"type":"hist","time":"2026-11-21T09:00:00.000000Z","monitor":"who-kills","#,
            r#""name":"runs","unit":"ns","#,
            r#""comm":"redis","name_":1,"#,
            r#""buckets":[[0,1,2],[2,9223372036854775807,18446744073709551615]]}"#,
            "\n"
        )
    );
}

/// Programs depend on these keys: a key may be added at the end, never renamed or removed.
#[test]
fn the_keys_of_each_type_are_stable() {
    let out = drawn(|json| {
        draw_event(json, &[], &TestContext::default());
        json.note(stamp(0), Level::Alert, "x\x1b");
        json.coverage(stamp(0), &Coverage { lost: 3, ..Coverage::default() }, true);
        json.stats(stamp(0), &Stats::default());
    });
    let keys = out.lines().map(|line| read(line).keys().cloned().collect::<Vec<_>>().join(" "));
    let sorted = |keys: &str| {
        let mut keys: Vec<&str> = keys.split(' ').collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    let expected = [
        sorted("type time monitor event cpu pid tid comm"),
        sorted("type time monitor level text"),
        sorted(
            "type time monitor final events filtered lost throttled undecodable unmatched unsafe \
             exited evicted truncated disordered undefined errors multiplexed clamped undelivered \
             starts open",
        ),
        sorted(
            "type time monitor events own_cpu_ns ns_per_event report_cpu_ns lost max_rss_kb start_ms traces \
             traces_aborted traces_flushed interpreted",
        ),
    ];
    assert_eq!(keys.map(|keys| sorted(&keys)).collect::<Vec<_>>(), expected);
    assert!(out.contains(r#""level":"alert","text":"x\u001b"}"#), "{out}");
    assert!(out.contains(r#""final":true,"events":0,"filtered":0,"lost":3"#), "{out}");
}

#[test]
fn invalid_bytes_and_harmful_characters_are_escaped() {
    let out = drawn(|json| {
        draw_event(
            json,
            &[("t", Value::Text(b"a\xff\x7f\\\xe2\x80\xae\t"))],
            &TestContext::default(),
        );
    });
    assert!(out.contains(r#""t":"a\\xff\u007f\\\u202e\t"}"#), "{out}");
}

#[test]
fn a_report_of_many_rows_is_written_before_it_is_complete() {
    let rows: Vec<Vec<Cell>> = (0..2000).map(|row| vec![Cell::whole(row)]).collect();
    let table = Table {
        name: "calls".into(),
        title: None,
        style: Style::Plain,
        samples: 0,
        hidden: 0,
        columns: vec![column("n")],
        rows: rows.into(),
    };
    let report = [Report::Table(table)];
    let (results, stamp) = (Written::default(), stamp(0));
    let mut json = Json::new(Box::new(results.clone()), "m", StackStyle::default());
    json.report(stamp, &report);
    let early = results.text().lines().count();
    assert!((1000..2000).contains(&early), "{early} rows");
    json.flush().unwrap();
    assert_eq!(results.text().lines().count(), 2000);

    let mut json = Json::new(Box::new(Closed), "m", StackStyle::default());
    json.report(stamp, &report);
    assert_eq!(json.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert!(json.flush().is_ok(), "an error is returned once");
}

#[test]
fn a_closed_reader_is_an_error_of_the_flush() {
    let mut json = Json::new(Box::new(Closed), "m", StackStyle::default());
    draw_event(&mut json, &[], &TestContext::default());
    assert_eq!(json.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

proptest! {
    #[test]
    fn every_object_round_trips_with_all_fields(
        names in proptest::collection::vec("(comm|pid|type|stack|x|[a-z]{1,3})_{0,2}", 0..12),
        text: Vec<u8>,
        string: String,
    ) {
        let fields: Vec<(&str, Value<'_>)> =
            names.iter().map(|name| (name.as_str(), Value::Text(&text))).collect();
        let extra: Vec<(String, Cell)> =
            names.iter().map(|name| (name.clone(), Cell::Text(string.clone()))).collect();
        let out = drawn(|json| {
            draw_event(json, &fields, &TestContext { extra: &extra, ..TestContext::default() });
        });
        let object = read(&out);
        prop_assert_eq!(object.len(), 8 + 2 * names.len());
        prop_assert_eq!(&object["comm"], "bash");
        prop_assert_eq!(&object["pid"], 300);
        prop_assert!(
            object.values().filter(|value| *value == string.as_str()).count() >= names.len()
        );
    }
}

#[test]
fn an_estimated_histogram_has_the_error_of_each_count() {
    let hist = DrawnHistogram {
        name: "runs".into(),
        title: "run time".into(),
        unit: String::new(),
        keys: vec![],
        buckets: vec![Bucket { low: 0, high: 1, count: 20 }, Bucket { low: 2, high: 3, count: 1 }],
        errors: vec![5.5, 0.0],
    };
    let json = drawn(|json| json.report(stamp(0), &[Report::Hist(hist)]));
    assert!(json.contains(r#""buckets":[[0,1,20],[2,3,1]],"count_errors":[5.5,"#), "{json}");
}

#[test]
fn a_run_with_a_budget_has_its_cost_and_the_number_of_thinned_events() {
    let budget = BudgetStats {
        budget_percent: 1.0,
        own_percent: 0.25,
        kernel_percent: 0.5,
        one_in_max: 101,
        one_in_time_max: 4,
    };
    let stats = Stats { budget: Some(budget), ..Stats::default() };
    let json = drawn(|json| {
        json.stats(stamp(0), &stats);
        json.coverage(stamp(0), &Coverage { thinned: Some(9), ..Coverage::default() }, true);
    });
    assert!(json.contains(r#""cost_percent":0.75,"#) && json.contains(r#""one_in_max":101,"#));
    assert!(json.contains(r#""one_in_time_max":4}"#), "{json}");
    assert!(json.contains(r#""thinned":9,"#), "{json}");
}
