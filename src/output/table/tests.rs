//! Tests of tables and histograms as text, byte for byte.

use super::*;
use crate::base::report::cell::StackCell;
use crate::base::report::draw::{Bucket, Column, Draw, Report};
use crate::output::test_support::{Written, drawn, stamp};

fn column(title: &str, width: usize, align: Align) -> Column {
    let decimals = title.contains("(us)").then_some(3);
    let (title, key, metric) = (title.to_owned(), title.to_owned(), Default::default());
    let (shrinks, arrow, json_only, spare) = (false, false, false, false);
    Column { title, key, width, align, decimals, shrinks, arrow, json_only, spare, metric }
}

fn left(title: &str, width: usize) -> Column {
    column(title, width, Align::Left)
}

fn right(title: &str, width: usize) -> Column {
    column(title, width, Align::Right)
}

fn table(style: Style, columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Table {
    let (name, rows) = ("t".into(), rows.into());
    Table { name, title: None, style, samples: 0, columns, rows, hidden: 0 }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.into())
}

/// Returns the columns of a latency table after its keys.
fn latencies() -> [Column; 5] {
    [
        right("calls", 8),
        right("total(us)", 16),
        right("min(us)", 9),
        right("avg(us)", 9),
        right("max(us)", 12),
    ]
}

fn latency(calls: i128, [total, min, avg, max]: [f64; 4]) -> [Cell; 5] {
    [Cell::whole(calls), Cell::Num(total), Cell::Num(min), Cell::Num(avg), Cell::Num(max)]
}

fn log2(counts: &[u64]) -> Vec<Bucket> {
    let bucket = |(i, &count): (usize, &u64)| Bucket {
        low: if i == 0 { 0 } else { 256 << (i - 1) },
        high: (256 << i) - 1,
        count,
    };
    counts.iter().enumerate().map(bucket).collect()
}

#[test]
fn histograms_and_ruled_tables_have_the_reference_layout() {
    let hist = DrawnHistogram {
        name: "kvm_exit".into(),
        title: "kvm-exit latency".into(),
        unit: "ns".into(),
        keys: vec![],
        buckets: log2(&[0, 2728, 53994, 12247, 718, 82]),
        errors: vec![],
    };
    let mut columns = vec![left("exit_reason", 20)];
    columns.extend(latencies());
    let rows = vec![
        [vec![text("HLT")], latency(40619, [24054882.841, 0.690, 592.207, 15776.440]).into()]
            .concat(),
        [
            vec![text("EXTERNAL_INTERRUPT")],
            latency(2035, [17504.350, 0.465, 8.601, 12116.764]).into(),
        ]
        .concat(),
    ];
    let parts = [Report::Hist(hist), Report::Table(table(Style::Ruled, columns, rows))];
    assert_eq!(
        drawn(|text| text.report(stamp(7_000_000), &parts)),
        "\
2026-11-21 09:00:00.007000\x20
     kvm-exit latency(ns) : count    distribution
         0 -> 255        : 0        |                                        |
       256 -> 511        : 2728     |**                                      |
       512 -> 1023       : 53994    |****************************************|
      1024 -> 2047       : 12247    |*********                               |
      2048 -> 4095       : 718      |                                        |
      4096 -> 8191       : 82       |                                        |
exit_reason             calls        total(us)   min(us)   avg(us)      max(us)
-------------------- -------- ---------------- --------- --------- ------------
HLT                     40619     24054882.841     0.690   592.207    15776.440
EXTERNAL_INTERRUPT       2035        17504.350     0.465     8.601    12116.764
"
    );
}

#[test]
fn a_short_title_is_padded_and_keys_are_printed_above() {
    let hist = DrawnHistogram {
        name: "runs".into(),
        title: "runtime".into(),
        unit: "ns".into(),
        keys: vec![("comm".into(), text("redis")), ("cpu".into(), Cell::whole(3))],
        buckets: vec![
            Bucket { low: -10, high: -1, count: 1 },
            Bucket { low: 0, high: 9, count: 3_000_000_000 },
        ],
        errors: vec![],
    };
    assert_eq!(
        drawn(|text| text.report(stamp(0), &[Report::Hist(hist)])),
        "\
2026-11-21 09:00:00.000000\x20
     comm=redis cpu=3
     runtime(ns)         : count      distribution
       -10 -> -1         : 1          |                                        |
         0 -> 9          : 3000000000 |****************************************|
"
    );
}

