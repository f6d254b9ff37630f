//! Programs that write the fields of both events of long delays.

use super::machine::{self, Machine};
use super::{ID, POINTER, RET, field};
use perilune::bpf::count::CountedEvent;
use perilune::bpf::integer::IntegerNode;
use perilune::bpf::key::{KeyPart, KeyShape, PartShape};
use perilune::bpf::pair::layout::{LongLayout, PairCounter, PairLayout};
use perilune::bpf::pair::long::{CopiedFields, LongPairs, LongRecord};
use perilune::bpf::pair::{PairFinish, PairPart, PairStart, PairedEvent, RowPart};
use perilune::bpf::record_text::TextLocation;

const THAN_NS: i64 = 1000;

/// Pairs by thread or by pointer, with equal values at `RET`. The start has fields of 1, 2, 4 and 8
/// bytes and one of 5 bytes, the end has one of 16 bytes.
fn pairs(by_thread: bool) -> (PairLayout, PairedEvent, PairedEvent) {
    let fields = vec![(8, 1), (10, 2), (12, 4), (16, 8), (33, 5)];
    let copied = CopiedFields { side: 3, fields, texts: Vec::new() };
    let of_end = CopiedFields { side: 7, fields: vec![(8, 16)], texts: Vec::new() };
    pairs_with(by_thread, copied, of_end)
}

fn pairs_with(
    by_thread: bool,
    copied: CopiedFields,
    of_end: CopiedFields,
) -> (PairLayout, PairedEvent, PairedEvent) {
    let key = if by_thread { IntegerNode::Thread } else { field(POINTER) };
    let event = CountedEvent { key: vec![KeyPart::Integer(key)], ..CountedEvent::default() };
    let kept = vec![KeyPart::Integer(field(RET))];
    let layout = PairLayout {
        pair: KeyShape { parts: vec![PartShape::INTEGER] },
        kept: KeyShape::of(&kept),
        row: KeyShape { parts: vec![PartShape::INTEGER] },
        in_place: by_thread,
        long: Some(LongLayout { start: copied.bytes(), finish: of_end.bytes() }),
        ..PairLayout::default()
    };
    let start = PairStart { kept, copied: Some(copied), ..PairStart::default() };
    let finish = PairFinish {
        same: Some((field(RET), 0)),
        row: Some(vec![RowPart::Kept(0)]),
        long: Some(LongPairs { than_ns: THAN_NS, copied: of_end }),
        ..PairFinish::default()
    };
    let of = |part| PairedEvent { event: event.clone(), part };
    (layout, of(PairPart::Start(start)), of(PairPart::Finish(finish)))
}

/// Returns a record with a value at `RET`, and bytes that are their offsets elsewhere.
fn record(ret: u64, first: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..64).map(|at| first + at).collect();
    let (ret_at, pointer_at) = (RET as usize, POINTER as usize);
    bytes[ret_at..ret_at + 8].copy_from_slice(&ret.to_ne_bytes());
    bytes[pointer_at..pointer_at + 8].copy_from_slice(&9_u64.to_ne_bytes());
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[test]
fn only_long_delays_are_written_with_the_fields_of_both_events() {
    assert_eq!((ID, RET, POINTER), (8, 16, 24), "as the fields of the records expect");
    for by_thread in [true, false] {
        let (layout, start, finish) = pairs(by_thread);
        let machine = Machine::new(&layout, 8, 8);
        let (start, finish) = (machine.load(&start), machine.load(&finish));
        let pair = |from, to, rets: [u64; 2]| {
            machine.run(&start, &record(rets[0], 0), from, 5, 6);
            machine.run(&finish, &record(rets[1], 100), to, 5, 1);
            machine.take_written()
        };
        machine.use_table(0);
        assert_eq!(pair(500, 500 + THAN_NS, [2, 2]), Vec::<Vec<u8>>::new(), "not longer");
        assert_eq!(pair(9000, 8000, [2, 2]), Vec::<Vec<u8>>::new(), "negative");
        assert_eq!(pair(9000, 99_000, [2, 3]), Vec::<Vec<u8>>::new(), "different values");
        let written = pair(10_000, 11_001, [2, 2]);
        let [bytes] = &written[..] else { panic!("{written:?}") };
        let at = LongRecord::of(&layout).expect("places");
        assert_eq!(bytes.len(), at.bytes);
        let words = [at.finish_side, at.finish, at.start_time, at.start_side];
        assert_eq!(words.map(|at| word(bytes, at)), [7, 11_001, 10_000, 3]);
        let tasks = [at.finish_task, at.start_task];
        assert_eq!(tasks.map(|at| word(bytes, at)), [77 << 32 | 5; 2]);
        assert_eq!(bytes[at.start_comm..at.start], machine::COMM[..], "the name of the task");
        assert_eq!(word(bytes, at.start), 6, "the CPU of the start");
        assert_eq!(bytes[at.finish + 8..at.finish + 16], record(2, 100)[8..16], "of the end");
        assert_eq!(word(bytes, at.finish + 16), 2);
        let fields = &bytes[at.start + 8..];
        assert_eq!(fields[..8], [8, 0, 10, 11, 12, 13, 14, 15], "of the start");
        assert_eq!((word(fields, 8), word(fields, 16)), (2, 0));
        assert_eq!(fields[24..], [0, 33, 34, 35, 36, 37, 0, 0]);
        let (rows, counters) = machine.maps(|maps| (maps.table.clone(), maps.counters[0]));
        assert_eq!(rows.values().map(|row| row[0]).sum::<u64>(), 2, "delays");
        assert_eq!(counters[PairCounter::Unwritten as usize], 0);
    }
}

