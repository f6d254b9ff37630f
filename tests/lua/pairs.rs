//! Programs that pair events, run in user space over random records: their maps have what a model
//! in Rust has.

mod long;
mod machine;
mod model;
mod sums;
mod texts;
mod values;

use machine::Machine;
use model::{Expected, Happening, Random, found, load};
use perilune::bpf::assembler::{AccessSize, JumpIf};
use perilune::bpf::bucket::{self, BUCKETS};
use perilune::bpf::count::{CountLayout, CountedEvent, NO_TABLE};
use perilune::bpf::integer::{IntegerNode, IntegerOperator, IntegerWidth};
use perilune::bpf::key::{KeyPart, KeyShape, PartShape};
use perilune::bpf::pair::layout::{PairCounter, PairLayout};
use perilune::bpf::pair::{
    EndedThread, PairCount, PairDrop, PairFinish, PairPart, PairStart, PairedEvent, RowPart,
    end_program,
};

/// Fields of the records.
const ID: i16 = 8;
const RET: i16 = 16;
const POINTER: i16 = 24;

fn field(offset: i16) -> IntegerNode {
    IntegerNode::Field { offset, size: AccessSize::B8, signed: true }
}

fn constant(value: i64) -> IntegerNode {
    IntegerNode::Constant(value.cast_unsigned())
}

fn compare(condition: JumpIf, a: IntegerNode, b: IntegerNode) -> IntegerNode {
    IntegerNode::Compare { condition, sides: Box::new([a, b]) }
}

/// Numbers of calls in the test: `EXIT` does not return, `EXEC` may begin before the run.
const EXIT: i64 = 60;
const EXEC: i64 = 59;

/// The variants of pairs.
#[derive(Clone, Copy, Debug)]
struct Variant {
    /// Whether the key is the thread; otherwise it is a field.
    by_thread: bool,
    longer_ns: Option<i64>,
    /// Whether a start does not replace an earlier one.
    once: bool,
    /// Whether ends without their start are counted, except for the first event of a thread.
    strict: bool,
}

/// Pairs by thread.
const BY_THREAD: Variant = Variant { by_thread: true, longer_ns: None, once: false, strict: false };

/// The pairs of `syscalls`: by thread or pointer, of one number, with counts of errors, of starts
/// without an end and of ends without a start.
fn pairs(variant: Variant) -> (PairLayout, PairedEvent, PairedEvent) {
    let key = match variant.by_thread {
        true => IntegerNode::Thread,
        false => field(POINTER),
    };
    let event = CountedEvent { key: vec![KeyPart::Integer(key)], ..CountedEvent::default() };
    let part = |node: IntegerNode| KeyPart::Integer(node);
    let kept = vec![part(field(ID)), part(IntegerNode::Cpu)];
    let row = vec![RowPart::Own(part(field(ID))), RowPart::Kept(1)];
    let count = |number, condition, key: Vec<IntegerNode>| PairCount {
        number,
        condition: Some(condition),
        key: key.into_iter().map(|node| RowPart::Own(part(node))).collect(),
        sums: Vec::new(),
    };
    let is_error = IntegerNode::All(vec![
        compare(JumpIf::SignedLess, field(RET), constant(0)),
        compare(JumpIf::SignedGreater, field(RET), constant(-4096)),
    ]);
    let ends = compare(JumpIf::Equal, field(ID), constant(EXIT));
    let began = compare(JumpIf::Equal, field(ID), constant(EXEC));
    let start = PairStart {
        kept: kept.clone(),
        counts: vec![count(1, ends, vec![field(ID), constant(2)])],
        once: variant.once,
        is_end: variant.once,
        copied: None,
    };
    // A division by 0 is counted as undefined.
    let quotient =
        IntegerNode::binary(IntegerOperator::Div, IntegerWidth::ULONG, field(ID), field(RET));
    let finish = PairFinish {
        value: None,
        same: Some((field(ID), 0)),
        row: Some(row),
        longer_ns: variant.longer_ns,
        counts: vec![count(0, is_error, vec![field(ID), field(RET), IntegerNode::Thread])],
        singles: vec![count(2, began, vec![quotient])],
        strict: variant.strict,
        long: None,
    };
    let number = |words: usize| KeyShape { parts: vec![PartShape::INTEGER; words] };
    let count = |words| CountLayout { key: number(words), ..CountLayout::default() };
    let layout = PairLayout {
        pair: number(1),
        kept: KeyShape::of(&kept),
        row: number(2),
        counts: vec![count(3), count(2), count(1)],
        in_place: variant.by_thread,
        long: None,
    };
    let event_of = |part| PairedEvent { event: event.clone(), part };
    let start = event_of(PairPart::Start(start));
    (layout, start, event_of(PairPart::Finish(finish)))
}

