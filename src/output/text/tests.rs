//! Tests of events, notes and rows as text, byte for byte.

use super::*;
use crate::base::event::value::Value;
use crate::base::kernel::address::is_kernel_address;
use crate::base::report::cell::Cell;
use crate::base::report::draw::{Align, Column};
use crate::base::report::draw::{Style, Table};
use crate::base::report::frame::Frame;
use crate::base::report::run_stats::JitStats;
use crate::output::test_support::{
    Closed, TestContext, draw_event, drawn, drawn_with, named, stamp,
};
use jiff::tz::TimeZone;

fn text(text: &str) -> Cell {
    Cell::Text(text.into())
}

/// Returns a table of one column and one cell.
fn one_cell(title: &str, cell: Cell) -> Report {
    let (align, decimals, shrinks, arrow, json_only, spare) =
        (Align::Left, None, false, false, false, false);
    let (title, key, metric) = (title.to_owned(), title.to_owned(), Default::default());
    let column =
        Column { title, key, width: 0, align, decimals, shrinks, arrow, json_only, spare, metric };
    let columns = vec![column];
    let (name, title, style, samples) = ("t".into(), None, Style::Plain, 0);
    Report::Table(Table {
        name,
        title,
        style,
        samples,
        columns,
        rows: vec![vec![cell]].into(),
        hidden: 0,
    })
}

#[test]
fn an_event_is_a_line_with_its_frames_below() {
    let fields = [
        ("sig", Value::Int(9)),
        ("errno", Value::Int(0)),
        ("comm", Value::Text(b"nginx")),
        ("ip", Value::Pointer(0xffffffff81c01f58)),
    ];
    let stack = [named("__send_signal"), named("do_send_sig_info")];
    let out = drawn(|text| {
        draw_event(text, &fields, &TestContext { stack: &stack, ..TestContext::default() });
    });
    assert_eq!(
        out,
        "\
2026-11-21 09:00:00.100000             bash    300 .... [000] 0.100000: signal:signal_generate: \
sig=9 errno=0 comm=nginx ip=0xffffffff81c01f58
        __send_signal
        do_send_sig_info
"
    );
}

#[test]
fn a_counter_sample_is_formatted_as_by_perf_script() {
    let fields = [
        ("period", Value::Uint(16854)),
        ("ip", Value::Pointer(0xffff_ffff_824b_84f6)),
        ("addr", Value::Pointer(0x7f00)),
    ];
    let frame = |address, symbol: &str, dso: &str, inlined| Frame {
        address,
        offset: 6,
        symbol: Some(symbol.into()),
        dso: Some(dso.into()),
        kernel: is_kernel_address(address),
        inlined,
        line: None,
    };
    let stack = [
        frame(0xffff_ffff_824b_84f6, "native_write_msr", "[kernel]", false),
        frame(0x118e5f, "__ppoll", "/usr/lib/libc.so.6", true),
        frame(0x11b66, "main", "/usr/sbin/sshd", false),
    ];
    let around = TestContext {
        stamp: stamp(430_947_269_426_000),
        comm: b"sshd",
        tid: 50588,
        name: "cycles",
        period: Some(16854),
        ..TestContext::default()
    };
    let out = drawn(|text| {
        draw_event(text, &fields[..2], &TestContext { stack: &stack, ..around });
        draw_event(text, &fields, &around);
    });
    assert_eq!(
        out,
        "\
sshd 50588 430947.269426:      16854 cycles:
        ffffffff824b84f6 native_write_msr+0x6 ([kernel])
                  118e5f __ppoll+0x6 (inlined)
                   11b66 main+0x6 (/usr/sbin/sshd)

sshd 50588 430947.269426:      16854 cycles: ip=0xffffffff824b84f6 addr=0x7f00
"
    );
}

