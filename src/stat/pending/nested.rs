//! Nested calls: the slots of a key form a stack, and the table's index holds the innermost.

use super::{NONE, Pending};
use crate::stat::word::{Word, hash};

/// Maximum nesting depth. Deeper calls are counted and not followed. It is the depth to which the
/// kernel has returns of user-space functions (`MAX_URETPROBE_DEPTH`).
const DEPTH: u16 = 64;

impl Pending {
    /// Returns a new slot inside the innermost one of its key; None if the nesting is too deep.
    #[cold]
    #[inline(never)]
    pub(super) fn inside(&mut self, hash: u64, key: Word, outer: u32) -> Option<u32> {
        let slot = self.slots.get_mut(outer as usize)?;
        let depth = slot.depth + 1;
        if depth >= DEPTH {
            if !self.shape.uretprobes {
                slot.deeper = slot.deeper.saturating_add(1);
            }
            self.losses.evicted += 1;
            return None;
        }
        // Making room may evict the outer slot.
        let index = self.free_slot();
        let slots = &self.slots;
        let is_at = |&i: &u32| super::is_at(slots, i, key);
        match self.index.find_mut(hash, is_at) {
            Some(innermost) => {
                let below = std::mem::replace(innermost, index);
                if let Some(slot) = self.slots.get_mut(index as usize) {
                    (slot.below, slot.depth) = (below, depth);
                }
            }
            None => self.list(hash, index),
        }
        Some(index)
    }

    /// Closes the innermost slot of a key whose first value is `call`, and returns whether there
    /// was one; [`Pending::closed`] then holds it. Calls end from the inside out, so slots that are
    /// still open inside it never returned: they are dropped and counted as unmatched. If there is
    /// no such slot, all of them were inside a call that began before tracing.
    pub fn close_call(&mut self, key: Word, time: f64, call: f64) -> bool {
        while let Some(index) = self.find(hash(&[key]), key) {
            let first = self.values.get(index as usize * self.shape.values).copied();
            let Some(slot) = self.slots.get_mut(index as usize) else { return false };
            if slot.deeper > 0 {
                slot.deeper -= 1;
                return false;
            }
            if first == Some(call) {
                return self.close(key, time);
            }
            self.remove(index);
            self.losses.unmatched += 1;
        }
        false
    }

    /// Removes a slot from any position of its stack.
    pub(super) fn unnest(&mut self, index: u32, key: Word) {
        let below = self.slots.get(index as usize).map_or(NONE, |slot| slot.below);
        let slots = &self.slots;
        let found = self.index.find_entry(hash(&[key]), |&i| super::is_at(slots, i, key));
        let Ok(entry) = found else { return };
        let mut above = *entry.get();
        if above == index {
            match below {
                NONE => drop(entry.remove()),
                below => *entry.into_mut() = below,
            }
            return;
        }
        for _ in 0..DEPTH {
            match self.slots.get_mut(above as usize) {
                Some(slot) if slot.below == index => {
                    slot.below = below;
                    return;
                }
                Some(slot) => above = slot.below,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{SHAPE, number, pending};
    use super::super::{PendingLosses, PendingOptions};
    use super::*;

    const CALLS: PendingOptions = PendingOptions { nested: true, ..SHAPE };

    #[test]
    fn nested_calls_end_innermost_first() {
        let mut calls = pending(CALLS);
        calls.open(None, &[7.0, 100.0, 1.0], 0);
        calls.open(None, &[7.0, 110.0, 2.0], 0);
        calls.open(None, &[8.0, 115.0, 1.0], 0);
        calls.open(None, &[7.0, 120.0, 2.0], 0);
        for (time, call, delay) in [(130.0, 2.0, 10.0), (150.0, 2.0, 40.0), (160.0, 1.0, 60.0)] {
            assert!(calls.close_call(number(7), time, call));
            assert_eq!((calls.closed().delay, calls.closed().values[0]), (delay, call));
        }
        assert!(!calls.close_call(number(7), 170.0, 1.0));
        assert_eq!((calls.len(), calls.losses()), (1, PendingLosses::default()));
    }

    #[test]
    fn a_call_without_a_return_ends_with_its_caller() {
        let mut calls = pending(CALLS);
        for (time, call) in [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)] {
            calls.open(None, &[7.0, time, call], 0);
        }
        assert!(calls.close_call(number(7), 10.0, 1.0));
        assert_eq!((calls.closed().delay, calls.losses().unmatched), (10.0, 2));
        calls.open(None, &[7.0, 20.0, 2.0], 0);
        assert!(!calls.close_call(number(7), 30.0, 1.0), "the call began before the trace");
        assert_eq!((calls.is_empty(), calls.losses().unmatched), (true, 3));
    }

    #[test]
    fn calls_beyond_the_depth_limit_are_counted_and_not_paired() {
        let mut calls = pending(CALLS);
        for i in 0..70 {
            calls.open(None, &[7.0, f64::from(i), 5.0], 0);
        }
        assert_eq!(calls.losses().evicted, 6);
        let ended =
            (0..70).filter(|i| calls.close_call(number(7), f64::from(100 + i), 5.0)).count();
        assert_eq!((ended, calls.closed().delay, calls.is_empty()), (64, 169.0, true));
    }

    #[test]
    fn returns_that_the_kernel_omits_beyond_the_depth_limit_are_not_awaited() {
        let mut calls = pending(PendingOptions { uretprobes: true, ..CALLS });
        for round in 0..2 {
            let start = f64::from(1000 * round);
            for i in 0..100 {
                calls.open(None, &[7.0, start + f64::from(i), 5.0], 0);
            }
            for i in (0..64).rev() {
                assert!(calls.close_call(number(7), start + 200.0, 5.0));
                assert_eq!(calls.closed().delay, f64::from(200 - i), "the call of depth {i}");
            }
        }
        let losses = PendingLosses { evicted: 72, ..PendingLosses::default() };
        assert_eq!((calls.losses(), calls.is_empty()), (losses, true));
    }

    proptest! {
        #[test]
        fn drops_keep_call_stacks_consistent(
            steps in prop::collection::vec((0u32..3, 0u32..4, 0u32..5), 0..300),
            bound in 200usize..3000,
        ) {
            let mut calls = pending(PendingOptions { bound, ..CALLS });
            let mut opened = 0u64;
            let mut closed = 0u64;
            for (time, (key, call, what)) in steps.into_iter().enumerate() {
                let (key, call, time) = (f64::from(key), f64::from(call), time as f64);
                match what {
                    0..=1 => { calls.open(None, &[key, time, call], 0); opened += 1; }
                    2..=3 => closed += u64::from(calls.close_call(Word::number(key), time, call)),
                    _ if call == 0.0 => calls.drop_before(time - 4.0),
                    _ => calls.drop_task(key as u32),
                }
            }
            let still = calls.slots.iter().filter(|slot| slot.open).count() as u64;
            let gone = calls.losses();
            prop_assert_eq!(calls.starts(), opened);
            prop_assert_eq!(
                opened,
                closed + still + gone.unmatched + gone.unsafe_ + gone.exited + gone.evicted
            );
            // Each open slot is found from its key.
            for key in 0..3 {
                while let Some(index) = calls.find(hash(&[number(key)]), number(key)) {
                    calls.remove(index);
                }
            }
            prop_assert!(calls.slots.iter().all(|slot| !slot.open));
        }
    }
}
