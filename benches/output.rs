//! Measures the cost of printing one event, by output format: the per-event path of `trace`.

use divan::{Bencher, counter::ItemsCount};
use jiff::tz::TimeZone;
use perilune::base::event::value::Value;
use perilune::base::event::value::ValueType;
use perilune::base::report::draw::{Draw, EventLine, EventText, OpenedEvent, Stamp};
use perilune::base::report::event_record::{EventRecord, FixedEncoding, FixedField};
use perilune::base::text::stack_style::StackStyle;
use perilune::output::csv::Csv;
use perilune::output::events::Events;
use perilune::output::json::Json;
use perilune::output::parquet::{FILE_AGE, FILE_BYTES, Parquet, ParquetSettings};
use perilune::output::text::{TextOptions, TextOutput};
use perilune::output::{Colour, colour};
use std::alloc::System;
use std::io::sink;
use std::path::Path;

/// Counts allocations: printing an event must not allocate.
#[global_allocator]
static ALLOC: divan::AllocProfiler<System> = divan::AllocProfiler::new(System);

fn main() {
    divan::main();
}

#[divan::bench]
fn text(bencher: Bencher) {
    events(bencher, TextOutput::new(Box::new(sink()), Box::new(sink()), look()));
}

/// With one opened event, and with hundreds: the columns are the fields of all of them.
#[divan::bench(args = [1, 500])]
fn csv(bencher: Bencher, opened: usize) {
    let mut csv = Csv::new(Box::new(sink()), Box::new(sink()), "trace", look());
    csv.opened(&opened_events(opened));
    events(bencher, csv);
}

/// The header of CSV.
#[divan::bench(args = [1, 500, 2000])]
fn csv_header(bencher: Bencher, opened: usize) {
    let all = opened_events(opened);
    let mut csv = Csv::new(Box::new(sink()), Box::new(sink()), "trace", look());
    bencher.counter(ItemsCount::new(opened)).bench_local(|| csv.opened(&all));
}

/// Returns `sched:sched_switch` after `count - 1` events, each with seven fields of its own.
fn opened_events(count: usize) -> Vec<OpenedEvent> {
    let event = |name: String, fields: [String; 7]| OpenedEvent {
        name,
        fields: fields.map(|field| (field, ValueType::Int.into())).to_vec(),
    };
    let other =
        |i| event(format!("other:event_{i}"), [1, 2, 3, 4, 5, 6, 7].map(|f| format!("f{i}_{f}")));
    let last = event("sched:sched_switch".to_owned(), FIELDS.map(str::to_owned));
    (1..count).map(other).chain([last]).collect()
}

fn look() -> TextOptions {
    let colour = colour(Default::default(), false, None);
    assert_eq!(colour, Colour::Never);
    TextOptions {
        zone: TimeZone::system(),
        colour,
        quiet: false,
        stacks: StackStyle::default(),
        columns: || None,
        together: false,
        pages: 512,
    }
}

#[divan::bench]
fn json(bencher: Bencher) {
    events(bencher, Json::new(Box::new(sink()), "trace", StackStyle::default()));
}

/// With the encoding of row groups, into files of a temporary folder.
#[divan::bench]
fn parquet(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a folder can be created");
    events(bencher, begin_parquet(folder.path()));
}

/// The same events, whose fields are read from records.
#[divan::bench]
fn parquet_records(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let mut parquet = begin_parquet(folder.path());
    draw_line(&mut parquet, 0);
    let text = |offset| FixedField { offset, size: 16, encoding: FixedEncoding::Text };
    let int = |offset| FixedField { offset, size: 4, encoding: FixedEncoding::Signed };
    let fields = [text(0), int(16), int(20), int(24), text(28), int(44), int(48)];
    let mut bytes = [0; 52];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, PREVIOUS);
    put(28, b"swapper/1");
    for (at, value) in [(16, 206_966i32), (20, 120), (24, 1), (44, 0), (48, 120)] {
        put(at, &value.to_ne_bytes());
    }
    let mut comm = [0; 16];
    comm[..PREVIOUS.len()].copy_from_slice(PREVIOUS);
    bencher.counter(ItemsCount::new(1000u32)).bench_local(|| {
        for i in 0..1000 {
            let Stamp { wall_ns, clock_ns } = stamp(i);
            let is_taken = parquet.event_record(&EventRecord {
                wall_ns,
                clock_ns,
                comm,
                pid: 206_966,
                tid: 206_966,
                cpu: 1,
                role: 0,
                fields: &fields,
                bytes: &bytes,
            });
            assert!(is_taken);
        }
    });
}

fn begin_parquet(folder: &Path) -> Parquet {
    let settings = ParquetSettings {
        folder: folder.to_owned(),
        host: "bench".to_owned(),
        size: FILE_BYTES,
        age: FILE_AGE,
    };
    let parquet = Parquet::begin(&settings, Box::new(sink()), "trace", look());
    let mut parquet = parquet.expect("the folder is writable");
    parquet.opened(&opened_events(1));
    parquet
}

#[divan::bench]
fn recording(bencher: Bencher) {
    events(bencher, Events::new(Box::new(sink()), stamp(0)));
}

fn stamp(i: u64) -> Stamp {
    let clock_ns = 15_504_452_408_994_000 + i * 1700;
    Stamp { wall_ns: 1_795_251_600_000_000_000 + i as i64 * 1700, clock_ns }
}

const FIELDS: [&str; 7] =
    ["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"];

const PREVIOUS: &[u8] = b"stress-ng-switc";

/// Prints a thousand `sched:sched_switch` events with seven fields, 1.7 µs apart.
fn events(bencher: Bencher, mut draw: impl Draw) {
    bencher.counter(ItemsCount::new(1000u32)).bench_local(|| {
        for i in 0..1000 {
            draw_line(&mut draw, i);
            // The sink accepts every write.
            let _ = draw.flush_if_large();
        }
    });
}

fn draw_line(draw: &mut impl Draw, i: u64) {
    let fields = [
        ("prev_comm", Value::Text(PREVIOUS)),
        ("prev_pid", Value::Int(206_966)),
        ("prev_prio", Value::Int(120)),
        ("prev_state", Value::Int(1)),
        ("next_comm", Value::Text(b"swapper/1")),
        ("next_pid", Value::Int(0)),
        ("next_prio", Value::Int(120)),
    ];
    draw.event(&mut EventLine {
        stamp: stamp(i),
        comm: PREVIOUS,
        pid: 206_966,
        tid: 206_966,
        cpu: 1,
        flags: *b"d..2",
        common: [0; 2],
        common_pid: None,
        name: "sched:sched_switch",
        role: Some(0),
        fields: &fields,
        text: EventText::Fields,
        extra: &[],
        detail: None,
        period: None,
        stack: &[],
    });
}