#[test]
fn bounds_of_any_size_stay_aligned() {
    let hist = DrawnHistogram {
        name: "wide".into(),
        title: "wide".into(),
        unit: String::new(),
        keys: vec![],
        buckets: vec![Bucket { low: i64::MIN, high: i64::MAX, count: u64::MAX }],
        errors: vec![],
    };
    let out = drawn(|text| text.report(stamp(0), &[Report::Hist(hist)]));
    let bars: Vec<usize> = out.lines().skip(1).map(|line| line.find(" : ").unwrap()).collect();
    assert_eq!(bars[0], bars[1], "{out}");
    assert!(
        out.contains("-9223372036854775808 -> 9223372036854775807  : 18446744073709551615 |****")
    );
}

#[test]
fn an_arrow_joins_two_columns() {
    let start = Column { arrow: true, ..right("start", 0) };
    let mut columns = vec![start, left("end", 26)];
    columns.extend(latencies());
    let pair = |a: &str, b: &str, rest: [Cell; 5]| [vec![text(a), text(b)], rest.into()].concat();
    let rows = vec![
        pair(
            "timer:hrtimer_start",
            "timer:hrtimer_expire_entry",
            latency(2, [6990.0, 1990.0, 3495.0, 5000.0]),
        ),
        pair(
            "timer:hrtimer_expire_entry",
            "timer:hrtimer_expire_exit",
            latency(2, [1.0, 0.5, 0.5, 0.5]),
        ),
    ];
    assert_eq!(
        drawn(|text| {
            text.report(stamp(8_000_000), &[Report::Table(table(Style::Ruled, columns, rows))]);
        }),
        "\
2026-11-21 09:00:00.008000\x20
                     start => end                           calls        total(us)   min(us)   avg(us)      max(us)
--------------------------    -------------------------- -------- ---------------- --------- --------- ------------
       timer:hrtimer_start => timer:hrtimer_expire_entry        2         6990.000  1990.000  3495.000     5000.000
timer:hrtimer_expire_entry => timer:hrtimer_expire_exit         2            1.000     0.500     0.500        0.500
"
    );
}

#[test]
fn plain_tables_stay_aligned_whatever_their_cells() {
    let columns = vec![left("cpu", 6), right("context-switches", 12), right("page-faults", 12)];
    let rows = vec![
        vec![text("[000]"), Cell::whole(120), Cell::whole(7)],
        vec![text("[001]"), Cell::whole((1 << 53) + 1), Cell::Empty],
    ];
    let counters = table(Style::Plain, columns, rows);
    let rows = vec![
        vec![text("nginx"), text("__kmalloc;leaky"), Cell::whole(512)],
        vec![text("träge"), text("x"), Cell::whole(1)],
    ];
    let mut leaks =
        table(Style::Plain, vec![right("comm", 8), right("stack", 8), right("bytes", 12)], rows);
    leaks.title = Some("not freed".into());
    assert_eq!(
        drawn(|text| text.report(stamp(0), &[Report::Table(counters), Report::Table(leaks)])),
        "\
2026-11-21 09:00:00.000000\x20
cpu    context-switches  page-faults
[000]               120            7
[001]  9007199254740993
not freed
    comm           stack        bytes
   nginx __kmalloc;leaky          512
   träge               x            1
"
    );
}