#[test]
fn records_that_are_not_written_are_counted_unless_the_ring_counts_them() {
    let (layout, start, finish) = pairs(true);
    let machine = Machine::new(&layout, 8, 8);
    let (start, finish) = (machine.load(&start), machine.load(&finish));
    machine.use_table(1);
    for errno in [libc::ENOSPC, libc::EOPNOTSUPP, libc::ENOENT] {
        machine.refuse_records(errno);
        machine.run(&start, &record(2, 0), 10, 5, 6);
        machine.run(&finish, &record(2, 0), 5000, 5, 6);
    }
    assert_eq!(machine.take_written(), Vec::<Vec<u8>>::new());
    let counters = machine.maps(|maps| maps.counters[1]);
    assert_eq!(counters[PairCounter::Unwritten as usize], 2);
}

/// Returns a record with two texts of these lengths, whose places at 32 and 36 count from `from`. A
/// text of length None has not even a NUL.
fn record_with(lengths: [Option<usize>; 2], from: i16) -> Vec<u8> {
    let mut bytes = record(2, 0);
    bytes.resize(96, 0);
    for (n, length) in lengths.into_iter().enumerate() {
        let at = 48 + 24 * n;
        let size = length.map_or(0, |length| length + 1);
        bytes[32 + 4 * n..36 + 4 * n].copy_from_slice(&location(size, at, from));
        let letter = b'x' + n as u8;
        let text = std::iter::repeat_n(letter, size.saturating_sub(1)).chain([0]);
        bytes.splice(at..at + size.max(1), text);
    }
    bytes
}

fn location(size: usize, place: usize, from: i16) -> [u8; 4] {
    ((size << 16 | place) as u32 - from as u32).to_ne_bytes()
}

#[test]
fn short_texts_are_written_and_long_ones_are_counted() {
    // The end of the last copied field, from the common fields on.
    const FIELDS: usize = 32;
    let copied = |side, from| {
        let texts = [32, 36].map(|at| TextLocation { at, from });
        CopiedFields { side, fields: vec![(8, 8)], texts: texts.into() }
    };
    for by_thread in [true, false] {
        let (layout, start, finish) = pairs_with(by_thread, copied(3, 0), copied(7, 40));
        let at = LongRecord::of(&layout).expect("places");
        let machine = Machine::new(&layout, 8, 8);
        let (start, finish) = (machine.load(&start), machine.load(&finish));
        machine.use_table(0);
        let (some, mut pairs, mut too_long) = (Some, 0, 0);
        for (of_start, of_end) in [
            ([some(0), some(15)], [some(15), some(1)]),
            ([None, some(7)], [some(8), None]),
            ([some(16), some(2)], [some(3), some(3)]),
            ([some(2), some(16)], [some(3), some(3)]),
            ([some(3), some(3)], [some(3), some(16)]),
            ([some(20), some(20)], [some(20), some(20)]),
        ] {
            machine.run(&start, &record_with(of_start, 0), 10_000, 5, 6);
            machine.run(&finish, &record_with(of_end, 40), 90_000, 5, 1);
            let written = machine.take_written();
            pairs += 1;
            if of_start.iter().chain(&of_end).any(|length| *length > Some(15)) {
                assert_eq!(written, Vec::<Vec<u8>>::new());
                too_long += 1;
                continue;
            }
            let [bytes] = &written[..] else { panic!("{written:?}") };
            for (event, lengths, from) in [(at.start, of_start, 0), (at.finish, of_end, 40)] {
                for (n, length) in lengths.into_iter().enumerate() {
                    let place = 8 + FIELDS + 16 * n;
                    let size = length.map_or(0, |length| length + 1);
                    let found = &bytes[event + 32 + 4 * n..][..4];
                    assert_eq!(found, location(size, place, from));
                    let mut text = vec![b'x' + n as u8; length.unwrap_or(0)];
                    text.resize(16, 0);
                    assert_eq!(bytes[event + place..][..16], text);
                }
            }
        }
        let (rows, counters) = machine.maps(|maps| (maps.table.clone(), maps.counters[0]));
        assert_eq!(rows.values().map(|row| row[0]).sum::<u64>(), pairs, "all are measured");
        assert_eq!(counters[PairCounter::Unwritten as usize], too_long);
    }
}

#[test]
fn a_text_of_16_bytes_without_a_nul_is_written_whole() {
    let copied = |side| {
        let texts = vec![TextLocation { at: 32, from: 0 }];
        CopiedFields { side, fields: Vec::new(), texts }
    };
    let (layout, start, finish) = pairs_with(true, copied(3), copied(7));
    let at = LongRecord::of(&layout).expect("places");
    let machine = Machine::new(&layout, 8, 8);
    machine.use_table(0);
    let mut record = record_with([Some(15), None], 0);
    record[48 + 15] = b'x';
    machine.run(&machine.load(&start), &record, 10_000, 5, 6);
    machine.run(&machine.load(&finish), &record, 90_000, 5, 1);
    let written = machine.take_written();
    let [bytes] = &written[..] else { panic!("{written:?}") };
    for event in [at.start, at.finish] {
        let place = u16::from_ne_bytes([bytes[event + 32], bytes[event + 33]]);
        assert_eq!(bytes[event + usize::from(place)..][..16], [b'x'; 16]);
    }
}
