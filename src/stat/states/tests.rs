//! Tests of the times of states, and of each way in which a task is dropped.

use super::switch::*;
use super::*;
use crate::stat::Aggregate as _;
use proptest::prelude::*;
use std::{cell::RefCell, rc::Rc};

fn number(n: u32) -> Word {
    Word::number(f64::from(n))
}

fn moved(states: &mut States, tid: u32, time: f64, state: i32) -> Moved {
    states.move_to(None, tid, time, 0, state)
}

/// Two values: the state and a name.
fn states(than: f64) -> (States, SharedAggregate<Latency>) {
    let spent = Rc::new(RefCell::new(Latency::new(2, 1 << 20)));
    let shape = StatesOptions { values: 2, state: 0, than, keep_event: false, bound: 1 << 20 };
    (States::new(shape, spent.clone()), spent)
}

/// State, name, calls, total.
fn rows(spent: &SharedAggregate<Latency>) -> Vec<(Word, Word, u64, f64)> {
    let spent = spent.borrow();
    let row = |(key, timing): (&[Word], &crate::stat::latency::Timing)| {
        (key[0], key[1], timing.count(), timing.total().value())
    };
    spent.rows().map(row).collect()
}

#[test]
fn a_state_is_timed_until_the_next_under_its_own_values() {
    let (mut states, spent) = states(f64::INFINITY);
    // The name is a string in the first entry: bit 2 of the kinds.
    states.enter(None, &[7.0, 100.0, 1.0, 5.0], 1 << 2);
    states.enter(None, &[7.0, 400.0, 2.0, 6.0], 0);
    states.leave(7, 450.0);
    states.leave(7, 500.0);
    let expected = [(number(1), Word::string(5), 1, 300.0), (number(2), number(6), 1, 50.0)];
    assert_eq!(rows(&spent), expected);
    assert_eq!(states.losses(), PendingLosses::default());
}

#[test]
fn a_key_moves_with_its_values_once_it_is_known() {
    let (mut states, spent) = states(f64::INFINITY);
    assert_eq!(moved(&mut states, 7, 50.0, 1), Moved::Unknown);
    states.enter(None, &[7.0, 100.0, 1.0, 5.0], 1 << 2);
    assert_eq!(moved(&mut states, 7, 400.0, 2), Moved::Done);
    assert_eq!(moved(&mut states, 7, 410.0, 1), Moved::Done);
    assert_eq!(moved(&mut states, 7, 500.0, 2), Moved::Done);
    let name = Word::string(5);
    assert_eq!(rows(&spent), [(number(1), name, 2, 390.0), (number(2), name, 1, 10.0)]);
}

#[test]
fn a_row_is_looked_up_again_after_an_interval() {
    let (mut states, spent) = states(f64::INFINITY);
    states.enter(None, &[1.0, 0.0, 1.0, 5.0], 0);
    moved(&mut states, 1, 10.0, 2);
    spent.borrow_mut().clear();
    spent.borrow_mut().add(&[number(9), number(9)], 1.0);
    moved(&mut states, 1, 30.0, 1);
    moved(&mut states, 1, 60.0, 2);
    let expected = [
        (number(9), number(9), 1, 1.0),
        (number(2), number(5), 1, 20.0),
        (number(1), number(5), 1, 30.0),
    ];
    assert_eq!(rows(&spent), expected);
}

#[test]
fn a_renamed_task_is_entered_anew() {
    let (mut states, spent) = states(f64::INFINITY);
    states.enter(None, &[7.0, 0.0, 0.0, 5.0], 0);
    states.rename_task(7);
    assert_eq!(moved(&mut states, 7, 10.0, 1), Moved::Unknown);
    states.enter(None, &[7.0, 10.0, 1.0, 6.0], 0);
    assert_eq!(moved(&mut states, 7, 30.0, 0), Moved::Done);
    assert_eq!(rows(&spent), [(number(0), number(5), 1, 10.0), (number(1), number(6), 1, 20.0)]);
}