/// The event that drops the start of `pairs`. A key whose field is not 0 is not used again.
fn dropping(start: &PairedEvent) -> PairedEvent {
    let drop = PairDrop { last: Some(field(RET)) };
    PairedEvent { event: start.event.clone(), part: PairPart::Drop(drop) }
}

#[test]
fn random_events_have_the_rows_and_counters_of_a_model() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for (by_thread, longer_ns, once, strict) in [
        (true, None, false, true),
        (false, None, true, false),
        (true, Some(100_000), true, false),
        (false, Some(1 << 40), false, false),
        (true, Some(1 << 40), false, true),
    ] {
        let variant = Variant { by_thread, longer_ns, once, strict };
        let (layout, start, finish) = pairs(variant);
        let machine = Machine::new(&layout, usize::MAX, usize::MAX);
        let programs = [&start, &finish, &dropping(&start)].map(|event| machine.load(event));
        let end = |of| machine.load_code(end_program(&layout, machine::MAPS, of));
        let (exits, forks) = (end(EndedThread::Current), end(EndedThread::Before(POINTER)));
        let mut expected = Expected::default();
        for (n, at) in load(&mut random, 6000).into_iter().enumerate() {
            machine.use_table((n / 700 % 2) as u32);
            let key = if by_thread { at.thread } else { at.pointer };
            let mut run_at = at;
            let program = match at.kind {
                0 if by_thread => {
                    if expected.open.remove(&at.thread).is_some() {
                        expected.add("exited");
                    }
                    expected.known.remove(&at.thread);
                    if n % 2 == 0 {
                        // A fork by another thread, whose child has the number.
                        run_at = Happening { pointer: at.thread, thread: 1, ..at };
                        &forks
                    } else {
                        &exits
                    }
                }
                1..25 => {
                    expected.start(key, &at, once);
                    &programs[0]
                }
                45.. => {
                    expected.drop_start(key, &at);
                    &programs[2]
                }
                _ => {
                    expected.finish(key, &at, variant);
                    &programs[1]
                }
            };
            machine.run(program, &run_at.record(), at.time, run_at.thread, at.cpu);
        }
        let found = machine.maps(found);
        if !by_thread {
            expected.known = expected.open.keys().copied().collect();
        }
        let mut counters = vec!["clamped", "singles", "undefined", "unrecorded", "dropped"];
        counters.push(if once { "joint" } else { "unmatched" });
        counters.extend(longer_ns.is_none().then_some("disordered"));
        counters.extend(by_thread.then_some("exited"));
        counters.extend(strict.then_some("startless"));
        let missing = counters.iter().find(|name| !expected.counters.contains_key(**name));
        assert_eq!(missing, None, "{variant:?}");
        assert_eq!(found.counters, expected.counters, "{variant:?}");
        assert_eq!(found.open, expected.open, "{variant:?}");
        assert_eq!(found.known, expected.known, "{variant:?}");
        assert!(expected.rows.len() > 50, "{variant:?}: {}", expected.rows.len());
        assert_eq!(found.rows, expected.rows, "{variant:?}");
    }
}

#[test]
fn an_end_without_its_start_counts_unless_it_is_the_first_event() {
    let (layout, start, finish) = pairs(Variant { strict: true, ..BY_THREAD });
    let machine = Machine::new(&layout, usize::MAX, usize::MAX);
    machine.use_table(0);
    let (start, finish) = (machine.load(&start), machine.load(&finish));
    let startless = |events: &[(&[u8], i64)]| {
        for (n, (program, id)) in events.iter().enumerate() {
            let (time, id) = (100 + n as i64, *id);
            let at = Happening { kind: 0, time, thread: 8, cpu: 1, id, ret: 0, pointer: 0 };
            machine.run(program, &at.record(), at.time, at.thread, at.cpu);
        }
        machine.maps(|maps| maps.counters[0][PairCounter::Startless as usize])
    };
    assert_eq!(startless(&[(&finish, 1)]), 0, "it may have begun before");
    assert_eq!(startless(&[(&finish, 1)]), 1);
    assert_eq!(startless(&[(&start, 1), (&finish, 1)]), 1);
    assert_eq!(startless(&[(&finish, 1), (&finish, 2)]), 3);
    assert_eq!(startless(&[(&start, 1), (&finish, 2)]), 4, "another value");
    assert_eq!(startless(&[(&start, 2), (&finish, 2)]), 4);
}

