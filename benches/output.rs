//! Measures the cost of printing one event, by output format: the per-event path of `trace`.

use divan::{Bencher, counter::ItemsCount};
use jiff::tz::TimeZone;
use perilune::base::event::value::Value;
use perilune::base::report::draw::{Draw, EventLine, EventText, Stamp};
use perilune::base::text::stack_style::StackStyle;
use perilune::output::events::Events;
use perilune::output::json::Json;
use perilune::output::text::{TextOptions, TextOutput};
use perilune::output::{Colour, colour};
use std::alloc::System;
use std::io::sink;

/// Counts allocations: printing an event must not allocate.
#[global_allocator]
static ALLOC: divan::AllocProfiler<System> = divan::AllocProfiler::new(System);

fn main() {
    divan::main();
}

#[divan::bench]
fn text(bencher: Bencher) {
    let colour = colour(Default::default(), false, None);
    assert_eq!(colour, Colour::Never);
    let look = TextOptions {
        zone: TimeZone::system(),
        colour,
        quiet: false,
        stacks: StackStyle::default(),
        columns: || None,
        together: false,
        pages: 512,
    };
    events(bencher, TextOutput::new(Box::new(sink()), Box::new(sink()), look));
}

#[divan::bench]
fn json(bencher: Bencher) {
    events(bencher, Json::new(Box::new(sink()), "trace", StackStyle::default()));
}

#[divan::bench]
fn recording(bencher: Bencher) {
    events(bencher, Events::new(Box::new(sink()), stamp(0)));
}

fn stamp(i: u64) -> Stamp {
    let clock_ns = 15_504_452_408_994_000 + i * 1700;
    Stamp { wall_ns: 1_795_251_600_000_000_000 + i as i64 * 1700, clock_ns }
}

/// Prints a thousand `sched:sched_switch` events with seven fields, 1.7 µs apart.
fn events(bencher: Bencher, mut draw: impl Draw) {
    bencher.counter(ItemsCount::new(1000u32)).bench_local(|| {
        for i in 0..1000 {
            let fields = [
                ("prev_comm", Value::Text(b"stress-ng-switc")),
                ("prev_pid", Value::Int(206_966)),
                ("prev_prio", Value::Int(120)),
                ("prev_state", Value::Int(1)),
                ("next_comm", Value::Text(b"swapper/1")),
                ("next_pid", Value::Int(0)),
                ("next_prio", Value::Int(120)),
            ];
            draw.event(&mut EventLine {
                stamp: stamp(i),
                comm: b"stress-ng-switc",
                pid: 206_966,
                tid: 206_966,
                cpu: 1,
                flags: *b"d..2",
                name: "sched:sched_switch",
                fields: &mut fields.iter().copied(),
                text: EventText::Fields,
                extra: &[],
                detail: None,
                period: None,
                stack: &[],
            });
            // The sink accepts every write.
            let _ = draw.flush_if_large();
        }
    });
}
