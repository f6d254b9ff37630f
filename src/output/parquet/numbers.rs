//! The numbers of a column: indices into a list of the different ones, or plain where most differ.

use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};

/// Different numbers above which a column becomes plain.
const ENTRIES: usize = 1 << 13;
/// Entries of the cache of recent numbers.
const RECENT: usize = 256;
/// Numbers whose indices are looked up before they are appended.
const TOGETHER: usize = 64;

/// Numbers that are not written yet.
pub(super) struct Numbers {
    /// The numbers of the page in progress, if they are plain.
    pub(super) page: Vec<i64>,
    form: NumberForm,
    /// The different numbers of the chunk, to which indices refer.
    pub(super) entries: Vec<i64>,
    /// The indices of the numbers of the page in progress, unless they are plain.
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
    /// Returns whether the numbers of the page in progress are plain.
    pub(super) fn is_plain(&self) -> bool {
        self.form == NumberForm::Plain
    }

    /// Appends a number.
    #[inline]
    pub(super) fn push(&mut self, number: i64) {
        match self.form {
            NumberForm::Plain => self.page.push(number),
            NumberForm::Indices => {
                match self.recent_index(number).or_else(|| self.add_index(number)) {
                    Some(index) => self.indices.push(index),
                    None => self.become_plain(number),
                }
            }
        }
    }

    /// Appends numbers.
    #[inline]
    pub(super) fn push_all(&mut self, mut numbers: impl ExactSizeIterator<Item = i64>) {
        while self.form == NumberForm::Indices && numbers.len() > 0 {
            // Uses an array: the length of a vector would be stored and loaded for each number.
            let (mut found, mut count, mut missed) = ([0; TOGETHER], 0, None);
            for (place, number) in found.iter_mut().zip(numbers.by_ref()) {
                let Some(index) = self.recent_index(number) else {
                    missed = Some(number);
                    break;
                };
                *place = index;
                count += 1;
            }
            self.indices.extend_from_slice(found.get(..count).unwrap_or_default());
            missed.into_iter().for_each(|number| self.push(number));
        }
        self.page.extend(numbers);
    }

    /// Makes the page in progress and all later ones plain, and appends a number.
    #[cold]
    fn become_plain(&mut self, number: i64) {
        let numbers = self.indices.iter().filter_map(|at| self.entries.get(*at as usize));
        self.page.extend(numbers.copied());
        self.page.push(number);
        self.indices.clear();
        // For later row groups, too: their numbers are of the same kind.
        self.form = NumberForm::Plain;
    }

    /// Returns the index of a number if the cache has it.
    #[inline]
    fn recent_index(&self, number: i64) -> Option<u32> {
        let recent = self.recent.get(slot_of(number)).copied().unwrap_or(u32::MAX);
        (self.entries.get(recent as usize) == Some(&number)).then_some(recent)
    }

    /// Returns the index of a number, and adds it to the cache; None if there are too many
    /// different ones.
    #[inline(never)]
    fn add_index(&mut self, number: i64) -> Option<u32> {
        let index = self.find_or_add(number)?;
        if self.recent.is_empty() {
            self.recent = vec![u32::MAX; RECENT].into();
        }
        if let Some(recent) = self.recent.get_mut(slot_of(number)) {
            *recent = index;
        }
        Some(index)
    }

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

    /// Forgets the numbers of the page in progress.
    pub(super) fn clear_page(&mut self) {
        self.page.clear();
        self.indices.clear();
    }

    /// Forgets the numbers; keeps their form.
    pub(super) fn clear(&mut self) {
        self.clear_page();
        self.entries.clear();
        self.by_number.clear();
    }
}

/// Returns the least and the largest of some numbers; none of none.
pub(super) fn extremes(numbers: &[i64], is_unsigned: bool) -> Option<[i64; 2]> {
    // Unsigned numbers are in order as signed ones if their highest bit is inverted.
    let flip = if is_unsigned { i64::MIN } else { 0 };
    let least = numbers.iter().map(|number| number ^ flip).min()?;
    let most = numbers.iter().map(|number| number ^ flip).max()?;
    Some([least ^ flip, most ^ flip])
}

/// Neighbouring numbers, such as those of tasks, have different slots.
fn slot_of(number: i64) -> usize {
    (number as usize) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends numbers to a new page, one by one or together. Returns those of its indices; None if
    /// it is plain.
    fn indexed(numbers: &mut Numbers, pushed: &[i64], one_by_one: bool) -> Option<Vec<i64>> {
        numbers.clear_page();
        match one_by_one {
            true => pushed.iter().for_each(|number| numbers.push(*number)),
            false => numbers.push_all(pushed.iter().copied()),
        }
        let number = |index: &u32| numbers.entries[*index as usize];
        (!numbers.is_plain()).then(|| numbers.indices.iter().map(number).collect())
    }

    #[test]
    fn repeated_numbers_are_stored_once() {
        let mut numbers = Numbers::default();
        let pushed = [7, 263, 7, 263, -1, i64::MIN, 7, 0, 256];
        for round in 0..2 {
            for one_by_one in [false, true] {
                let indexed = indexed(&mut numbers, &pushed, one_by_one).unwrap();
                assert_eq!(indexed, pushed, "round {round}");
            }
            assert_eq!(numbers.entries.len(), 6);
            numbers.clear();
        }
    }

    #[test]
    fn many_different_numbers_become_plain() {
        for one_by_one in [false, true] {
            let mut numbers = Numbers::default();
            let pushed: Vec<i64> = (0..8192).map(|i| i * 3).collect();
            assert_eq!(indexed(&mut numbers, &pushed, one_by_one).unwrap(), pushed);
            // The page has indices before the number that is one too many.
            assert_eq!(indexed(&mut numbers, &[3, 3, 1, 6, 2], one_by_one), None);
            assert_eq!((&numbers.page[..], &numbers.indices[..]), (&[3, 3, 1, 6, 2][..], &[][..]));
            numbers.clear();
            assert_eq!(indexed(&mut numbers, &[3], one_by_one), None);
            assert_eq!(numbers.page, [3]);
        }
    }
}