#[test]
fn the_title_of_top_is_printed_on_the_time_line() {
    let columns = vec![
        right("PREV_PID", 8),
        right("SCHED_SWITCH", 12),
        right("RUNTIME", 12),
        left("PREV_COMM", 0),
    ];
    let rows = vec![
        vec![Cell::whole(100), Cell::whole(1), Cell::whole(48_000_000), text("nginx")],
        vec![Cell::whole(0), Cell::whole(2), Cell::whole(0), text("swapper/1")],
    ];
    let top = Table { samples: 9022, ..table(Style::Top, columns, rows) };
    assert_eq!(
        drawn(|text| text.report(stamp(1_000_000_000), &[Report::Table(top)])),
        "\
2026-11-21 09:00:01.000000 perilune - 09:00:01  sample 9022 events
PREV_PID SCHED_SWITCH      RUNTIME PREV_COMM
     100            1     48000000 nginx
       0            2            0 swapper/1
"
    );
}

#[test]
fn empty_tables_are_omitted_and_an_empty_report_prints_a_message() {
    let empty = |name: &str| Report::Table(table(Style::Plain, vec![left(name, 0)], vec![]));
    let full = Report::Table(table(Style::Plain, vec![left("c", 0)], vec![vec![Cell::whole(1)]]));
    assert_eq!(
        drawn(|text| text.report(stamp(0), &[empty("a"), full, empty("b")])),
        "2026-11-21 09:00:00.000000 \nc\n1\n"
    );
    assert_eq!(
        drawn(|text| text.report(stamp(0), &[empty("a"), empty("b")])),
        "2026-11-21 09:00:00.000000 nothing to show\n"
    );
    assert_eq!(drawn(|text| text.report(stamp(0), &[])), "");
}

#[test]
fn keys_for_json_are_not_shown() {
    let hidden = Column { json_only: true, ..right("p99", 8) };
    let part =
        table(Style::Plain, vec![left("a", 0), hidden], vec![vec![Cell::whole(1), Cell::whole(2)]]);
    assert_eq!(
        drawn(|text| text.report(stamp(0), &[Report::Table(part)])),
        "2026-11-21 09:00:00.000000 \na\n1\n"
    );
}