#[test]
fn values_of_a_script_are_printed_above_the_event() {
    let extra = [
        ("inside".to_owned(), text("__raw_spin_lock_irqsave;evil")),
        ("late_us".to_owned(), Cell::whole(30000)),
    ];
    let out = drawn(|text| {
        draw_event(
            text,
            &[("x", Value::Int(1))],
            &TestContext {
                extra: &extra,
                comm: b"a",
                tid: 10,
                cpu: 17,
                flags: *b"dNh1",
                stamp: Stamp { clock_ns: 15_504_452_408_994_999, ..stamp(45_000_000) },
                name: "cpu-clock",
                ..TestContext::default()
            },
        );
    });
    assert_eq!(
        out,
        "\
* inside=__raw_spin_lock_irqsave;evil late_us=30000
2026-11-21 09:00:00.045000                a     10 dNh1 [017] 15504452.408994: cpu-clock: x=1
"
    );
}

#[test]
fn no_escape_sequence_reaches_the_terminal() {
    let stack = [named("\x1b]0;owned\x07")];
    let extra = [("a\x1b".to_owned(), text("\x1b[2J\n"))];
    let fields =
        [("comm", Value::Text(b"\x1b[31m\xff")), ("path", Value::Text(b"two words=\"x\""))];
    let (results, stderr) = drawn_with(
        |_| {},
        |text| {
            draw_event(
                text,
                &fields,
                &TestContext {
                    comm: b"\x1b[2Jevil",
                    stack: &stack,
                    extra: &extra,
                    flags: *b"\x1b[2J",
                    ..TestContext::default()
                },
            );
            text.note(stamp(0), Level::Alert, "a\x1b[2J\nb");
            text.note(stamp(0), Level::Warning, "a\x1b[2J\nb\tc");
            text.report(stamp(0), &[one_cell("k\x1b", Cell::Text("\x1b[2J\u{9b}2J".into()))]);
        },
    );
    let controls = |c: char| c.is_control() && c != '\n';
    assert!(!results.contains(controls), "{results:?}");
    assert!(results.contains(r"    \x1b[2Jevil    300 .[2J [000]"), "{results}");
    assert!(results.contains(r#"comm="\x1b[31m\xff" path="two words=\"x\"""#), "{results}");
    assert!(results.contains(r"ALERT a\x1b[2J\nb"), "{results}");
    assert_eq!(stderr, "perilune: warning: a\\x1b[2J\\nb\tc\n");
}

#[test]
fn a_row_on_its_own_is_a_line_with_its_time() {
    let row = Report::Row(vec![
        ("ancestry".into(), text("bash <- sshd")),
        ("pid".into(), Cell::whole(100)),
        ("unit".into(), Cell::Empty),
    ]);
    assert_eq!(
        drawn(|text| text.report(stamp(100_000_000), &[row])),
        "2026-11-21 09:00:00.100000 ancestry=bash <- sshd pid=100 unit=-\n"
    );
}

#[test]
fn coverage_is_omitted_if_perfect_and_suggests_a_ring_size_if_not() {
    let perfect = Coverage { events: 1000, ..Coverage::default() };
    assert_eq!(drawn(|text| text.coverage(stamp(0), &perfect, true)), "");
    let missed = Coverage { lost: 312, unsafe_: 2, exited: 1, ..perfect };
    assert_eq!(
        drawn(|text| text.coverage(stamp(0), &missed, false)),
        "coverage: 312 lost, 2 unsafe; a larger ring loses less: -m 1024\n"
    );
    let replayed = drawn_with(|look| look.pages = 0, |text| text.coverage(stamp(0), &missed, true));
    assert_eq!(replayed.0, "coverage: 312 lost, 2 unsafe\n");
}

#[test]
fn the_share_of_starts_that_are_missing_from_the_tables_is_shown() {
    let of = |unmatched, unsafe_, starts| {
        let coverage = Coverage { unmatched, unsafe_, starts, ..Coverage::default() };
        drawn(|text| text.coverage(stamp(0), &coverage, false))
    };
    assert_eq!(
        of(558, 2, 600),
        "coverage: 558 unmatched, 2 unsafe; \
         560 of 600 starts (93 %) were not paired and are missing above\n"
    );
    assert_eq!(
        of(1, 0, 1000),
        "coverage: 1 unmatched; 1 of 1000 starts (under 1 %) was not paired and is missing above\n"
    );
    assert_eq!(of(0, 0, 600), "");
}

#[test]
fn undelivered_events_are_explained() {
    let coverage = Coverage { undelivered: 7, ..Coverage::default() };
    let out = drawn(|text| text.coverage(stamp(0), &coverage, true));
    assert!(out.starts_with("coverage: 7 undelivered; the kernel counted"), "{out}");
}

#[test]
fn one_error_is_singular() {
    let of = |errors| {
        let coverage = Coverage { errors, ..Coverage::default() };
        drawn(|text| text.coverage(stamp(0), &coverage, false))
    };
    assert_eq!([of(1), of(2)], ["coverage: 1 error\n", "coverage: 2 errors\n"]);
}

#[test]
fn the_coverage_of_the_run_is_not_repeated() {
    let one = Coverage { unmatched: 1, ..Coverage::default() };
    let two = Coverage { unmatched: 2, ..Coverage::default() };
    let out = drawn(|text| {
        text.coverage(stamp(0), &one, false);
        text.coverage(stamp(1), &one, true);
    });
    assert_eq!(out, "coverage: 1 unmatched\n");
    let out = drawn(|text| {
        text.coverage(stamp(0), &one, false);
        text.coverage(stamp(1), &one, false);
        text.coverage(stamp(2), &two, true);
    });
    assert_eq!(
        out,
        "coverage: 1 unmatched\ncoverage: 1 unmatched\ncoverage of the run: 2 unmatched\n"
    );
}

#[test]
fn notes_go_to_stderr_and_alerts_to_the_results() {
    let say = |text: &mut TextOutput| {
        text.note(stamp(5_000_000), Level::Info, "ring of 512 pages");
        text.note(stamp(5_000_000), Level::Warning, "one event is absent");
        text.note(stamp(5_000_000), Level::Alert, "8192: fires 200 times a second");
        text.note(stamp(5_000_000), Level::Error, "x.lua:3: no field");
        text.stats(
            stamp(0),
            &Stats {
                events: 1000,
                ns_per_event: Some(15.26),
                report_cpu_ns: 4000,
                own_cpu_ns: 15_260,
                lost: 0,
                max_rss_kb: 18_432,
                start_ms: 43.21,
                compiler: JitStats { traces: 12, aborted: 3, flushed: 1, interpreted: Some(0.251) },
                budget: None,
                program_ns: Some(52.4),
            },
        );
        text.stats(stamp(0), &Stats { events: 3, own_cpu_ns: 16_000_000, ..Stats::default() });
    };
    let (results, stderr) = drawn_with(|_| {}, say);
    assert_eq!(results, "2026-11-21 09:00:00.005000 ALERT 8192: fires 200 times a second\n");
    assert_eq!(
        stderr,
        "perilune: note: ring of 512 pages
perilune: warning: one event is absent
perilune: x.lua:3: no field
perilune: 1000 events, 15.3 ns each, 52 ns each in the kernel; own CPU 15.26us, \
4us of it for reports, 0 lost, peak memory 18MiB, first drain after 43.2 ms; 12 traces, 3 aborted, flushed once, 25 % interpreted
perilune: 3 events; own CPU 16ms, 0 lost, peak memory 0B, first drain after 0.0 ms; 0 traces, \
0 aborted
"
    );
    let (results, stderr) = drawn_with(|look| look.quiet = true, say);
    assert!(
        results.contains("ALERT")
            && stderr.starts_with("perilune: x.lua:3: no field\nperilune: 1000 events")
    );
}

#[test]
fn colour_marks_stamps_titles_and_alerts() {
    let part = one_cell("c", Cell::whole(1));
    let (results, _) = drawn_with(
        |look| look.colour = Colour::Always,
        |text| {
            text.report(stamp(0), &[part]);
            text.note(stamp(0), Level::Alert, "a");
        },
    );
    let dim = "\x1b[2m2026-11-21 09:00:00.000000\x1b[0m";
    assert_eq!(results, format!("{dim} \n\x1b[1mc\x1b[0m\n1\n{dim} \x1b[31mALERT a\x1b[0m\n"));
}

#[test]
fn omitted_columns_are_listed_once() {
    let part = || {
        let mut part = one_cell("p50", Cell::whole(1));
        if let Report::Table(table) = &mut part {
            table.columns.iter_mut().for_each(|column| column.spare = true);
        }
        part
    };
    let lists = |columns: fn() -> Option<usize>| {
        let draw = |text: &mut TextOutput| {
            text.report(stamp(0), &[part()]);
            text.report(stamp(0), &[part()]);
        };
        drawn_with(|look| look.columns = columns, draw).0.matches("also shows p50)").count()
    };
    assert_eq!((lists(|| Some(2)), lists(|| Some(80)), lists(|| None)), (1, 0, 0));
}

#[test]
fn a_closed_reader_is_an_error_of_the_flush() {
    let look = TextOptions {
        zone: TimeZone::UTC,
        colour: Colour::Never,
        quiet: false,
        stacks: StackStyle::default(),
        columns: || None,
        together: false,
        pages: 0,
    };
    let mut text = TextOutput::new(Box::new(Closed), Box::new(Closed), look);
    text.note(stamp(0), Level::Warning, "not delivered");
    assert!(text.flush_if_large().is_ok());
    draw_event(&mut text, &[], &TestContext::default());
    assert_eq!(text.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    for _ in 0..2000 {
        draw_event(&mut text, &[("x", Value::Int(1))], &TestContext::default());
    }
    assert_eq!(text.flush_if_large().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert!(text.flush_if_large().is_ok(), "unwritten output is dropped");
}

#[test]
fn an_event_prints_by_its_format_or_its_fields() {
    let format: &dyn Fn(&mut Vec<u8>) -> bool = &|out| {
        out.extend_from_slice(b"sig=9 comm=\x1b[31mred\n");
        true
    };
    let fields = [("sig", Value::Int(9))];
    let line = |text| {
        let all = drawn(|draw| {
            draw_event(draw, &fields, &TestContext { text, ..TestContext::default() });
        });
        all.split_once("signal_generate:").unwrap().1.to_owned()
    };
    assert_eq!(line(EventText::Format(format)), " sig=9 comm=\\x1b[31mred\\n\n");
    let format = &|out: &mut Vec<u8>| {
        out.extend_from_slice(b"a\tb\r");
        true
    };
    assert_eq!(
        line(EventText::Format(format)),
        " a\tb\\r\n",
        "only tabs of the format are printed"
    );
    assert_eq!(line(EventText::Format(&|_| false)), " sig=9\n");
    assert_eq!(line(EventText::Printer(b"nine")), " nine\n");
    assert_eq!(line(EventText::Fields), " sig=9\n");
}

#[test]
fn thinned_events_are_counted_and_explained() {
    let coverage = Coverage { thinned: Some(700), lost: 2, ..Coverage::default() };
    let out = drawn(|text| text.coverage(stamp(0), &coverage, false));
    assert!(out.starts_with("coverage: 2 lost, 700 thinned; "), "{out}");
    assert!(out.contains("± is the 95 % confidence interval"), "{out}");
    let exact = Coverage { thinned: Some(0), ..Coverage::default() };
    assert_eq!(drawn(|text| text.coverage(stamp(0), &exact, false)), "");
}
