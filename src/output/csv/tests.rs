//! Headers, quoting and escapes of CSV, byte for byte.

use super::*;
use crate::base::event::value::{Value, ValueType};
use crate::base::report::draw::{Align, Bucket, Column, Style, Table};
use crate::output::Colour;
use crate::output::test_support::{Closed, TestContext, Written, draw_event, named, stamp};
use crate::output::text::TextOptions;
use proptest::prelude::*;

fn csv(results: Box<dyn Write>, messages: Box<dyn Write>) -> Csv {
    let look = TextOptions {
        zone: TimeZone::UTC,
        colour: Colour::Never,
        quiet: false,
        stacks: StackStyle::default(),
        columns: || None,
        together: false,
        pages: 0,
    };
    Csv::new(results, messages, "m", look)
}

/// Returns the results and the messages.
fn drawn(draw: impl FnOnce(&mut Csv)) -> (String, String) {
    let (results, messages) = (Written::default(), Written::default());
    let mut csv = csv(Box::new(results.clone()), Box::new(messages.clone()));
    draw(&mut csv);
    csv.flush().unwrap();
    (results.text(), messages.text())
}

fn table(name: &str, keys: &[&str], rows: Vec<Vec<Cell>>) -> Report {
    limited_table(name, keys, rows, 0)
}

/// Returns a table of which `hidden` rows are beyond its limit.
fn limited_table(name: &str, keys: &[&str], rows: Vec<Vec<Cell>>, hidden: u64) -> Report {
    let column = |key: &&str| Column {
        title: key.to_uppercase(),
        key: (*key).to_owned(),
        width: 0,
        align: Align::Left,
        decimals: Some(1),
        arrow: false,
        shrinks: false,
        json_only: false,
        spare: false,
        metric: Default::default(),
    };
    let columns = keys.iter().map(column).collect();
    let (title, style, rows) = (None, Style::Plain, rows.into());
    Report::Table(Table { name: name.to_owned(), title, style, samples: 0, columns, rows, hidden })
}

#[test]
fn a_table_is_a_header_and_rows_also_over_several_intervals() {
    let rows = |n| vec![vec![Cell::Text("a,\"b\"".into()), Cell::Num(n), Cell::Empty]];
    let (out, _) = drawn(|csv| {
        csv.report(stamp(0), &[table("calls", &["comm", "max_us", "p99_us"], rows(1.25))]);
        csv.report(stamp(1_000), &[table("calls", &["comm", "max_us", "p99_us"], rows(f64::NAN))]);
    });
    assert_eq!(
        out,
        "time,table,comm,max_us,p99_us\n\
         2026-11-21T09:00:00.000000Z,calls,\"a,\"\"b\"\"\",1.25,\n\
         2026-11-21T09:00:00.000001Z,calls,\"a,\"\"b\"\"\",,\n"
    );
}

#[test]
fn all_parts_of_a_report_share_one_header_which_is_not_repeated() {
    let hist = DrawnHistogram {
        name: "runs".into(),
        title: "run time".into(),
        unit: "ns".into(),
        keys: vec![("comm".into(), Cell::Text("sh".into()))],
        buckets: vec![Bucket { low: 0, high: 1, count: 2 }, Bucket { low: 2, high: 3, count: 0 }],
        errors: vec![],
    };
    let row =
        Report::Row(vec![("on".into(), Cell::Bool(true)), ("n".into(), Cell::whole(1 << 70))]);
    let calls =
        || table("calls", &["comm", "count"], vec![vec![Cell::Text("a".into()), Cell::whole(4)]]);
    let (out, _) = drawn(|csv| {
        csv.report(stamp(0), &[calls(), Report::Hist(hist), row]);
        csv.report(stamp(1_000), &[calls()]);
    });
    assert_eq!(
        out,
        "time,table,comm,count,unit,low,high,on,n\n\
         2026-11-21T09:00:00.000000Z,calls,a,4,,,,,\n\
         2026-11-21T09:00:00.000000Z,runs,sh,2,ns,0,1,,\n\
         2026-11-21T09:00:00.000000Z,runs,sh,0,ns,2,3,,\n\
         2026-11-21T09:00:00.000000Z,m,,,,,,true,1180591620717411303424\n\
         2026-11-21T09:00:00.000001Z,calls,a,4,,,,,\n"
    );
}

