//! The numbers of a column: indices into a list of the different ones, or plain where most differ.

use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};

/// Different numbers above which a column becomes plain.
const ENTRIES: usize = 1 << 13;
/// Entries of the cache of recent numbers.
const RECENT: usize = 256;

/// Numbers that are not written yet.
pub(super) struct Numbers {
    form: NumberForm,
    /// The index of each number.
    pub(super) indices: Vec<u32>,
    /// The different numbers.
    pub(super) entries: Vec<i64>,
    /// The numbers in plain form.
    pub(super) plain: Vec<i64>,
    by_number: HashTable<u32>,
    hasher: RandomState,
    /// An index for the low bits of a number, which may be that of another number.
    recent: Box<[u32]>,
}

/// How numbers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberForm {
    Indices,
    Plain,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            form: NumberForm::Indices,
            indices: Vec::new(),
            entries: Vec::new(),
            plain: Vec::new(),
            by_number: HashTable::new(),
            hasher: RandomState::new(),
            recent: Box::new([]),
        }
    }
}

impl Numbers {
    #[inline]
    pub(super) fn push(&mut self, number: i64) {
        if self.form == NumberForm::Plain {
            return self.plain.push(number);
        }
        let slot = slot_of(number);
        if let Some(index) = self.recent.get(slot)
            && self.entries.get(*index as usize) == Some(&number)
        {
            return self.indices.push(*index);
        }
        self.push_slowly(number, slot);
    }

    #[inline(never)]
    fn push_slowly(&mut self, number: i64, slot: usize) {
        if self.recent.is_empty() {
            self.recent = vec![u32::MAX; RECENT].into();
        }
        let hash = self.hasher.hash_one(number);
        let (entries, hasher) = (&mut self.entries, &self.hasher);
        let found =
            self.by_number.find(hash, |index| entries.get(*index as usize) == Some(&number));
        let index = match found {
            Some(index) => *index,
            None if entries.len() == ENTRIES => {
                self.become_plain();
                return self.plain.push(number);
            }
            None => {
                let index = entries.len() as u32;
                entries.push(number);
                self.by_number.insert_unique(hash, index, |index| {
                    hasher.hash_one(entries.get(*index as usize).copied().unwrap_or_default())
                });
                index
            }
        };
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = index;
        }
        self.indices.push(index);
    }

    /// The form stays for later row groups, too: their numbers are of the same kind.
    fn become_plain(&mut self) {
        let number = |index: &u32| self.entries.get(*index as usize).copied();
        self.plain.extend(self.indices.iter().filter_map(number));
        self.form = NumberForm::Plain;
        self.indices = Vec::new();
        self.entries = Vec::new();
        self.by_number = HashTable::new();
        self.recent = Box::new([]);
    }

    pub(super) fn is_plain(&self) -> bool {
        self.form == NumberForm::Plain
    }

    /// Returns the memory that the numbers take.
    pub(super) fn bytes(&self) -> usize {
        self.indices.len() * size_of::<u32>()
            + (2 * self.entries.len() + self.plain.len()) * size_of::<i64>()
    }

    /// Forgets the numbers; keeps their form.
    pub(super) fn clear(&mut self) {
        self.indices.clear();
        self.entries.clear();
        self.plain.clear();
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

    fn values(numbers: &Numbers) -> Vec<i64> {
        match numbers.is_plain() {
            true => numbers.plain.clone(),
            false => numbers.indices.iter().map(|index| numbers.entries[*index as usize]).collect(),
        }
    }

    #[test]
    fn repeated_numbers_are_stored_once() {
        let mut numbers = Numbers::default();
        let pushed = [7, 263, 7, 263, -1, i64::MIN, 7, 0, 256];
        for round in 0..2 {
            pushed.iter().for_each(|number| numbers.push(*number));
            assert_eq!(values(&numbers), pushed, "round {round}");
            assert_eq!(numbers.entries.len(), 6);
            numbers.clear();
        }
    }

    #[test]
    fn many_different_numbers_become_plain() {
        let mut numbers = Numbers::default();
        let pushed: Vec<i64> = (0..20_000).map(|i| i * 3).collect();
        pushed.iter().for_each(|number| numbers.push(*number));
        assert!(numbers.is_plain());
        assert_eq!(values(&numbers), pushed);
        numbers.clear();
        numbers.push(5);
        assert_eq!(values(&numbers), [5]);
    }
}