#[test]
fn sums_of_delays_have_128_bits() {
    let (layout, start, finish) = pairs(BY_THREAD);
    let machine = Machine::new(&layout, usize::MAX, usize::MAX);
    let programs = [&start, &finish].map(|event| machine.load(event));
    const DELAY: i64 = i64::MAX - 10;
    for _ in 0..5 {
        for (program, time) in programs.iter().zip([5, 5 + DELAY]) {
            let (cpu, id, ret, pointer, thread) = (1, 39, 0, 0, 8);
            let at = Happening { kind: 0, time, thread, cpu, id, ret, pointer };
            machine.run(program, &at.record(), at.time, at.thread, at.cpu);
        }
    }
    let table = machine.maps(|maps| maps.table.clone());
    let delay = DELAY.cast_unsigned();
    let sum = 5 * u128::from(delay);
    let row = vec![5, sum as u64, (sum >> 64) as u64, !delay, delay];
    let key = vec![bucket::bucket_of(delay) as u64, 39, 1, 0];
    assert_eq!(table, [(key, row)].into());
}

#[test]
fn nothing_is_paired_before_the_table_is_set() {
    let (layout, start, finish) = pairs(BY_THREAD);
    let machine = Machine::new(&layout, usize::MAX, usize::MAX);
    machine.use_table(NO_TABLE);
    for (n, at) in load(&mut Random(99), 100).iter().enumerate() {
        let program = machine.load(if n % 2 == 0 { &start } else { &finish });
        machine.run(&program, &at.record(), at.time, at.thread, at.cpu);
    }
    let found = machine.maps(found);
    assert_eq!(found, Expected::default());
}

#[test]
fn what_has_no_room_is_counted() {
    let (layout, start, finish) = pairs(Variant { by_thread: false, ..BY_THREAD });
    // Room for three starts and four rows.
    let machine = Machine::new(&layout, 3, 4);
    machine.use_table(1);
    let programs = [&start, &finish].map(|event| machine.load(event));
    let mut delays = 0u64;
    for round in 0..5i64 {
        for (n, program) in programs.iter().enumerate() {
            for pointer in 0..5 {
                let delay = (7000 + 900 * pointer) * (round + 1);
                let time = (1 << 40) + round * 1_000_000 + delay * n as i64;
                let at = Happening {
                    kind: 0,
                    time,
                    thread: 7,
                    cpu: 0,
                    id: 39,
                    ret: -2,
                    pointer: pointer.cast_unsigned(),
                };
                machine.run(program, &at.record(), at.time, at.thread, at.cpu);
                delays += n as u64;
            }
        }
    }
    let (rest, buckets, table) =
        machine.maps(|maps| (maps.rest.clone(), maps.rest_buckets.clone(), maps.table.clone()));
    let found = machine.maps(found);
    assert_eq!(found.counters["evicted"], 10, "two of five starts in each round");
    assert_eq!(found.counters["singles"], 10);
    let recorded = delays - 10;
    let in_table = |is_delay: bool| -> u64 {
        let rows = table.iter().filter(|(key, _)| (key[0] < BUCKETS as u64) == is_delay);
        rows.map(|(_, row)| row[0]).sum()
    };
    // The rest with the index 1 begins behind the rows of the first one: delays and three counts.
    let in_rest = |row: usize| rest.get(&(4 + row)).map_or(0, |row| row[0]);
    assert_eq!(in_table(true) + in_rest(0), recorded);
    assert_eq!(in_table(false) + in_rest(1), recorded, "errors");
    assert!(rest.keys().all(|index| *index >= 4), "{rest:?}");
    let bucketed: u64 = buckets.iter().map(|((_, _), count)| count).sum();
    assert_eq!(bucketed, in_rest(0));
    assert!(buckets.keys().all(|(index, _)| *index == 1));
}