#[test]
fn estimated_counts_of_a_histogram_have_their_errors() {
    let hist = |errors| {
        Report::Hist(DrawnHistogram {
            name: "sizes".into(),
            title: "size".into(),
            unit: "bytes".into(),
            keys: vec![],
            buckets: vec![
                Bucket { low: 0, high: 1, count: 20 },
                Bucket { low: 2, high: 3, count: 9 },
            ],
            errors,
        })
    };
    let (out, _) = drawn(|csv| csv.report(stamp(0), &[hist(vec![7.5, 3.0])]));
    assert_eq!(
        out,
        "time,table,unit,low,high,count,count_error\n\
         2026-11-21T09:00:00.000000Z,sizes,bytes,0,1,20,7.5\n\
         2026-11-21T09:00:00.000000Z,sizes,bytes,2,3,9,3\n"
    );
    let (out, _) = drawn(|csv| csv.report(stamp(0), &[hist(vec![])]));
    assert!(out.starts_with("time,table,unit,low,high,count\n"), "{out}");
}

#[test]
fn a_header_is_repeated_only_for_new_columns_and_after_the_other_kind_of_rows() {
    let one = |name: &str, key: &str| table(name, &[key], vec![vec![Cell::whole(1)]]);
    let empty = table("empty", &["never"], Vec::new());
    let (out, _) = drawn(|csv| {
        csv.report(stamp(0), &[one("a", "x"), empty]);
        csv.report(stamp(0), &[one("b", "time"), one("a", "x")]);
        draw_event(csv, &[], &TestContext::default());
        draw_event(csv, &[], &TestContext::default());
        csv.report(stamp(0), &[one("a", "x")]);
    });
    let lines: Vec<&str> = out.lines().map(|line| line.split("Z,").last().unwrap()).collect();
    let event = "signal:signal_generate,0,300,300,bash,,";
    let events = "time,event,cpu,pid,tid,comm,extra,stack";
    let expected = [
        &["time,table,x", "a,1", "", "time,table,x,time_", "b,,1", "a,1,"][..],
        &["", events, event, event, "", "time,table,x,time_", "a,1,"],
    ];
    assert_eq!(lines, expected.concat());
}

#[test]
fn the_columns_of_events_are_the_fields_of_all_of_them() {
    let text = |name: &str| (name.to_owned(), ValueType::Text.into());
    let opened = [
        OpenedEvent {
            name: "signal:signal_generate".into(),
            fields: vec![text("comm"), text("sig")],
        },
        OpenedEvent { name: "s:y".into(), fields: vec![text("sig"), text("ip")] },
    ];
    let (out, _) = drawn(|csv| {
        csv.opened(&opened);
        let extra = [("=late".to_owned(), Cell::Num(0.5))];
        let around = TestContext { extra: &extra, ..TestContext::default() };
        draw_event(csv, &[("comm", Value::Text(b"sh")), ("sig", Value::Int(-9))], &around);
        let stack = [named("a"), named("b")];
        let around = TestContext { name: "s:y", stack: &stack, ..TestContext::default() };
        let list = Value::Array { bytes: &[1, 2], size: 1, signed: false };
        draw_event(csv, &[("sig", list), ("ip", Value::Pointer(0xffff))], &around);
    });
    assert_eq!(
        out,
        "time,event,cpu,pid,tid,comm,comm_,sig,ip,extra,stack\n\
         2026-11-21T09:00:00.100000Z,signal:signal_generate,0,300,300,bash,sh,-9,,'=late=0.5,\n\
         2026-11-21T09:00:00.100000Z,s:y,0,300,300,bash,,\"[1,2]\",0xffff,,a;b\n"
    );
}

#[test]
fn fields_of_an_event_that_was_not_announced_are_kept() {
    let (out, _) = drawn(|csv| {
        draw_event(
            csv,
            &[("x", Value::Int(1)), ("y", Value::Text(b"a b"))],
            &TestContext::default(),
        );
    });
    assert!(out.ends_with(",bash,\"x=1 y=\"\"a b\"\"\",\n"), "{out}");
}

