//! Keys of run-time arity in dense rows: the table below every keyed aggregate.
//!
//! Row numbers run from 0 without gaps; the owner of the table stores its values in vectors in the
//! same order. Keys are stored in one flat vector, so adding one allocates only when a vector
//! grows, and a lookup compares words in place.

use super::word::{Word, hash};
use hashbrown::HashTable;
use std::cmp::Ordering;

/// Keys of one arity, each at its row.
pub struct Keys {
    arity: usize,
    rows: usize,
    words: Vec<Word>,
    index: HashTable<u32>,
    hot: Box<[Hot; HOT]>,
}

/// A cached lookup. Most events have few distinct keys, and a hit takes one load instead of three
/// dependent ones.
#[derive(Clone, Copy)]
struct Hot {
    tag: u64,
    row: u32,
}

/// Number of cached lookups, indexed by the top bits of the hash.
const HOT: usize = 128;
const NO_ROW: u32 = u32::MAX;
const UNCACHED: Hot = Hot { tag: 0, row: NO_ROW };

/// Bytes of a row in addition to its words: its slot in the hash table at the usual load.
const INDEX_BYTES: usize = 8;

impl Keys {
    /// Returns an empty table for keys of `arity` words; with 0 there is one key.
    pub fn new(arity: usize) -> Keys {
        Keys {
            arity,
            rows: 0,
            words: Vec::new(),
            index: HashTable::new(),
            hot: Box::new([UNCACHED; HOT]),
        }
    }

    /// Returns the number of words in a key.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the bytes that one key takes.
    pub fn bytes_per_key(&self) -> usize {
        self.arity * size_of::<Word>() + INDEX_BYTES
    }

    /// Reserves memory for exactly this many more keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        self.words.reserve_exact(keys * self.arity);
    }

    /// Returns the key at `row`; empty if there is none.
    pub fn key(&self, row: usize) -> &[Word] {
        key_of(&self.words, self.arity, row)
    }

    /// Returns the row of `key`.
    #[inline]
    pub fn find(&self, key: &[Word]) -> Option<usize> {
        self.find_hashed(key, hash(key))
    }

    fn find_hashed(&self, key: &[Word], hash: u64) -> Option<usize> {
        // Compares word by word: comparing the slices would call memcmp.
        let equal = |&row: &u32| {
            key_of(&self.words, self.arity, row as usize).iter().zip(key).all(|(a, b)| a == b)
        };
        self.index.find(hash, equal).map(|&row| row as usize)
    }

    /// Returns the row of `key`, from the cache if it was found recently.
    #[inline(always)]
    pub fn find_recent(&mut self, key: &[Word]) -> Option<usize> {
        let hash = hash(key);
        let place = (hash >> (u64::BITS - HOT.ilog2())) as usize % HOT;
        // A single word is its own tag, so the words of the row need not be read.
        let tag = if let [word] = *key { word.bits() } else { hash };
        let hot = self.hot[place];
        if hot.tag == tag && hot.row != NO_ROW {
            let row = hot.row as usize;
            if key.len() == 1 || self.key(row).iter().zip(key).all(|(a, b)| a == b) {
                return Some(row);
            }
        }
        self.find_and_cache(key, hash, Hot { tag, row: NO_ROW }, place)
    }

    #[inline(never)]
    fn find_and_cache(&mut self, key: &[Word], hash: u64, hot: Hot, place: usize) -> Option<usize> {
        let row = self.find_hashed(key, hash)?;
        self.hot[place] = Hot { row: row as u32, ..hot };
        Some(row)
    }

    /// Adds `key`, which must have this table's arity and not be in it yet, and returns its row.
    pub fn insert(&mut self, key: &[Word]) -> usize {
        debug_assert!(key.len() == self.arity && self.find(key).is_none());
        let row = self.rows;
        self.rows += 1;
        self.words.extend_from_slice(key);
        let (words, arity) = (&self.words, self.arity);
        let hash_of = |&row: &u32| hash(key_of(words, arity, row as usize));
        self.index.insert_unique(hash(key), row as u32, hash_of);
        row
    }

    /// Keeps only the rows in `survivors`, which are ascending; the i-th of them becomes row i. See
    /// [`gather`].
    pub fn keep(&mut self, survivors: &[u32]) {
        gather(&mut self.words, self.arity, survivors);
        self.rows = survivors.len();
        self.hot.fill(UNCACHED);
        self.index.clear();
        let (words, arity) = (&self.words, self.arity);
        for row in 0..self.rows as u32 {
            let hash_of = |&row: &u32| hash(key_of(words, arity, row as usize));
            self.index.insert_unique(hash(key_of(words, arity, row as usize)), row, hash_of);
        }
    }

    /// Removes every key but keeps the memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.hot.fill(UNCACHED);
        self.words.clear();
        self.index.clear();
    }

    /// Returns every key in the order of rows.
    pub fn iter(&self) -> impl Iterator<Item = &[Word]> {
        (0..self.rows).map(|row| self.key(row))
    }
}

