//! Address ranges that do not overlap, each with a value: a new one replaces those that it
//! overlaps.

use std::collections::BTreeMap;

/// The ranges, by their first address.
#[derive(Debug)]
pub(super) struct Ranges<T> {
    ranges: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges { ranges: BTreeMap::new() }
    }
}

impl<T> Ranges<T> {
    /// Adds a range of `length` bytes, if it is not empty, and removes every other that overlaps
    /// it. Returns the removed values.
    pub(super) fn put(&mut self, start: u64, length: u64, value: T) -> Vec<T> {
        let end = start.saturating_add(length);
        let mut removed = Vec::new();
        if length == 0 {
            return removed;
        }
        while let Some((&old, &(old_length, _))) = self.ranges.range(..end).next_back()
            && old.saturating_add(old_length) > start
        {
            removed.extend(self.remove(old));
        }
        self.ranges.insert(start, (length, value));
        removed
    }

    /// Removes the range with this first address, and returns its value.
    pub(super) fn remove(&mut self, start: u64) -> Option<T> {
        self.ranges.remove(&start).map(|(_, value)| value)
    }

    /// Returns the start and the value of the range that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<(u64, &T)> {
        let (start, (length, value)) = self.ranges.range(..=address).next_back()?;
        (address - start < *length).then_some((*start, value))
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_range_replaces_what_it_overlaps() {
        let mut ranges = Ranges::default();
        ranges.put(0x1000, 0x100, 'a');
        ranges.put(0x1100, 0x100, 'b');
        ranges.put(0x2000, 0, 'z');
        let at = |ranges: &Ranges<char>, at| ranges.find(at).map(|(start, name)| (start, *name));
        assert_eq!(at(&ranges, 0x10ff), Some((0x1000, 'a')));
        assert_eq!(ranges.put(0x10f0, 0x20, 'c'), ['b', 'a']);
        assert_eq!(at(&ranges, 0x1000), None);
        assert_eq!(at(&ranges, 0x10ff), Some((0x10f0, 'c')));
        assert_eq!(at(&ranges, 0x1180), None);
        assert_eq!((at(&ranges, 0xfff), at(&ranges, 0x2000)), (None, None));
        ranges.put(u64::MAX - 1, u64::MAX, 'd');
        assert_eq!(at(&ranges, u64::MAX), Some((u64::MAX - 1, 'd')));
        assert_eq!(ranges.len(), 2);
    }
}
