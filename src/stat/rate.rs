//! Event counts by key within a sliding window that ends now: exact, because every time is stored.

use super::{
    budget::{Budget, BudgetGrant},
    keys::{Keys, first_half, gather},
    leaf::Leaf,
    strings::Marks,
    word::{Word, words},
};
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum number of times stored for a key; the count of a faster key stays at this number.
pub const MOST_TIMES: usize = 1 << 17;

/// Times by key.
pub struct Rates {
    window: f64,
    keys: Keys,
    times: Vec<VecDeque<f64>>,
    bytes: usize,
    room: BudgetGrant,
    evicted: u64,
    survivors: Vec<u32>,
}

impl Rates {
    /// Returns an empty table that counts over `window` nanoseconds by keys of `keys` words (at
    /// most 8), in about `bound` bytes.
    pub fn new(window: f64, keys: usize, bound: usize) -> Rates {
        let keys = Keys::new(keys);
        let (times, survivors, room) = (Vec::new(), Vec::new(), BudgetGrant::new(bound));
        Rates { window, keys, times, bytes: 0, room, evicted: 0, survivors }
    }

    /// Takes its memory from a budget.
    pub fn with_budget(self, budget: &Rc<Budget>) -> Rates {
        let room = self.room.with_budget(budget);
        Rates { room, ..self }
    }

    /// Adds an event at `time` and returns how many are in the window `(time - window, time]`,
    /// itself included.
    ///
    /// A time older than a stored one (from rings that are not ordered) is inserted in order.
    #[inline(always)]
    pub fn add(&mut self, key: &[Word], time: f64) -> u32 {
        if time.is_nan() {
            return 0;
        }
        let row = match self.keys.find_recent(key) {
            Some(row) => row,
            None => self.new_row(key, time),
        };
        let Some(times) = self.times.get_mut(row) else { return 0 };
        let newest = times.back().copied().unwrap_or(time).max(time);
        while times.front().is_some_and(|oldest| *oldest <= newest - self.window) {
            times.pop_front();
        }
        if times.len() >= MOST_TIMES {
            times.pop_front();
            self.evicted += 1;
        }
        let before = times.capacity();
        let later = times.iter().rev().take_while(|other| **other > time).count();
        times.insert(times.len() - later, time);
        let count = (times.len() - later) as u32;
        self.bytes += (times.capacity() - before) * size_of::<f64>();
        if self.bytes > self.room.bytes() && !self.grow(self.bytes) {
            self.drop_idle(time);
        }
        count
    }

    #[cold]
    #[inline(never)]
    fn new_row(&mut self, key: &[Word], time: f64) -> usize {
        let bytes = self.keys.bytes_per_key() + size_of::<VecDeque<f64>>();
        let needed = self.bytes + bytes;
        if needed > self.room.bytes() && !self.grow(needed) {
            self.drop_idle(time);
        }
        self.bytes += bytes;
        self.times.push(VecDeque::new());
        self.keys.insert(key)
    }

    /// Requests memory until `needed` bytes fit, and returns whether they do.
    #[cold]
    fn grow(&mut self, needed: usize) -> bool {
        while needed > self.room.bytes() && self.room.grow() {}
        needed <= self.room.bytes()
    }

    /// Drops the half of the keys that were idle longest; only keys with times in the window count
    /// as evicted.
    #[cold]
    fn drop_idle(&mut self, time: f64) {
        if self.keys.len() < 2 {
            return;
        }
        let newest = |row: usize| self.times.get(row).and_then(|times| times.back()).copied();
        let newest = |row| newest(row).unwrap_or(f64::NEG_INFINITY);
        let mut survivors = std::mem::take(&mut self.survivors);
        first_half(self.keys.len(), &mut survivors, |a, b| newest(b).total_cmp(&newest(a)));
        let live = (0..self.keys.len()).filter(|row| newest(*row) > time - self.window).count();
        gather(&mut self.times, 1, &survivors);
        self.keys.keep(&survivors);
        self.evicted += live.saturating_sub(survivors.len()) as u64;
        let of_times = self.times.iter().map(|times| times.capacity() * size_of::<f64>());
        let of_keys = self.keys.bytes_per_key() + size_of::<VecDeque<f64>>();
        self.bytes = of_times.sum::<usize>() + self.keys.len() * of_keys;
        self.survivors = survivors;
    }

    /// Returns the number of keys dropped within their window, plus the times dropped because one
    /// key had too many.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Marks the strings in use.
    pub fn mark(&self, marks: &mut Marks) {
        self.keys.iter().flatten().for_each(|word| marks.mark_word(*word));
    }
}

impl Leaf for Rates {
    /// Doubles: the time, then the key. Bit i of the flags is set if word i of the key is a string.
    /// Returns the count.
    #[inline(always)]
    fn take(&mut self, doubles: &[f64], flags: u32) -> u32 {
        let Some((time, key)) = doubles.split_first() else { return 0 };
        let mut buffer = Word::BUFFER;
        self.add(words(&mut buffer, key, flags), *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [Word; 1] = [Word::ZERO];

    #[test]
    fn the_window_ends_with_the_event_itself() {
        let mut rate = Rates::new(100.0, 1, 1 << 20);
        let counts: Vec<u32> =
            [0.0, 50.0, 99.0, 100.0, 149.0, 400.0].map(|time| rate.add(&KEY, time)).to_vec();
        assert_eq!(counts, [1, 2, 3, 3, 4, 1]);
        assert_eq!(rate.add(&[Word::string(1)], 400.0), 1);
    }

    #[test]
    fn a_late_event_is_inserted_in_time_order() {
        let mut rate = Rates::new(100.0, 1, 1 << 20);
        rate.add(&KEY, 10.0);
        rate.add(&KEY, 30.0);
        assert_eq!(rate.add(&KEY, 20.0), 2);
        assert_eq!(rate.add(&KEY, 110.5), 3);
    }

    #[test]
    fn a_key_counts_up_to_its_bound() {
        let mut rate = Rates::new(1e9, 1, 1 << 30);
        let last = (0..MOST_TIMES + 5).map(|i| rate.add(&KEY, i as f64)).last();
        assert_eq!((last, rate.evicted()), (Some(MOST_TIMES as u32), 5));
    }

    #[test]
    fn many_keys_stay_within_the_byte_limit() {
        let mut rate = Rates::new(10.0, 1, 4000);
        for i in 0..1000 {
            rate.add(&[Word::number(f64::from(i))], f64::from(i));
            assert!(rate.bytes <= 4000, "{}", rate.bytes);
        }
        assert_eq!(rate.evicted(), 0, "dropped times were outside the window");
    }
}
