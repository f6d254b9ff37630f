//! Measures the cost of an event's text: evaluates print formats of the running kernel. Needs a
//! readable tracefs.

use divan::{Bencher, counter::ItemsCount};
use perilune::decode::format::Format;
use perilune::decode::print::{PrintProgram, Unknown};
use std::alloc::System;

/// Counts allocations: printing an event must not allocate.
#[global_allocator]
static ALLOC: divan::AllocProfiler<System> = divan::AllocProfiler::new(System);

fn main() {
    divan::main();
}

/// Numbers, names, and a state made of bits.
#[divan::bench]
fn sched_switch(bencher: Bencher) {
    print(bencher, "sched/sched_switch", |put| {
        put("prev_comm", b"stress-ng-switc");
        put("prev_pid", &206_966_u32.to_ne_bytes());
        put("prev_prio", &[120]);
        put("prev_state", &[1]);
        put("next_comm", b"swapper/1");
        put("next_prio", &[120]);
    });
}

/// A long table of bits, and an address without a name.
#[divan::bench]
fn kmalloc(bencher: Bencher) {
    print(bencher, "kmem/kmalloc", |put| {
        put("call_site", &0xffff_ffff_8100_0000_u64.to_ne_bytes());
        put("ptr", &0xffff_8881_0000_1000_u64.to_ne_bytes());
        put("bytes_req", &[64]);
        put("bytes_alloc", &[64]);
        put("gfp_flags", &0x40_0cc0_u64.to_ne_bytes());
    });
}

/// Text of variable length.
#[divan::bench]
fn sched_process_exec(bencher: Bencher) {
    print(bencher, "sched/sched_process_exec", |put| {
        put("filename", &(14 << 16 | 20_u32).to_ne_bytes());
        put("pid", &[77]);
        put("", b"/usr/bin/true");
    });
}

/// Prints a thousand times a record of zeros, except for the bytes that `fill` stores in fields or
/// behind the last one.
fn print(bencher: Bencher, event: &str, fill: impl FnOnce(&mut dyn FnMut(&str, &[u8]))) {
    let path = format!("/sys/kernel/tracing/events/{event}/format");
    let text = std::fs::read_to_string(path).expect("a readable tracefs at /sys/kernel/tracing");
    let format = Format::parse(&text).expect("formats of the kernel parse");
    let program = PrintProgram::compile(&format, &Unknown).expect("this one can be evaluated");
    let mut raw = vec![0; format.fixed_size + 16];
    fill(&mut |field, bytes| {
        let at = format.field(field).map_or(format.fixed_size, |field| field.offset);
        raw[at..at + bytes.len()].copy_from_slice(bytes);
    });
    let mut out = Vec::with_capacity(1 << 20);
    bencher.counter(ItemsCount::new(1000u32)).bench_local(move || {
        out.clear();
        for _ in 0..1000 {
            // The record is as long as its format requires.
            let _ = program.push(&mut out, divan::black_box(&raw), &Unknown);
        }
    });
}
