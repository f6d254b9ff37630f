//! Tests that a history returns what was pushed, except what it reports as evicted.

use super::*;
use crate::base::report::frame::Space;
use crate::stat::leaf::BorrowedEvent;
use proptest::prelude::*;

/// An owned event.
#[derive(Clone, Debug, PartialEq)]
struct Owned {
    time: f64,
    tid: u32,
    cpu: u16,
    ip: u64,
    raw: Vec<u8>,
    chain: Vec<u64>,
    comm: [u8; 16],
    again: bool,
}

impl Owned {
    fn at(time: f64) -> Owned {
        let comm = *b"worker\0\0\0\0\0\0\0\0\0\0";
        Owned { time, tid: 7, cpu: 1, ip: 0, raw: vec![1; 20], chain: vec![], comm, again: false }
    }

    fn push(&self, history: &mut History) {
        self.push_with_floor(f64::NEG_INFINITY, history);
    }

    /// Pushes the event; no request reaches back before `floor`.
    fn push_with_floor(&self, floor: f64, history: &mut History) {
        let slot =
            Slot { time: self.time, tid: self.tid, cpu: self.cpu, ip: self.ip, ..Slot::EMPTY };
        let event = BorrowedEvent { slot: &slot, raw: &self.raw, chain: &self.chain };
        let owner = EventOwner { space: Space(self.tid + 1), comm: self.comm };
        while !history.push(&event, &owner, self.again) {
            history.turn(history.room(floor));
        }
    }
}

/// Returns an empty history of at most `bytes` bytes.
fn empty(bytes: usize) -> History {
    History::new(bytes, &CopyAddresses::default())
}

/// Reads a window back.
fn window(history: &mut History, from: f64, to: f64) -> (Vec<Owned>, Missing) {
    let missing = history.between(from, to);
    let mut all = Vec::new();
    while let Some(again) = history.advance() {
        let EventCopy { slot, raw, chain, owner, .. } = (*history.read).clone();
        assert_eq!((slot.raw_size as usize, slot.chain_len as usize), (raw.len(), chain.len()));
        assert_eq!(owner.space, Space(slot.tid + 1));
        let Slot { time, tid, cpu, ip, .. } = slot;
        all.push(Owned { time, tid, cpu, ip, raw, chain, comm: owner.comm, again });
    }
    (all, missing)
}

fn times(history: &mut History, from: f64, to: f64) -> Vec<f64> {
    window(history, from, to).0.iter().map(|event| event.time).collect()
}

#[test]
fn an_event_round_trips() {
    let mut history = empty(BYTES);
    let full = Owned {
        ip: u64::MAX,
        raw: (0..=255).collect(),
        chain: vec![1, u64::MAX - 1, 3],
        again: true,
        ..Owned::at(5.0)
    };
    let none = Owned { raw: vec![], ..Owned::at(6.0) };
    full.push(&mut history);
    none.push(&mut history);
    assert_eq!(window(&mut history, 0.0, 9.0), (vec![full, none], Missing::default()));
}

#[test]
fn a_window_includes_both_ends() {
    let mut history = empty(BYTES);
    (0..10).for_each(|n| Owned::at(f64::from(n)).push(&mut history));
    assert_eq!(times(&mut history, 3.0, 6.0), [3.0, 4.0, 5.0, 6.0]);
    assert_eq!(times(&mut history, 9.5, 20.0), [0.0; 0]);
    assert_eq!(times(&mut history, 6.0, 3.0), [0.0; 0]);
}

#[test]
fn a_history_of_few_events_uses_one_block() {
    let mut history = empty(BYTES);
    assert_eq!(history.bytes(), 0);
    Owned::at(1.0).push(&mut history);
    assert_eq!(history.bytes(), BLOCK);
}

#[test]
fn evictions_are_counted_and_memory_is_reused() {
    // Blocks of 256 bytes hold three copies of 68.
    let mut history = empty(4096);
    (0..10_000).for_each(|n| Owned::at(f64::from(n)).push(&mut history));
    assert_eq!(history.bytes(), 4096);
    let (left, missing) = window(&mut history, 0.0, 10_000.0);
    assert_eq!(left.len() as u64 + missing.gone, 10_000);
    assert!((46..=48).contains(&left.len()), "{}", left.len());
    assert!(history.reaches(left[0].time) && !history.reaches(left[0].time - 1.0));
    // The window after the evicted events is complete.
    assert_eq!(window(&mut history, 9990.0, 9999.0).1, Missing::default());
    assert_eq!(times(&mut history, 9990.0, 9999.0).len(), 10);
}

#[test]
fn events_before_the_floor_use_no_memory() {
    let mut history = empty(1 << 20);
    for n in 0..100_000 {
        let time = f64::from(n);
        Owned::at(time).push_with_floor(time - 100.0, &mut history);
    }
    // Three blocks of 64 KiB: the one being written, and two whose ends may be requested.
    assert!(history.bytes() <= 3 << 16, "{}", history.bytes());
    assert_eq!(times(&mut history, 99_900.0, 99_999.0).len(), 100);
    let (left, missing) = window(&mut history, 0.0, 100_000.0);
    assert_eq!(left.len() as u64 + missing.gone, 100_000);
    // The memory that one long wait needed is not cycled through again: the block evicted last is
    // reused first.
    (0..10_000).for_each(|n| Owned::at(f64::from(100_000 + n)).push(&mut history));
    let most = history.bytes();
    assert!(most > 8 << 16);
    for n in 0..10_000 {
        let time = f64::from(110_000 + n);
        Owned::at(time).push_with_floor(time - 100.0, &mut history);
    }
    assert_eq!(history.bytes(), most);
    assert!(history.blocks.len() <= 3, "{}", history.blocks.len());
}

