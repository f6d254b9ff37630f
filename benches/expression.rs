//! Measures the cost of an expression per event, compiled in its handler: `cargo bench --bench
//! expression`.
//!
//! Dispatches a batch of equal records repeatedly. Each figure is for one event and includes the
//! loop over the batch and a sum.

mod host;

use divan::Bencher;
use divan::counter::ItemsCount;
use perilune::base::event::slot::{BATCH, Slot};
use perilune::script::host::Host;
use perilune::source::Sink as _;

/// Batches before the first measured one; the traces are compiled by then.
const WARM_UP: usize = 200;

fn main() {
    divan::main();
}

/// Format of the event.
const FORMAT: &str = "name: x\nID: 1\n\
     field:unsigned int vec; offset:8; size:4; signed:0;\n\
     field:int pid; offset:12; size:4; signed:1;\n\
     field:unsigned long addr; offset:16; size:8; signed:0;\n\
     field:char comm[16]; offset:24; size:16; signed:0;\n";

fn record() -> Vec<u8> {
    let (vec, pid, addr) = (7u32, 1234i32, 0xffff_ffff_8100_0001u64);
    let head = [[0; 8].as_slice(), &vec.to_ne_bytes(), &pid.to_ne_bytes()].concat();
    [head.as_slice(), &addr.to_ne_bytes(), b"kworker/0:1\0\0\0\0\0"].concat()
}

/// Runs a handler that sums `value`, a Lua expression over `e` and `f`.
fn run(bencher: Bencher<'_, '_>, expression: &str, value: &str) {
    let text = format!(
        "local m = monitor {{ summary = \"measured\" }}
        local sum = 0
        function m.init()
          local ev = evsel \"test:one\"
          local f = expr_of([=[{expression}]=], ev)
          ev:each(function(e) sum = sum + {value} end)
        end
        return m"
    );
    let (mut host, mut batch) = host::begin(text, FORMAT, 1);
    let record = record();
    let mut dispatch = |host: &mut Host| {
        batch.clear();
        for _ in 0..BATCH {
            batch.push(Slot { cpu: 3, ..Slot::of(&record) });
        }
        // SAFETY: the record outlives the call and is as long as its format requires.
        unsafe { host.dispatch(&mut batch) };
    };
    (0..WARM_UP).for_each(|_| dispatch(&mut host));
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| dispatch(&mut host));
    assert_eq!(host.coverage(None).errors, 0);
}

/// The baseline that the other benches include.
#[divan::bench]
fn field_of_the_record(bencher: Bencher<'_, '_>) {
    run(bencher, "1", "e.pid");
}

#[divan::bench]
fn field_by_expression(bencher: Bencher<'_, '_>) {
    run(bencher, "pid", "f(e)");
}

#[divan::bench]
fn int_arithmetic(bencher: Bencher<'_, '_>) {
    run(bencher, "(pid * 3 + vec) % 1000", "f(e)");
}

#[divan::bench]
fn composed_key(bencher: Bencher<'_, '_>) {
    run(bencher, "(__cpu<<32)|vec", "f(e)");
}

#[divan::bench]
fn arithmetic_in_64_bits(bencher: Bencher<'_, '_>) {
    run(bencher, "(addr * 31 ^ vec) >> 20", "f(e)");
}

#[divan::bench]
fn text_equal_to_a_constant(bencher: Bencher<'_, '_>) {
    run(bencher, "comm == \"kworker/0:1\"", "f(e)");
}

#[divan::bench]
fn text_by_glob(bencher: Bencher<'_, '_>) {
    run(bencher, "comm ~ \"kworker/*\"", "f(e)");
}
