//! Measures the cost of decoding and ordering: `cargo bench --bench decode`. Each figure is for one
//! record.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use perf_event_open_sys::bindings as abi;
use perilune::base::event::slot::Slot;
use perilune::decode::record;
use perilune::decode::record_attrs::RecordAttrs;
use perilune::decode::sample::RecordLayout;
use perilune::order::Order;

fn main() {
    divan::main();
}

/// Records per pass.
const RECORDS: usize = 1024;

/// Sample fields of every event of a run.
const COMMON: u32 = abi::PERF_SAMPLE_IDENTIFIER
    | abi::PERF_SAMPLE_TID
    | abi::PERF_SAMPLE_TIME
    | abi::PERF_SAMPLE_CPU
    | abi::PERF_SAMPLE_RAW;

/// [`COMMON`] and every other field that a slot can hold.
const FULL: u32 = COMMON
    | abi::PERF_SAMPLE_IP
    | abi::PERF_SAMPLE_ADDR
    | abi::PERF_SAMPLE_PERIOD
    | abi::PERF_SAMPLE_CALLCHAIN;

fn layout(sample_type: u32) -> RecordLayout {
    let sample_type = u64::from(sample_type);
    RecordLayout::new(RecordAttrs { sample_type, sample_id_all: true, ..RecordAttrs::default() })
}

/// Returns consecutive samples as in a ring, each with 60 bytes of raw data.
fn ring(sample_type: u32, fixed: usize, chain: Option<u64>) -> Vec<Vec<u8>> {
    let asked = |bit: u32| sample_type & bit != 0;
    let words = fixed + chain.map_or(0, |depth| 1 + depth as usize) + 8;
    (0..RECORDS as u64)
        .map(|n| {
            let mut record = Vec::new();
            record.extend(abi::PERF_RECORD_SAMPLE.to_ne_bytes());
            record.extend(2u16.to_ne_bytes());
            record.extend((8 + 8 * words as u16).to_ne_bytes());
            (0..fixed as u64).for_each(|word| record.extend((n + word).to_ne_bytes()));
            if let Some(depth) = chain {
                record.extend(depth.to_ne_bytes());
                (0..depth).for_each(|ip| record.extend(ip.to_ne_bytes()));
            }
            if asked(abi::PERF_SAMPLE_RAW) {
                record.extend(60u32.to_ne_bytes());
                record.extend([7; 60]);
            }
            assert_eq!(record.len(), 8 + 8 * words);
            record
        })
        .collect()
}

/// Decodes each sample into its slot, as a drain does.
fn samples(bencher: Bencher<'_, '_>, sample_type: u32, fixed: usize, chain: Option<u64>) {
    let ring: Vec<u8> = ring(sample_type, fixed, chain).concat();
    let size = ring.len() / RECORDS;
    let layout = layout(sample_type);
    let mut slots = vec![Slot::EMPTY; RECORDS];
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| {
        let layout = black_box(&layout);
        for (record, slot) in ring.chunks_exact(size).zip(&mut slots) {
            let Ok(sample) = layout.sample(&record[8..]) else { continue };
            *slot = Slot {
                time: sample.time as f64,
                chain: sample.callchain.as_ptr(),
                ip: sample.ip,
                addr: sample.addr,
                period: sample.period,
                pid: sample.pid,
                tid: sample.tid,
                cpu: sample.cpu as u16,
                chain_len: sample.callchain.len() as u16,
                ..Slot::of(sample.raw)
            };
        }
        black_box(&mut slots);
    });
}

#[divan::bench]
fn sample_common(bencher: Bencher<'_, '_>) {
    samples(bencher, COMMON, 4, None);
}

#[divan::bench]
fn sample_full(bencher: Bencher<'_, '_>) {
    samples(bencher, FULL, 7, Some(20));
}

#[divan::bench]
fn parse_common(bencher: Bencher<'_, '_>) {
    let ring = ring(COMMON, 4, None);
    let layout = layout(COMMON);
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        for record in &ring {
            let _ = black_box(record::parse(black_box(record), &layout));
        }
    });
}

/// Merges rings that take turns at random, in runs of `run` records.
fn merge(bencher: Bencher<'_, '_>, rings: usize, run: u64) {
    let mut times: Vec<Vec<u64>> = vec![Vec::new(); rings];
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut ring = 0;
    let records = 32 * RECORDS * rings.min(8);
    for time in 0..records as u64 {
        if time.is_multiple_of(run) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            ring = random as usize % rings;
        }
        times[ring].push(1_000 + time);
    }
    times.iter_mut().for_each(|ring| ring.push(u64::MAX));
    bencher.counter(ItemsCount::new(records)).bench(|| {
        let mut order = Order::new(rings);
        let mut read = vec![0; rings];
        for (ring, times) in times.iter().enumerate() {
            order.offer(ring, times[0]);
        }
        let mut sum = 0u64;
        while let Some(next) = order.take(black_box(u64::MAX - 1)) {
            sum = sum.wrapping_add(next.time);
            read[next.ring] += 1;
            order.offer(next.ring, times[next.ring][read[next.ring]]);
        }
        sum
    });
}

#[divan::bench(args = [1, 16])]
fn order_2_rings(bencher: Bencher<'_, '_>, run: u64) {
    merge(bencher, 2, run);
}

#[divan::bench(args = [1, 16])]
fn order_256_rings(bencher: Bencher<'_, '_>, run: u64) {
    merge(bencher, 256, run);
}
