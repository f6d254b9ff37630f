//! Keys of run-time arity in dense rows: the table under every keyed aggregate.
//!
//! Row numbers run from 0 without holes; whoever owns the table keeps its values in vectors of the same
//! order. Keys stand in one flat vector, so that adding one allocates only when a vector grows, and a lookup
//! compares words in place.

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

/// Where a key was found last: most events are of few keys, and this takes one load, not three that wait for
/// each other.
#[derive(Clone, Copy)]
struct Hot {
    tag: u64,
    row: u32,
}

/// Places for such keys; by the top bits of their hashes.
const HOT: usize = 128;
const NOWHERE: u32 = u32::MAX;
const FORGOTTEN: Hot = Hot { tag: 0, row: NOWHERE };

/// Bytes of a row beside its words: its slot in the hash table at the usual load.
const INDEX_BYTES: usize = 8;

impl Keys {
    /// A table for keys of `arity` words; with 0 there is one key.
    pub fn new(arity: usize) -> Keys {
        Keys {
            arity,
            rows: 0,
            words: Vec::new(),
            index: HashTable::new(),
            hot: Box::new([FORGOTTEN; HOT]),
        }
    }

    /// Words in a key.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes that one key takes.
    pub fn bytes_per_key(&self) -> usize {
        self.arity * size_of::<Word>() + INDEX_BYTES
    }

    /// Makes room for so many more keys, and for no more than that.
    pub(super) fn reserve(&mut self, keys: usize) {
        self.words.reserve_exact(keys * self.arity);
    }

    /// The key at `row`; empty when there is none.
    pub fn key(&self, row: usize) -> &[Word] {
        key_of(&self.words, self.arity, row)
    }

    /// The row of `key`.
    #[inline]
    pub fn find(&self, key: &[Word]) -> Option<usize> {
        self.find_hashed(key, hash(key))
    }

    fn find_hashed(&self, key: &[Word], hash: u64) -> Option<usize> {
        // Word by word: comparing the slices as such would be a call of memcmp.
        let equal = |&row: &u32| {
            key_of(&self.words, self.arity, row as usize).iter().zip(key).all(|(a, b)| a == b)
        };
        self.index.find(hash, equal).map(|&row| row as usize)
    }

    /// The row of `key`, quickly when it was found a short while ago.
    #[inline(always)]
    pub fn find_recent(&mut self, key: &[Word]) -> Option<usize> {
        let hash = hash(key);
        let place = (hash >> (u64::BITS - HOT.ilog2())) as usize % HOT;
        // One word is its own tag and needs no look at the words of the row.
        let tag = if let [word] = *key { word.bits() } else { hash };
        let hot = self.hot[place];
        if hot.tag == tag && hot.row != NOWHERE {
            let row = hot.row as usize;
            if key.len() == 1 || self.key(row).iter().zip(key).all(|(a, b)| a == b) {
                return Some(row);
            }
        }
        self.find_and_heat(key, hash, Hot { tag, row: NOWHERE }, place)
    }

    #[inline(never)]
    fn find_and_heat(&mut self, key: &[Word], hash: u64, hot: Hot, place: usize) -> Option<usize> {
        let row = self.find_hashed(key, hash)?;
        self.hot[place] = Hot { row: row as u32, ..hot };
        Some(row)
    }

    /// Adds `key`, of this table's arity and not yet in it, and returns its row.
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

    /// Keeps only the rows in `survivors`, which ascend; the i-th of them becomes row i. See [`gather`].
    pub fn keep(&mut self, survivors: &[u32]) {
        gather(&mut self.words, self.arity, survivors);
        self.rows = survivors.len();
        self.hot.fill(FORGOTTEN);
        self.index.clear();
        let (words, arity) = (&self.words, self.arity);
        for row in 0..self.rows as u32 {
            let hash_of = |&row: &u32| hash(key_of(words, arity, row as usize));
            self.index.insert_unique(hash(key_of(words, arity, row as usize)), row, hash_of);
        }
    }

    /// Forgets every key, not the memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.hot.fill(FORGOTTEN);
        self.words.clear();
        self.index.clear();
    }

    /// Every key in the order of rows.
    pub fn iter(&self) -> impl Iterator<Item = &[Word]> {
        (0..self.rows).map(|row| self.key(row))
    }
}

/// Moves the groups of `stride` values that stand at `survivors` (ascending) to the front and drops the rest.
pub fn gather<T>(values: &mut Vec<T>, stride: usize, survivors: &[u32]) {
    for (to, &from) in survivors.iter().enumerate() {
        for i in 0..stride {
            values.swap(to * stride + i, from as usize * stride + i);
        }
    }
    values.truncate(survivors.len() * stride);
}

/// Fills `survivors` with the half of `rows` rows (at least one goes) that `order` puts first, ascending.
///
/// Folding half at once makes the cost of a bound that is hit over and over a constant per new key.
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
        let warmth = [5, 1, 9, 3, 7];
        let (mut keys, mut values, mut survivors) = (Keys::new(2), warmth.to_vec(), Vec::new());
        for i in 0..5 {
            keys.insert(&key(f64::from(i), 0));
        }
        first_half(5, &mut survivors, |a, b| warmth[b].cmp(&warmth[a]));
        assert_eq!(survivors, [2, 4]);
        gather(&mut values, 1, &survivors);
        keys.keep(&survivors);
        assert_eq!(values, [9, 7]);
        assert_eq!((keys.find(&key(2.0, 0)), keys.find(&key(4.0, 0))), (Some(0), Some(1)));
        assert_eq!((keys.find(&key(0.0, 0)), keys.len()), (None, 2));
    }
}
