//! Tests of pending state: the normal case, and each way in which a slot is dropped.

use super::*;
use crate::base::report::frame::Space;
use crate::stat::event_copy::EventOwner;
use proptest::prelude::*;
use std::collections::HashMap;

pub(super) const SHAPE: PendingOptions = PendingOptions {
    values: 1,
    by_task: true,
    keep_lost: false,
    nested: false,
    uretprobes: false,
    keep_event: false,
    age: f64::INFINITY,
    bound: 1 << 20,
};

pub(super) fn pending(shape: PendingOptions) -> Pending {
    Pending::new(shape)
}

pub(super) fn number(n: u32) -> Word {
    Word::number(f64::from(n))
}

#[test]
fn a_slot_is_closed_once_with_its_delay_and_values() {
    let mut pending = pending(SHAPE);
    pending.open(None, &[7.0, 1000.0, 42.0], 0);
    assert!(!pending.close(number(8), 1500.0));
    assert!(pending.close(number(7), 1500.0));
    let closed = pending.closed();
    assert_eq!((closed.time, closed.delay, closed.values[0]), (1000.0, 500.0, 42.0));
    assert!(!pending.close(number(7), 1600.0));
    assert_eq!((pending.len(), pending.losses()), (0, PendingLosses::default()));
}

#[test]
fn opening_again_replaces_and_counts_as_unmatched() {
    let mut pending = pending(SHAPE);
    pending.open(None, &[7.0, 1000.0, 1.0], 0);
    pending.open(None, &[7.0, 2000.0, 2.0], 0);
    assert_eq!(pending.len(), 1);
    assert!(pending.close(number(7), 2500.0));
    assert_eq!((pending.closed().delay, pending.closed().values[0]), (500.0, 2.0));
    assert_eq!(pending.losses().unmatched, 1);
}

#[test]
fn opening_once_keeps_the_open_slot() {
    let mut pending = pending(SHAPE);
    for (time, value) in [(1000.0, 1.0), (2000.0, 2.0)] {
        pending.open(None, &[7.0, time, value], ONCE);
    }
    assert!(pending.close(number(7), 2500.0));
    assert_eq!((pending.closed().delay, pending.closed().values[0]), (1500.0, 1.0));
    assert_eq!((pending.closed().kinds, pending.losses()), (0, PendingLosses::default()));
}

#[test]
fn a_slot_that_is_too_old_is_dropped() {
    let mut pending = pending(PendingOptions { age: 100.0, ..SHAPE });
    pending.open(None, &[1.0, 0.0, 0.0], 0);
    pending.open(None, &[2.0, 90.0, 0.0], 0);
    assert!(pending.close(number(1), 100.0));
    assert!(!pending.close(number(2), 191.0));
    assert_eq!((pending.len(), pending.losses().evicted), (0, 1));
    for n in 0..1000 {
        pending.open(None, &[f64::from(n), f64::from(n), 0.0], 0);
    }
    assert_eq!((pending.len(), pending.losses().evicted), (101, 900));
    assert!(pending.close(number(999), 1000.0));
}

#[test]
fn a_string_key_is_not_a_number() {
    let mut pending = pending(SHAPE);
    pending.open(None, &[7.0, 1.0, 0.0], 1);
    assert!(!pending.close(number(7), 2.0));
    assert!(pending.close(Word::string(7), 2.0));
}

#[test]
fn a_loss_drops_the_slots_opened_before_it() {
    let mut pending = pending(SHAPE);
    for tid in 0..10 {
        pending.open(None, &[f64::from(tid), f64::from(tid), 0.0], 0);
    }
    pending.drop_before(4.0);
    assert_eq!((pending.len(), pending.losses().unsafe_), (5, 5));
    assert!(!pending.close(number(4), 11.0));
    assert!(pending.close(number(5), 11.0));
}

#[test]
fn a_slot_that_begins_while_events_are_lost_is_not_opened() {
    let mut pending = pending(SHAPE);
    pending.drop_before(4.0);
    assert!(!pending.open(None, &[1.0, 4.0, 0.0], 0));
    assert!(pending.open(None, &[1.0, 5.0, 0.0], 0));
    assert!(!pending.open(None, &[1.0, 6.0, 0.0], ONCE), "it is already open");
    assert_eq!((pending.len(), pending.losses().unsafe_), (1, 1));
}

#[test]
fn a_loss_keeps_slots_with_keep_lost() {
    let mut pending = pending(PendingOptions { keep_lost: true, ..SHAPE });
    pending.open(None, &[1.0, 1.0, 0.0], 0);
    pending.drop_before(f64::INFINITY);
    assert_eq!((pending.len(), pending.losses().unsafe_), (1, 0));
}

#[test]
fn the_end_of_a_task_drops_its_slot_only_where_keys_are_tasks() {
    for (by_task, left) in [(true, 1), (false, 2)] {
        let mut pending = pending(PendingOptions { by_task, ..SHAPE });
        pending.open(None, &[1.0, 1.0, 0.0], 0);
        pending.open(None, &[2.0, 1.0, 0.0], 0);
        pending.drop_task(1);
        pending.drop_task(99);
        assert_eq!((pending.len(), pending.losses().exited), (left, 2 - left as u64));
    }
}

