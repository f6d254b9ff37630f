//! Programs that count pairs, with sums of values that starts keep, as those of memory.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::{Machine, Maps};
use super::{ID, POINTER, RET, Random, constant, field};
use perilune::bpf::count::{CountLayout, CountedEvent};
use perilune::bpf::integer::{IntegerNode, IntegerWidth};
use perilune::bpf::key::{KeyPart, KeyShape, PartShape};
use perilune::bpf::pair::layout::{PairCounter, PairLayout};
use perilune::bpf::pair::{
    PairCount, PairFinish, PairPart, PairStart, PairSum, PairedEvent, RowPart,
};

const SIGNED: IntegerWidth = IntegerWidth { bits: 64, signed: true };
const UNSIGNED: IntegerWidth = IntegerWidth::ULONG;

/// Events in the rows of starts and of ends.
const STARTS: i64 = 1;
const ENDS: i64 = 2;

/// The start and the end of pairs by pointer: a row for each, with the number of events, the value
/// at `RET` of the start, without a sign and with one, and that at `ID` of the event itself.
fn pairs() -> (PairLayout, [PairedEvent; 2]) {
    let key = vec![KeyPart::Integer(field(POINTER))];
    let event = CountedEvent { key, ..CountedEvent::default() };
    let row = |of: i64, [size, signed]: [PairSum; 2]| PairCount {
        number: 0,
        condition: None,
        key: vec![RowPart::Own(KeyPart::Integer(constant(of)))],
        sums: vec![PairSum::Own(constant(1), SIGNED), size, signed, own(ID, SIGNED)],
    };
    let own_size = [own(RET, UNSIGNED), own(RET, SIGNED)];
    let kept_size = [PairSum::Kept(0, UNSIGNED), PairSum::Kept(0, SIGNED)];
    let start = PairStart {
        kept: vec![KeyPart::Integer(field(RET))],
        counts: vec![row(STARTS, own_size)],
        ..PairStart::default()
    };
    let finish = PairFinish { counts: vec![row(ENDS, kept_size)], ..PairFinish::default() };
    let number = KeyShape { parts: vec![PartShape::INTEGER] };
    let layout = PairLayout {
        pair: number.clone(),
        kept: number.clone(),
        counts: vec![CountLayout { key: number, named: false, sums: 4, constants: vec![(0, 1)] }],
        ..PairLayout::default()
    };
    let parts = [PairPart::Start(start), PairPart::Finish(finish)];
    (layout, parts.map(|part| PairedEvent { event: event.clone(), part }))
}

fn own(at: i16, of: IntegerWidth) -> PairSum {
    PairSum::Own(field(at), of)
}

fn record(id: i64, size: i64, pointer: u64) -> Vec<u8> {
    let words = [0, id.cast_unsigned(), size.cast_unsigned(), pointer];
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// Returns the count of a row and its sums, without that of the constant.
fn sums(row: &[u64]) -> (u64, [i128; 3]) {
    let half = |at: usize| i128::from(row[at + 1].cast_signed()) << 64 | i128::from(row[at]);
    (row[0], [1, 3, 5].map(half))
}

fn rows(maps: &Maps) -> BTreeMap<Vec<u64>, (u64, [i128; 3])> {
    maps.table.iter().map(|(key, row)| (key.clone(), sums(row))).collect()
}

fn key(of: i64) -> Vec<u64> {
    vec![1 << 16, of.cast_unsigned()]
}

#[test]
fn an_end_adds_the_values_of_its_start() {
    let (layout, events) = pairs();
    let machine = Machine::new(&layout, usize::MAX, usize::MAX);
    let programs = events.each_ref().map(|event| machine.load(event));
    machine.use_table(0);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut open = BTreeMap::new();
    let mut expected = BTreeMap::from([(key(STARTS), (0, [0; 3])), (key(ENDS), (0, [0; 3]))]);
    let (mut starts, mut replaced, mut singles) = (0, 0, 0);
    for n in 0..5000 {
        let (pointer, id) = (random.below(40), random.below(9) as i64 - 4);
        let size = [7, -1, i64::MIN, i64::MAX][random.below(4) as usize];
        let is_start = random.below(2) == 0;
        let started = match is_start {
            true => {
                starts += 1;
                replaced += u64::from(open.insert(pointer, size).is_some());
                Some(size)
            }
            false => open.remove(&pointer),
        };
        match started {
            None => singles += 1,
            Some(size) => {
                let of = if is_start { STARTS } else { ENDS };
                let row = expected.get_mut(&key(of)).expect("a row");
                let values: [i128; 3] = [size.cast_unsigned().into(), size.into(), id.into()];
                *row = (row.0 + 1, std::array::from_fn(|i| row.1[i] + values[i]));
            }
        }
        let program = &programs[usize::from(!is_start)];
        machine.run(program, &record(id, size, pointer), n + 1, 8, 0);
    }
    let (found, counters, left) = machine.maps(|maps| {
        let left: BTreeSet<_> = maps.starts.keys().map(|key| key[0]).collect();
        (rows(maps), maps.counters[0], left)
    });
    assert!(replaced > 100 && singles > 100, "{replaced} {singles}");
    assert_eq!(found, expected);
    assert_eq!(left, open.keys().copied().collect());
    let counted = |counter: PairCounter| counters[counter as usize];
    assert_eq!(counted(PairCounter::Starts), starts);
    assert_eq!(counted(PairCounter::Unmatched), replaced);
    assert_eq!(counted(PairCounter::Singles), singles);
    assert_eq!(counted(PairCounter::Unrecorded), expected[&key(ENDS)].0, "pairs without a delay");
}

#[test]
fn a_start_without_room_is_counted_but_not_paired() {
    let (layout, events) = pairs();
    // Room for three starts and one row: that of starts.
    let machine = Machine::new(&layout, 3, 1);
    let programs = events.each_ref().map(|event| machine.load(event));
    machine.use_table(1);
    for program in &programs {
        for pointer in 1..6 {
            machine.run(program, &record(0, 100, pointer), 5, 8, 0);
        }
    }
    let (found, counters, rest) =
        machine.maps(|maps| (rows(maps), maps.counters[1], maps.rest.clone()));
    assert_eq!(found, [(key(STARTS), (5, [500, 500, 0]))].into());
    assert_eq!(counters[PairCounter::Evicted as usize], 2);
    assert_eq!(counters[PairCounter::Singles as usize], 2);
    // The rest of the second table: delays, then the count.
    assert_eq!(sums(&rest[&3]), (3, [300, 300, 0]));
}

#[test]
fn a_condition_of_a_pair_is_that_of_its_event() {
    let (layout, [mut start, finish]) = pairs();
    start.event.conditions = vec![IntegerNode::Not(Box::new(field(ID)))];
    let machine = Machine::new(&layout, usize::MAX, usize::MAX);
    let programs = [&start, &finish].map(|event| machine.load(event));
    machine.use_table(0);
    for program in &programs {
        for id in 0..3 {
            machine.run(program, &record(id, 100, 0), 5, 8, 0);
        }
    }
    let found = machine.maps(rows);
    assert_eq!(found, [(key(STARTS), (1, [100, 100, 0])), (key(ENDS), (1, [100, 100, 0]))].into());
}