#[test]
fn text_is_neither_a_formula_nor_a_control_sequence() {
    for (text, cell) in [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("-x", "'-x"),
        ("+x", "'+x"),
        ("-5", "-5"),
        ("a=b", "a=b"),
        ("\x1b[2J\n", "\\x1b[2J\\n"),
    ] {
        let rows = vec![vec![Cell::Text(text.into())]];
        let (out, _) = drawn(|csv| csv.report(stamp(0), &[table("t", &["k"], rows)]));
        assert!(out.ends_with(&format!(",t,{cell}\n")), "{out}");
    }
}

#[test]
fn notes_and_coverage_are_messages() {
    let (out, messages) = drawn(|csv| {
        csv.note(stamp(0), Level::Warning, "one event is absent");
        csv.note(stamp(0), Level::Alert, "hot");
        csv.coverage(stamp(0), &Coverage { lost: 3, ..Coverage::default() }, true);
        csv.coverage(stamp(0), &Coverage::default(), true);
    });
    assert_eq!(out, "");
    assert_eq!(
        messages,
        "perilune: warning: one event is absent\nperilune: ALERT hot\n\
         perilune: coverage of the run: 3 lost\n"
    );
}

#[test]
fn a_report_of_many_rows_is_written_before_it_is_complete() {
    let rows = (0..10_000).map(|row| vec![Cell::whole(row)]).collect();
    let results = Written::default();
    let mut csv = csv(Box::new(results.clone()), Box::new(std::io::sink()));
    csv.report(stamp(0), &[table("calls", &["n"], rows)]);
    let early = results.text().lines().count();
    assert!((5000..10_000).contains(&early), "{early} lines");
    csv.flush().unwrap();
    assert_eq!(results.text().lines().count(), 10_001, "one header");
}

#[test]
fn rows_beyond_the_limit_of_a_table_are_counted_at_the_end() {
    let rows = || vec![vec![Cell::whole(1)]];
    let (_, messages) = drawn(|csv| {
        csv.quiet = true;
        let other = limited_table("other", &["n"], rows(), 1);
        csv.report(stamp(0), &[limited_table("calls", &["n"], rows(), 3), other]);
        csv.report(stamp(1), &[limited_table("calls", &["n"], rows(), 4)]);
        csv.report(stamp(2), &[table("calls", &["n"], rows()), table("all", &["n"], rows())]);
        csv.end().unwrap();
        csv.end().unwrap();
    });
    let limit = "beyond the limit of the table (--rows, or `top` in the script)";
    assert_eq!(
        messages,
        format!(
            "perilune: table calls: omitted 7 further rows in 2 reports, {limit}\n\
             perilune: table other: omitted 1 further row in 1 report, {limit}\n"
        )
    );
}

#[test]
fn a_closed_reader_is_an_error_of_the_flush() {
    let mut csv = csv(Box::new(Closed), Box::new(Written::default()));
    draw_event(&mut csv, &[], &TestContext::default());
    assert_eq!(csv.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

proptest! {
    #[test]
    fn each_record_is_a_line_with_all_columns(texts in proptest::collection::vec(".{0,9}", 1..6)) {
        let keys: Vec<String> = (0..texts.len()).map(|i| format!("k{i}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let row: Vec<Cell> = texts.iter().map(|text| Cell::Text(text.clone())).collect();
        let (out, _) = drawn(|csv| csv.report(stamp(0), &[table("t", &keys, vec![row])]));
        let mut reader = csv_core::Reader::new();
        let (mut text, mut ends) = (vec![0; 4096], vec![0; 64]);
        let (_, header, _, _) = reader.read_record(out.as_bytes(), &mut text, &mut ends);
        let (_, _, _, columns) =
            reader.read_record(&out.as_bytes()[header..], &mut text, &mut ends);
        prop_assert_eq!(columns, texts.len() + 2);
        prop_assert_eq!(out.lines().count(), 2);
    }
}