#[test]
fn a_shrinking_column_drops_decimals_in_all_rows_before_it_widens() {
    let shown = |values: [f64; 2]| {
        let column = Column { shrinks: true, ..right("p99(us)", 7) };
        let rows = values.map(|value| vec![Cell::Num(value), Cell::whole(1)]).to_vec();
        let part = table(Style::Plain, vec![column, right("x", 1)], rows);
        drawn(|text| text.report(stamp(0), &[Report::Table(part)]))
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(shown([1.102, 999.5]), ["p99(us) x", "  1.102 1", "999.500 1"]);
    assert_eq!(shown([1.102, 63569.282]), ["p99(us) x", "    1.1 1", "63569.3 1"]);
    assert_eq!(shown([1.102, 12345678.9]), [" p99(us) x", "       1 1", "12345679 1"]);
}

#[test]
fn a_long_stack_is_printed_below_its_row_and_a_short_one_in_it() {
    let stack = |frames: &[&str]| {
        let frames = frames.iter().map(|frame| (*frame).into()).collect();
        Cell::Stack(Box::new(StackCell { frames, between: ";".into() }))
    };
    let drawn_rows = |rows: Vec<Vec<Cell>>| {
        let columns = ["comm", "stack", "bytes"].map(|title| right(title, 0)).to_vec();
        drawn(|text| text.report(stamp(0), &[Report::Table(table(Style::Plain, columns, rows))]))
    };
    let row = |frames: &[&str]| vec![Cell::Text("nginx".into()), stack(frames), Cell::whole(512)];
    let out = drawn_rows(vec![row(&["__kmalloc", "leaky"])]);
    assert!(out.ends_with(" comm           stack bytes\nnginx __kmalloc;leaky   512\n"), "{out}");
    let long = "a_function_whose_name_is_longer_than_most_functions_have";
    let out = drawn_rows(vec![row(&[long, "main"]), row(&["leaky"])]);
    let expected = format!(
        " comm bytes\nnginx   512\n        {long}\n        main\nnginx   512\n        leaky\n"
    );
    assert!(out.ends_with(&expected), "{out}");
}

#[test]
fn each_further_long_stack_of_a_row_is_printed_below_its_title() {
    let stack = |frames: &[&str]| {
        let frames = frames.iter().map(|frame| (*frame).into()).collect();
        Cell::Stack(Box::new(StackCell { frames, between: ";".into() }))
    };
    let long = "a_function_whose_name_is_longer_than_most_functions_have";
    let columns = ["asleep in", "n", "woken by"].map(|title| right(title, 0)).to_vec();
    let row = |waker: &[&str]| vec![stack(&[long, "main"]), Cell::whole(1), stack(waker)];
    let rows = vec![row(&["wakes", long]), row(&[])];
    let out =
        drawn(|text| text.report(stamp(0), &[Report::Table(table(Style::Plain, columns, rows))]));
    let expected = format!(
        "n\n1\n        {long}\n        main\n        -- woken by\n        wakes\n        \
         {long}\n1\n        {long}\n        main\n"
    );
    assert!(out.ends_with(&expected), "{out}");
}

#[test]
fn many_rows_are_written_while_others_are_drawn() {
    let rows: Vec<Vec<Cell>> = (0..10_000).map(|row| vec![Cell::whole(row)]).collect();
    let part = table(Style::Plain, vec![right("n", 60)], rows);
    let written = Written::default();
    let mut sink = ByteSink::new(Box::new(written.clone()));
    push_table(&mut sink, &part, Colour::Never, None);
    assert!(sink.buffer.capacity() < 100_000, "{}", sink.buffer.capacity());
    sink.flush().unwrap();
    let text = written.text();
    let drawn = text.lines().skip(1).map(|line| line.trim().parse().unwrap());
    assert_eq!(drawn.collect::<Vec<i128>>(), (0..10_000).collect::<Vec<i128>>());
}

#[test]
fn lines_fit_the_terminal_and_keep_all_numbers() {
    let lines = |room: Option<usize>| {
        let spare = |title: &str| Column { spare: true, ..right(title, 8) };
        let columns = vec![left("function", 20), spare("p50"), spare("p95"), right("max", 8)];
        let name = "std::vector<int, std::allocator<int>>::push_back";
        let row =
            |name: &str| vec![text(name), Cell::whole(1), Cell::whole(2), Cell::whole(1_000_000)];
        let part = table(Style::Plain, columns, vec![row(name), row("main")]);
        let mut sink = ByteSink::new(Box::new(std::io::sink()));
        push_table(&mut sink, &part, Colour::Never, room);
        String::from_utf8(sink.buffer).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let wide = "std::vector<int, std::allocator<int>>::push_back        1        2  1000000";
    assert_eq!(lines(None)[1], wide);
    assert_eq!(lines(Some(75))[1], wide);
    assert_eq!(
        lines(Some(40)),
        [
            "function                 p50 p95     max",
            "std::vector<…::push_back   1   2 1000000",
            "main                       1   2 1000000"
        ]
    );
    assert_eq!(lines(Some(30))[1], "std::vect…ush_back   2 1000000");
    assert_eq!(lines(Some(24))[1], "std::vec…sh_back 1000000");
    assert_eq!(lines(Some(20))[1], "std::v…_back 1000000");
    // It cannot become narrower.
    assert_eq!(lines(Some(5))[1], "std:…ack 1000000");
}

#[test]
fn a_very_long_name_does_not_hide_the_next_columns() {
    let long = format!("begin{}end", "x".repeat(1000));
    let row = vec![Cell::Text(long.clone()), Cell::whole(7), Cell::Text(long.clone())];
    let columns = vec![left("function", 0), right("faults", 8), left("file", 0)];
    let part = Report::Table(table(Style::Plain, columns, vec![row]));
    let text = drawn(|text| text.report(stamp(0), &[part]));
    let line = text.lines().last().unwrap();
    let (first, rest) = line.split_once(' ').unwrap();
    assert_eq!(first.chars().count(), 128);
    assert!(first.starts_with("beginx") && first.contains('…') && first.ends_with("xend"));
    assert_eq!(rest, format!("       7 {long}"), "the last one stays whole");
}
