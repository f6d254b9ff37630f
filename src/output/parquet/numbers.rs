//! The numbers of a column: indices into a list of the different ones, or plain where most differ.
//! They are stored as pushed, and looked up a page at a time.

use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};

/// Different numbers above which a column becomes plain.
const ENTRIES: usize = 1 << 13;
/// Entries of the cache of recent numbers.
const RECENT: usize = 256;

/// Numbers that are not written yet.
pub(super) struct Numbers {
    /// The numbers of the page in progress.
    pub(super) page: Vec<i64>,
    form: NumberForm,
    /// The different numbers of the chunk, to which indices refer.
    pub(super) entries: Vec<i64>,
    /// The indices of the last page that was looked up.
    pub(super) indices: Vec<u32>,
    by_number: HashTable<u32>,
    hasher: RandomState,
    /// An index for the low bits of a number, which may be that of another number.
    recent: Box<[u32]>,
}

/// How numbers are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberForm {
    Indices,
    Plain,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            page: Vec::new(),
            form: NumberForm::Indices,
            entries: Vec::new(),
            indices: Vec::new(),
            by_number: HashTable::new(),
            hasher: RandomState::new(),
            recent: Box::new([]),
        }
    }
}

impl Numbers {
    /// Looks up the index of each number of the page; returns false if the column is plain, from
    /// now on.
    pub(super) fn index_page(&mut self) -> bool {
        if self.form == NumberForm::Plain {
            return false;
        }
        if self.recent.is_empty() {
            self.recent = vec![u32::MAX; RECENT].into();
        }
        self.indices.clear();
        let page = std::mem::take(&mut self.page);
        let is_indexed = page.iter().all(|number| self.add_index(*number));
        self.page = page;
        if !is_indexed {
            // For later row groups, too: their numbers are of the same kind.
            self.form = NumberForm::Plain;
        }
        is_indexed
    }

    /// Appends the index of a number; returns false if there are too many different ones.
    #[inline]
    fn add_index(&mut self, number: i64) -> bool {
        let slot = slot_of(number);
        let recent = self.recent.get(slot).copied().unwrap_or(u32::MAX);
        if self.entries.get(recent as usize) == Some(&number) {
            self.indices.push(recent);
            return true;
        }
        let Some(index) = self.find_or_add(number) else { return false };
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = index;
        }
        self.indices.push(index);
        true
    }

    #[inline(never)]
    fn find_or_add(&mut self, number: i64) -> Option<u32> {
        let hash = self.hasher.hash_one(number);
        let (entries, hasher) = (&mut self.entries, &self.hasher);
        let is_same = |index: &u32| entries.get(*index as usize) == Some(&number);
        if let Some(index) = self.by_number.find(hash, is_same) {
            return Some(*index);
        }
        if entries.len() == ENTRIES {
            return None;
        }
        let index = entries.len() as u32;
        entries.push(number);
        self.by_number.insert_unique(hash, index, |index| {
            hasher.hash_one(entries.get(*index as usize).copied().unwrap_or_default())
        });
        Some(index)
    }

    /// Returns the memory that the numbers take.
    pub(super) fn bytes(&self) -> usize {
        (2 * self.entries.len() + self.page.len()) * size_of::<i64>()
            + self.indices.len() * size_of::<u32>()
    }

    /// Forgets the numbers; keeps their form.
    pub(super) fn clear(&mut self) {
        self.page.clear();
        self.indices.clear();
        self.entries.clear();
        self.by_number.clear();
    }
}

/// Neighbouring numbers, such as those of tasks, have different slots.
fn slot_of(number: i64) -> usize {
    (number as usize) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexed(numbers: &mut Numbers, pushed: &[i64]) -> Option<Vec<i64>> {
        numbers.page = pushed.to_vec();
        let is_indexed = numbers.index_page();
        let number = |index: &u32| numbers.entries[*index as usize];
        is_indexed.then(|| numbers.indices.iter().map(number).collect())
    }

    #[test]
    fn repeated_numbers_are_stored_once() {
        let mut numbers = Numbers::default();
        let pushed = [7, 263, 7, 263, -1, i64::MIN, 7, 0, 256];
        for round in 0..2 {
            for _ in 0..2 {
                assert_eq!(indexed(&mut numbers, &pushed).unwrap(), pushed, "round {round}");
            }
            assert_eq!(numbers.entries.len(), 6);
            numbers.clear();
        }
    }

    #[test]
    fn many_different_numbers_become_plain() {
        let mut numbers = Numbers::default();
        let pushed: Vec<i64> = (0..8192).map(|i| i * 3).collect();
        assert_eq!(indexed(&mut numbers, &pushed).unwrap(), pushed);
        assert_eq!(indexed(&mut numbers, &[3, 1]), None);
        assert_eq!(numbers.page, [3, 1]);
        numbers.clear();
        assert_eq!(indexed(&mut numbers, &[3]), None);
    }
}