/// Moves the groups of `stride` values at `survivors` (ascending) to the front and drops the rest.
pub fn gather<T>(values: &mut Vec<T>, stride: usize, survivors: &[u32]) {
    for (to, &from) in survivors.iter().enumerate() {
        for i in 0..stride {
            values.swap(to * stride + i, from as usize * stride + i);
        }
    }
    values.truncate(survivors.len() * stride);
}

/// Fills `survivors` with the half of `rows` rows that `order` puts first, in ascending order.
/// Drops at least one row.
///
/// Folding half at once makes the cost of hitting the bound repeatedly constant per new key.
pub fn first_half(
    rows: usize,
    survivors: &mut Vec<u32>,
    mut order: impl FnMut(usize, usize) -> Ordering,
) {
    survivors.clear();
    survivors.extend(0..rows as u32);
    let half = rows / 2;
    if half > 0 {
        survivors.select_nth_unstable_by(half - 1, |&a, &b| order(a as usize, b as usize));
    }
    survivors.truncate(half);
    survivors.sort_unstable();
}

#[inline]
fn key_of(words: &[Word], arity: usize, row: usize) -> &[Word] {
    words.get(row * arity..(row + 1) * arity).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(a: f64, b: u32) -> [Word; 2] {
        [Word::number(a), Word::string(b)]
    }

    #[test]
    fn keys_keep_their_rows_as_the_table_grows() {
        let mut keys = Keys::new(2);
        for i in 0..1000 {
            assert_eq!(keys.insert(&key(f64::from(i), i)), i as usize);
        }
        for i in 0..1000 {
            assert_eq!(keys.find(&key(f64::from(i), i)), Some(i as usize));
        }
        assert_eq!(keys.find(&key(1.0, 2)), None);
    }

    #[test]
    fn a_table_without_columns_has_one_key() {
        let mut keys = Keys::new(0);
        assert_eq!(keys.find(&[]), None);
        assert_eq!(keys.insert(&[]), 0);
        assert_eq!(keys.find(&[]), Some(0));
        assert_eq!(keys.iter().count(), 1);
    }

    #[test]
    fn the_half_that_sorts_first_survives_in_its_order() {
        let ranks = [5, 1, 9, 3, 7];
        let (mut keys, mut values, mut survivors) = (Keys::new(2), ranks.to_vec(), Vec::new());
        for i in 0..5 {
            keys.insert(&key(f64::from(i), 0));
        }
        first_half(5, &mut survivors, |a, b| ranks[b].cmp(&ranks[a]));
        assert_eq!(survivors, [2, 4]);
        gather(&mut values, 1, &survivors);
        keys.keep(&survivors);
        assert_eq!(values, [9, 7]);
        assert_eq!((keys.find(&key(2.0, 0)), keys.find(&key(4.0, 0))), (Some(0), Some(1)));
        assert_eq!((keys.find(&key(0.0, 0)), keys.len()), (None, 2));
    }
}