#[test]
fn a_mask_limits_the_previous_states() {
    let (mut states, spent) = states(f64::INFINITY);
    assert_eq!(states.move_to(None, 7, 0.0, 3, 9), Moved::Done);
    assert!(states.is_empty(), "the task has no state");
    states.enter(None, &[7.0, 0.0, 0.0, 0.0], 0);
    states.move_to(None, 7, 10.0, 3, 9);
    assert!(rows(&spent).is_empty(), "state 0 has no bit of the mask");
    moved(&mut states, 7, 20.0, 2);
    states.move_to(None, 7, 30.0, 3, 9);
    assert_eq!(rows(&spent).len(), 2);
    moved(&mut states, 7, 40.0, -2);
    states.move_to(None, 7, 50.0, 3, 5);
    moved(&mut states, 7, 60.0, 0);
    let woken = rows(&spent).into_iter().find(|row| row.0 == number(5));
    assert_eq!(woken.map(|row| row.3), Some(10.0), "a state that is not timed has its bits, too");
}

#[test]
fn states_longer_than_the_limit_are_reported() {
    let (mut states, _) = states(100.0);
    states.enter(None, &[7.0, 0.0, 1.0, 0.0], 0);
    assert_eq!(states.enter(None, &[7.0, 100.0, 2.0, 0.0], 0), Moved::Done);
    assert_eq!(moved(&mut states, 7, 201.0, 1), Moved::Longer);
    assert_eq!((states.ended().values[0], states.ended().delay), (2.0, 101.0));
    assert_eq!(states.leave(7, 400.0), Moved::Longer);
}

#[test]
fn an_exiting_task_keeps_its_running_state() {
    let (mut states, spent) = states(f64::INFINITY);
    states.enter(None, &[1.0, 0.0, 0.0, 0.0], 0);
    states.enter(None, &[2.0, 0.0, 1.0, 0.0], 0);
    states.drop_task(1);
    states.drop_task(2);
    assert_eq!((states.len(), states.losses().exited), (1, 1));
    states.leave(1, 5.0);
    assert_eq!(rows(&spent), [(Word::ZERO, Word::ZERO, 1, 5.0)]);
}

#[test]
fn a_new_task_does_not_inherit_the_state_of_a_reused_tid() {
    let (mut states, spent) = states(f64::INFINITY);
    states.enter(None, &[1.0, 0.0, 0.0, 0.0], 0);
    states.drop_task(1);
    states.forget_task(1);
    assert_eq!((states.len(), states.losses().exited), (0, 1));
    assert_eq!(moved(&mut states, 1, 9.0, 1), Moved::Unknown);
    assert!(rows(&spent).is_empty());
}

proptest! {
    /// The times of a task add up to the time between its first and its last event.
    #[test]
    fn times_add_up(steps in prop::collection::vec((0u32..600, 0u32..1000), 1..100)) {
        let (mut states, spent) = states(f64::INFINITY);
        let mut time = 0.0;
        for (state, step) in &steps {
            let state = f64::from(*state);
            if moved(&mut states, 1, time, state as i32) == Moved::Unknown {
                states.enter(None, &[1.0, time, state, 0.0], 0);
            }
            time += f64::from(*step);
        }
        states.leave(1, time);
        let total: f64 = rows(&spent).iter().map(|row| row.3).sum();
        prop_assert_eq!(total, time);
    }
}

proptest! {
    /// No time is added for a state that overlaps a loss window.
    #[test]
    fn states_that_overlap_a_loss_window_add_no_time(
        steps in prop::collection::vec((0u32..4, 0u32..30, 0u32..50), 1..200),
    ) {
        let (mut states, spent) = states(f64::INFINITY);
        let (mut time, mut expected, mut loss_end) = (0.0, 0.0, f64::NEG_INFINITY);
        let mut since = None;
        for (what, step, length) in steps {
            time += f64::from(step);
            if what == 0 {
                loss_end = (time + f64::from(length)).max(loss_end);
                states.drop_before(loss_end);
                since = since.filter(|since| *since > loss_end);
                continue;
            }
            if moved(&mut states, 1, time, 1) == Moved::Unknown {
                states.enter(None, &[1.0, time, 1.0, 0.0], 0);
            }
            expected += since.map_or(0.0, |since| time - since);
            since = (time > loss_end).then_some(time);
        }
        let total: f64 = rows(&spent).iter().map(|row| row.3).sum();
        prop_assert_eq!(total, expected);
    }
}

