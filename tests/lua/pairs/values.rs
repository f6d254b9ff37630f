//! Programs that add a value of each event, in place of a delay.

use std::collections::BTreeMap;

use super::machine::Machine;
use super::{ID, POINTER, Random, field};
use perilune::bpf::bucket;
use perilune::bpf::count::CountedEvent;
use perilune::bpf::key::{KeyPart, KeyShape};
use perilune::bpf::pair::layout::{PairCounter, PairLayout};
use perilune::bpf::pair::{PairFinish, PairPart, PairedEvent, RowPart};

/// Adds the field at `POINTER` by that at `ID`.
fn values() -> (PairLayout, PairedEvent) {
    let key = KeyPart::Integer(field(ID));
    let layout = PairLayout {
        pair: KeyShape::of(std::slice::from_ref(&key)),
        row: KeyShape::of(std::slice::from_ref(&key)),
        ..PairLayout::default()
    };
    let finish = PairFinish {
        value: Some(field(POINTER)),
        row: Some(vec![RowPart::Own(key)]),
        ..PairFinish::default()
    };
    let event = CountedEvent::default();
    (layout, PairedEvent { event, part: PairPart::Finish(finish) })
}

fn record(id: u64, value: u64) -> Vec<u8> {
    [0, id, 0, value].into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// Returns values of all sizes: random ones, each power of two, and their neighbours.
fn numbers() -> impl Iterator<Item = u64> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let some = (0..3000).map(move |n| random.below(1 << 30) << 31 >> (n % 60));
    let powers = (0..64).map(|bit| 1u64 << bit);
    some.chain(powers.flat_map(|power| [power - 1, power, power | power >> 1, power + 1]))
}

#[test]
fn values_of_all_sizes_have_the_rows_of_a_model() {
    let (layout, event) = values();
    let machine = Machine::new(&layout, 1, usize::MAX);
    let program = machine.load(&event);
    machine.use_table(0);
    let (mut expected, mut clamped) = (BTreeMap::<Vec<u64>, (u64, u128, u64, u64)>::new(), 0);
    for (n, value) in numbers().enumerate() {
        let id = n as u64 % 3;
        machine.run(&program, &record(id, value), 5, 1, 0);
        let key = vec![bucket::bucket_of(value) as u64, id];
        let row = expected.entry(key).or_insert((0, 0, u64::MAX, 0));
        *row = (row.0 + 1, row.1 + u128::from(value), row.2.min(value), row.3.max(value));
        clamped += u64::from(value > bucket::LONGEST_NS);
    }
    let (rows, counters) = machine.maps(|maps| (maps.table.clone(), maps.counters[0]));
    let found = rows.into_iter().map(|(key, row)| {
        let sum = u128::from(row[2]) << 64 | u128::from(row[1]);
        (key, (row[0], sum, !row[3], row[4]))
    });
    assert!(clamped > 50 && expected.len() > 1000, "{clamped} of {}", expected.len());
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(counters[PairCounter::Clamped as usize], clamped);
    let others = [PairCounter::Starts, PairCounter::Singles, PairCounter::Disordered];
    assert_eq!(others.map(|counter| counters[counter as usize]), [0; 3]);
}

#[test]
fn values_without_room_are_counted_by_bucket() {
    let (layout, event) = values();
    let machine = Machine::new(&layout, 1, 1);
    let program = machine.load(&event);
    machine.use_table(1);
    for value in [7, 900, 1 << 50, 1 << 62] {
        machine.run(&program, &record(0, value), 5, 1, 0);
    }
    let buckets = machine.maps(|maps| maps.rest_buckets.clone());
    let of = |value| ((1, bucket::bucket_of(value)), 1);
    assert_eq!(buckets, [of(900), of(1 << 50), of(1 << 62)].into());
}