#[test]
fn a_full_table_drops_the_oldest_slot() {
    let mut pending = pending(PendingOptions { bound: 1000, ..SHAPE });
    let capacity = pending.capacity as u32;
    for i in 0..capacity {
        pending.open(None, &[f64::from(i), 0.0, 0.0], 0);
    }
    // Reopened, the first slot is now the newest.
    pending.open(None, &[0.0, 0.0, 0.0], 0);
    pending.open(None, &[f64::from(capacity), 0.0, 0.0], 0);
    assert_eq!((pending.len(), pending.losses().evicted), (capacity as usize, 1));
    assert!(pending.close(number(0), 1.0));
    assert!(!pending.close(number(1), 1.0));
}

#[test]
fn a_read_slot_can_be_written_until_it_is_closed() {
    let mut pending = pending(SHAPE);
    pending.open(None, &[7.0, 1000.0, 1.0], 0);
    assert!(pending.get(number(7)));
    let (index, generation) = (pending.read().index, pending.read().generation);
    assert!(pending.set(index, generation, 0, 5.0, 1 << 1));
    assert!(!pending.set(index, generation, 1, 5.0, 0), "there is no second value");
    assert_eq!((pending.read().values[0], pending.read().kinds), (5.0, 2));
    assert!(pending.close(number(7), 1000.0));
    assert_eq!((pending.closed().values[0], pending.closed().kinds), (5.0, 2));
    assert!(!pending.set(index, generation, 0, 6.0, 0));
    pending.open(None, &[7.0, 2000.0, 1.0], 0);
    assert!(!pending.set(index, generation, 0, 6.0, 0), "the slot has been reused");
}

#[test]
fn every_open_slot_is_visited_once() {
    let mut pending = pending(SHAPE);
    (0..5).for_each(|i| _ = pending.open(None, &[f64::from(i), 0.0, 0.0], 0));
    pending.close(number(2), 1.0);
    let (mut next, mut keys) = (pending.next(0), Vec::new());
    while next != 0 {
        keys.push(pending.read().key);
        next = pending.next(next);
    }
    assert_eq!(keys, [0.0, 1.0, 3.0, 4.0]);
}

#[test]
fn slots_are_visited_in_the_order_in_which_they_were_opened() {
    let mut pending = pending(SHAPE);
    (0..4).for_each(|i| _ = pending.open(None, &[f64::from(i), 0.0, 0.0], 0));
    pending.close(number(1), 1.0);
    // 5 takes the free slot, which lies among older ones; 0 becomes the newest when it is reopened.
    [5.0, 0.0].into_iter().for_each(|key| _ = pending.open(None, &[key, 2.0, 0.0], 0));
    let (mut next, mut keys) = (pending.next(0), Vec::new());
    while next != 0 {
        keys.push(pending.read().key);
        if keys.len() == 2 {
            // A slot opened during the visit is not part of it, whichever index it takes; a closed
            // one is skipped.
            pending.close(number(5), 3.0);
            pending.open(None, &[6.0, 3.0, 0.0], 0);
        }
        next = pending.next(next);
    }
    assert_eq!(keys, [2.0, 3.0, 0.0]);
}

fn open_event(pending: &mut Pending, key: f64, raw: &[u8], chain: &[u64]) {
    let slot =
        Slot { chain: chain.as_ptr(), chain_len: chain.len() as u16, tid: 99, ..Slot::of(raw) };
    pending.open(Some(BorrowedEvent { slot: &slot, raw, chain }), &[key, 1.0, 0.0], 0);
}

#[test]
fn a_kept_event_outlives_its_record() {
    let mut pending = pending(PendingOptions { keep_event: true, ..SHAPE });
    open_event(&mut pending, 1.0, b"first", &[1, 2]);
    open_event(&mut pending, 2.0, b"second", &[]);
    assert!(pending.close(number(1), 2.0));
    assert_eq!(pending.closed().event, &raw const pending.closed_kept.slot);
    let kept = &pending.closed_kept;
    assert_eq!(
        (kept.raw.as_slice(), kept.chain.as_slice()),
        (b"first".as_slice(), [1u64, 2].as_slice())
    );
    assert_eq!((kept.slot.raw, kept.slot.chain), (kept.raw.as_ptr(), kept.chain.as_ptr()));
    assert_eq!((kept.slot.tid, kept.slot.raw_size, kept.slot.chain_len), (99, 5, 2));
    // The closed event stays unchanged until the next close, while others are opened.
    open_event(&mut pending, 3.0, b"third", &[]);
    assert_eq!(pending.closed_kept.raw, b"first");
    assert!(pending.close(number(2), 2.0));
    assert_eq!(pending.closed_kept.raw, b"second");
    assert!(pending.closed_kept.slot.chain.is_null());
}