#[test]
fn a_switch_moves_both_tasks_and_reports_unknown_ones() {
    let (mut states, spent) = states(500.0);
    assert_eq!(states.switch(None, 7, 8, 100.0, 1), PREV_UNKNOWN | NEXT_UNKNOWN);
    states.enter(None, &[7.0, 100.0, 1.0, 5.0], 0);
    states.enter(None, &[8.0, 100.0, 0.0, 6.0], 0);
    // Back: 7 was asleep for 300, 8 ran as long.
    assert_eq!(states.switch(None, 8, 7, 400.0, 2), 0);
    // To no task, and from no task.
    assert_eq!(states.switch(None, 7, 0, 450.0, 1), 0);
    assert_eq!(states.switch(None, 0, 9, 460.0, 0), NEXT_UNKNOWN);
    let expected = [
        (number(0), number(6), 1, 300.0),
        (number(1), number(5), 1, 300.0),
        (number(0), number(5), 1, 50.0),
    ];
    assert_eq!(rows(&spent), expected);
    // A state longer than 500 is returned at once; the previous task comes first.
    assert_eq!(states.switch(None, 0, 8, 1000.0, 0), NEXT_LONGER);
    assert_eq!((states.ended().key, states.ended().delay), (8.0, 600.0));
    assert_eq!(states.switch(None, 8, 7, 2000.0, 1), PREV_LONGER);
    assert_eq!((states.ended().key, states.ended().delay), (8.0, 1000.0));
    assert_eq!(states.switch(None, 0, 7, 2000.0, 0), NEXT_LONGER);
    assert_eq!((states.ended().key, states.ended().delay), (7.0, 1550.0));
}

#[test]
fn a_missing_switch_adds_no_time() {
    let (mut states, spent) = states(500.0);
    states.enter(None, &[7.0, 0.0, 1.0, 5.0], 0);
    // Asleep, and asleep again: the times of the wakeup and the run are unknown.
    assert_eq!(states.switch(None, 7, 0, 1000.0, 1), 0);
    assert_eq!(states.losses().unmatched, 1);
    assert_eq!(states.switch(None, 0, 7, 1100.0, 0), 0);
    // On a CPU, and on a CPU again.
    assert_eq!(states.switch(None, 0, 7, 2000.0, 0), 0);
    assert_eq!(states.losses().unmatched, 2);
    assert_eq!(states.switch(None, 7, 0, 2050.0, 2), 0);
    assert_eq!(rows(&spent), [(number(1), number(5), 1, 100.0), (number(0), number(5), 1, 50.0)]);
}

#[test]
fn reading_held_states_changes_nothing() {
    let (mut states, spent) = states(f64::INFINITY);
    states.enter(None, &[7.0, 100.0, 2.0, 5.0], 0);
    states.enter(None, &[8.0, 200.0, -1.0, 5.0], 0);
    states.enter(None, &[9.0, 300.0, 1.0, 6.0], 0);
    assert_eq!(states.still(0, 250.0), 1);
    assert_eq!(
        (states.ended().key, states.ended().values[0], states.ended().delay),
        (7.0, 2.0, 150.0)
    );
    assert_eq!(states.still(1, 250.0), 0);
    assert_eq!(states.still(1, 400.0), 3);
    assert_eq!((states.ended().key, states.ended().delay), (9.0, 100.0));
    assert_eq!(states.still(3, 400.0), 0);
    assert!(rows(&spent).is_empty());
}
