//! Starts that the kernel pairs with their ends, so that no slot is opened for them.

use super::{Pending, PendingLosses};
use crate::stat::word::Word;

impl Pending {
    /// Adds starts that the kernel took, and those that it dropped. `open` is the number of starts
    /// that it keeps.
    pub fn add_counted(&mut self, starts: u64, dropped: PendingLosses, open: u64) {
        self.starts += starts;
        self.losses.unmatched += dropped.unmatched;
        self.losses.unsafe_ += dropped.unsafe_;
        self.losses.exited += dropped.exited;
        self.losses.evicted += dropped.evicted;
        self.counted_open = open;
    }

    /// Returns the number of starts that the kernel keeps.
    pub fn counted_open(&self) -> usize {
        self.counted_open as usize
    }

    /// Opens a slot for a start that the kernel kept and that was counted before.
    pub fn take_over(&mut self, key: Word, time: f64, values: &[Word]) {
        let mut doubles = vec![0.0, time];
        let mut kinds = 0;
        for (at, word) in std::iter::once(&key).chain(values).enumerate() {
            let (value, is_string) = word.passable();
            kinds |= u32::from(is_string) << at;
            match at {
                0 => doubles[0] = value,
                _ => doubles.push(value),
            }
        }
        // Lost records are none of this start's events.
        let unsafe_until = std::mem::replace(&mut self.unsafe_until, f64::NEG_INFINITY);
        self.open(None, &doubles, kinds);
        self.unsafe_until = unsafe_until;
        self.starts -= 1;
        self.counted_open = self.counted_open.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::pending::tests::SHAPE;

    #[test]
    fn starts_of_the_kernel_are_counted_once() {
        let mut pending = Pending::new(SHAPE);
        let dropped = PendingLosses { unmatched: 2, exited: 1, ..PendingLosses::default() };
        pending.add_counted(10, dropped, 3);
        assert_eq!((pending.starts(), pending.ended(), pending.counted_open()), (10, 4, 3));
        pending.take_over(Word::number(7.0), 900.0, &[Word::string(5)]);
        assert_eq!((pending.starts(), pending.ended(), pending.len()), (10, 4, 1));
        assert_eq!(pending.counted_open(), 2);
        assert!(pending.get(Word::number(7.0)));
        assert_eq!(pending.read().time, 900.0);
        assert_eq!(pending.read().kinds & 2, 2, "its value is a string");
        pending.drop_before(1000.0);
        pending.take_over(Word::number(8.0), 950.0, &[Word::string(5)]);
        assert!(pending.get(Word::number(8.0)), "a loss of records is none of its events");
    }
}