#[test]
fn a_copy_is_found_by_its_slot_until_it_is_evicted() {
    let mut history = empty(4096);
    let slots: Vec<Slot> = (0..5).map(|n| Slot { time: f64::from(n), ..Slot::EMPTY }).collect();
    history.begin_batch(&slots);
    assert_eq!(history.position_of(&slots[0]), None, "not pushed yet");
    for slot in &slots {
        let event = BorrowedEvent { slot, raw: &[slot.time as u8; 20], chain: &[] };
        while !history.push(&event, &EventOwner::default(), false) {
            history.turn(history.room(f64::NEG_INFINITY));
        }
    }
    let mut kept = EventCopy::new();
    for slot in &slots {
        let position = history.position_of(slot).unwrap();
        kept.at = position;
        assert!(history.recall(&mut kept));
        assert_eq!((kept.slot.time, kept.raw.as_slice()), (slot.time, &[slot.time as u8; 20][..]));
    }
    assert_eq!(history.position_of(&slots[0].clone()), None, "a slot outside the batch");
    let first = history.position_of(&slots[0]).unwrap();
    (0..100).for_each(|n| Owned::at(f64::from(n)).push(&mut history));
    kept.at = first;
    assert!(!history.recall(&mut kept));
    assert_eq!((kept.slot.time, kept.at), (Slot::NONE.time, CopyPosition::NONE));
}

#[test]
fn an_event_larger_than_a_block_is_counted_as_missing() {
    let mut history = empty(4096);
    Owned { raw: vec![0; 4096], ..Owned::at(5.0) }.push(&mut history);
    Owned::at(6.0).push(&mut history);
    let (left, missing) = window(&mut history, 0.0, 9.0);
    assert_eq!((left.len(), missing.gone), (1, 1));
    let mut tiny = empty(1);
    Owned::at(1.0).push(&mut tiny);
    assert_eq!(window(&mut tiny, 0.0, 9.0), (vec![], Missing { gone: 1, lost: 0 }));
}

#[test]
fn the_largest_record_and_the_longest_chain_fit() {
    let mut history = empty(BYTES);
    let largest = Owned { raw: vec![9; 65_535], chain: vec![7; 9218], ..Owned::at(1.0) };
    (0..3).for_each(|_| largest.push(&mut history));
    assert_eq!(window(&mut history, 0.0, 9.0).0, vec![largest; 3]);
}

#[test]
fn a_loss_is_reported_in_the_windows_that_contain_it() {
    let mut history = empty(BYTES);
    history.lose(10.0, 20.0, 5);
    history.lose(30.0, 30.0, 2);
    let lost = |from, to, history: &mut History| history.between(from, to).lost;
    assert_eq!(lost(0.0, 9.0, &mut history), 0);
    assert_eq!(lost(12.0, 13.0, &mut history), 5);
    assert_eq!(lost(0.0, 40.0, &mut history), 7);
    (0..10 * LOSSES).for_each(|n| history.lose(n as f64, n as f64, 1));
    assert_eq!(history.lost.len(), LOSSES);
}

#[test]
fn old_evictions_are_counted_coarsely_and_never_too_high() {
    let mut gone = Gone::default();
    (0..1_000_000).for_each(|n| gone.add(EvictedSpan::of(f64::from(n)), 1));
    let within = |from, to| gone.within(&EvictedSpan::between(from, to));
    assert_eq!(within(0.0, 1e6), 1_000_000);
    assert!((490_000..=500_001).contains(&within(500_000.0, 1e6)));
    assert!((1..=10).contains(&within(3.0, 12.0)));
    assert_eq!(within(1e6, 2e6), 0);
}

proptest! {
    #[test]
    fn a_window_equals_the_list_of_events_without_the_evicted(
        events in prop::collection::vec((0u32..50, 0usize..300, 0usize..6, any::<bool>()), 0..300),
        bytes in 1usize..40_000,
        windows in prop::collection::vec((0u32..6000, 0u32..6000), 1..20),
    ) {
        let mut history = empty(bytes);
        let (mut all, mut time) = (Vec::<Owned>::new(), 0.0);
        for (n, (step, raw, chain, sampled)) in events.into_iter().enumerate() {
            time += f64::from(step);
            let event = Owned {
                tid: n as u32,
                ip: u64::from(sampled) * 77,
                raw: (0..raw).map(|i| (i + n) as u8).collect(),
                chain: (0..chain as u64).map(|i| i + n as u64).collect(),
                again: n % 5 == 1,
                ..Owned::at(time)
            };
            event.push(&mut history);
            all.push(event);
        }
        prop_assert!(history.bytes() <= bytes.max(1));
        let (left, missing) = window(&mut history, 0.0, time);
        prop_assert_eq!(left.len() as u64 + missing.gone, all.len() as u64);
        for (a, b) in windows {
            let (from, to) = (f64::from(a.min(b)), f64::from(a.max(b)));
            let inside = |event: &&Owned| from <= event.time && event.time <= to;
            let expected: Vec<Owned> = left.iter().filter(inside).cloned().collect();
            let gone = (all.iter().filter(inside).count() - expected.len()) as u64;
            let (got, missing) = window(&mut history, from, to);
            prop_assert_eq!(got, expected);
            prop_assert!(missing.gone >= u64::from(gone > 0), "{} of {}", missing.gone, gone);
            // An event that does not fit is evicted before older ones; the coarse groups do not
            // account for that.
            let all_fit = bytes / BLOCKS > 500;
            prop_assert!(!all_fit || missing.gone <= gone + 2, "{} of {}", missing.gone, gone);
        }
    }
}