#[test]
fn a_copy_has_the_owner_of_its_event() {
    let now = Rc::new(std::cell::Cell::new(1));
    let owner = |n: u32| EventOwner { space: Space(n), comm: [n as u8; 16] };
    let (owners, current) = (Rc::new(Owners::default()), now.clone());
    owners.look_up_with(Box::new(move |_| owner(current.get())));
    let mut pending =
        Pending::new(PendingOptions { keep_event: true, ..SHAPE }).with_owners(&owners);
    for key in [1, 2] {
        now.set(key);
        open_event(&mut pending, f64::from(key), b"event", &[]);
    }
    now.set(3);
    assert!(pending.close(number(1), 5.0) && pending.get(number(2)));
    assert_eq!(owners.of(&pending.closed_kept.slot), Some(owner(1)));
    assert_eq!(owners.of(&pending.read_slot), Some(owner(2)));
    assert!(pending.close(number(2), 5.0));
    assert_eq!(owners.of(&pending.closed_kept.slot), Some(owner(2)));
    assert_eq!(owners.of(&Slot::EMPTY), None, "a live event has no stored owner");
}

#[test]
fn a_read_event_is_dropped_with_its_slot() {
    let mut pending = pending(PendingOptions { keep_event: true, ..SHAPE });
    open_event(&mut pending, 1.0, b"one", &[]);
    assert!(pending.get(number(1)));
    assert_eq!(pending.read_slot.raw_size, 3);
    assert!(!pending.read().event.is_null());
    open_event(&mut pending, 1.0, b"again", &[]);
    assert!(pending.read().event.is_null() && pending.read_slot.raw.is_null());
}

#[test]
fn kept_events_are_bounded_in_bytes() {
    let mut pending = pending(PendingOptions { keep_event: true, bound: 100_000, ..SHAPE });
    let raw = [0u8; 8000];
    for i in 0..100 {
        open_event(&mut pending, f64::from(i), &raw, &[]);
        assert!(pending.kept_bytes <= 100_000);
    }
    assert_eq!(pending.len() as u64 + pending.losses().evicted, 100);
    assert!(pending.close(number(99), 2.0));
    let held: usize = pending.kept.iter().map(EventCopy::bytes).sum();
    assert_eq!(held, pending.kept_bytes);
}

proptest! {
    /// Compares with a map for any sequence of opens, closes, losses and exits in a table that
    /// never fills. A loss may extend into the future, because one of two rings may be ahead.
    #[test]
    fn it_behaves_as_a_map(steps in prop::collection::vec((0u8..5, 0u32..12), 0..400)) {
        let (mut pending, mut map) = (pending(SHAPE), HashMap::new());
        let (mut expected, mut unsafe_until) = (PendingLosses::default(), f64::NEG_INFINITY);
        for (i, (step, key)) in steps.into_iter().enumerate() {
            let time = i as f64;
            match step {
                0 | 1 => {
                    pending.open(None, &[f64::from(key), time, time * 2.0], 0);
                    if time <= unsafe_until {
                        expected.unsafe_ += 1;
                        continue;
                    }
                    expected.unmatched += u64::from(map.insert(key, time).is_some());
                }
                2 => {
                    let opened = map.remove(&key);
                    prop_assert_eq!(pending.close(number(key), time), opened.is_some());
                    if let Some(opened) = opened {
                        let closed = pending.closed();
                        prop_assert_eq!((closed.time, closed.delay), (opened, time - opened));
                        prop_assert_eq!(closed.values[0], opened * 2.0);
                    }
                }
                3 => {
                    pending.drop_task(key);
                    expected.exited += u64::from(map.remove(&key).is_some());
                }
                _ => {
                    let (until, before) = (time + f64::from(key) - 6.0, map.len());
                    unsafe_until = until.max(unsafe_until);
                    pending.drop_before(until);
                    map.retain(|_, opened| *opened > until);
                    expected.unsafe_ += (before - map.len()) as u64;
                }
            }
            prop_assert_eq!(pending.len(), map.len());
        }
        prop_assert_eq!(pending.losses(), expected);
    }

    /// Every open ends in exactly one way, for any bound.
    #[test]
    fn every_open_is_accounted_for(
        opens in prop::collection::vec(0u32..100, 0..400),
        bound in 0usize..4000,
    ) {
        let mut pending = pending(PendingOptions { bound, ..SHAPE });
        for key in &opens {
            pending.open(None, &[f64::from(*key), 0.0, 0.0], 0);
        }
        let losses = pending.losses();
        let accounted = pending.len() as u64 + losses.unmatched + losses.evicted;
        prop_assert_eq!(accounted, opens.len() as u64);
        prop_assert_eq!(pending.starts(), opens.len() as u64);
    }
}

#[test]
fn a_start_whose_end_was_missed_is_unmatched() {
    let mut pending = pending(SHAPE);
    pending.open(None, &[7.0, 1.0, 0.0], 0);
    pending.miss(number(7));
    pending.miss(number(8));
    assert_eq!((pending.len(), pending.starts(), pending.losses().unmatched), (0, 1, 1));
    assert!(!pending.close(number(7), 2.0));
}
