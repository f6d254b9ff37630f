//! Interned strings as small ids, so that a text key costs a leaf no more than a number.
//!
//! The text of an id never changes while the id is in use. The bytes held are bounded: at the
//! bound, every new string gets the id of `(other)` and is counted. In runs of weeks, task names
//! come and go, so ids that no table uses any more are swept. A sweep must never run while a key is
//! on its way into a table.

use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// The id of `(other)`, which stands for every string that arrived after the bound was reached.
pub const OTHER: u32 = 0;

/// Bytes of a string in addition to its text: its entries here and in the tables that Lua keeps.
const OVERHEAD: usize = 96;

/// Strings by id and ids by string.
pub struct Strings {
    texts: Vec<Option<Box<[u8]>>>,
    index: HashTable<u32>,
    hasher: RandomState,
    free: Vec<u32>,
    bytes: usize,
    bound: usize,
    overflowed: u64,
}

impl Strings {
    /// Returns a table that holds at most about `bound` bytes.
    pub fn new(bound: usize) -> Strings {
        Strings {
            texts: vec![Some(b"(other)".as_slice().into())],
            index: HashTable::new(),
            hasher: RandomState::default(),
            free: Vec::new(),
            bytes: 0,
            bound,
            overflowed: 0,
        }
    }

    /// Returns the id of `text`; returns [`OTHER`], and counts it, if the text is new and there is
    /// no room for it.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(text);
        let found = self.index.find(hash, |&id| self.get(id) == text);
        if let Some(&id) = found {
            return id;
        }
        let bytes = self.bytes + text.len() + OVERHEAD;
        if bytes > self.bound {
            self.overflowed += 1;
            return OTHER;
        }
        self.bytes = bytes;
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.texts.push(None);
                (self.texts.len() - 1) as u32
            }
        };
        if let Some(place) = self.texts.get_mut(id as usize) {
            *place = Some(text.into());
        }
        let (texts, hasher) = (&self.texts, &self.hasher);
        let hash_of = |&id: &u32| hasher.hash_one(text_of(texts, id));
        self.index.insert_unique(hash, id, hash_of);
        id
    }

    /// Returns the text of an id; empty if the id was never returned or has been swept.
    pub fn get(&self, id: u32) -> &[u8] {
        text_of(&self.texts, id)
    }

    /// Returns how many times a string became `(other)`.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Returns whether enough is held that a sweep is worth its time: more than half of the bound.
    pub fn is_half_full(&self) -> bool {
        self.bytes > self.bound / 2
    }

    /// Returns an empty set of marks for a sweep.
    pub fn marks(&self) -> Marks {
        Marks { strings: vec![false; self.texts.len()], numbers: None }
    }

    /// Removes every string that is not marked and returns the freed ids.
    pub fn sweep(&mut self, marks: &Marks) -> Vec<u32> {
        let mut freed = Vec::new();
        for id in 1..self.texts.len() as u32 {
            if marks.strings.get(id as usize).copied().unwrap_or(true) {
                continue;
            }
            let hash = self.hasher.hash_one(self.get(id));
            if let Ok(entry) = self.index.find_entry(hash, |&other| other == id) {
                entry.remove();
                self.bytes = self.bytes.saturating_sub(self.get(id).len() + OVERHEAD);
                freed.push(id);
            }
            if let Some(place) = self.texts.get_mut(id as usize) {
                *place = None;
            }
        }
        self.free.extend_from_slice(&freed);
        freed
    }
}

fn text_of(texts: &[Option<Box<[u8]>>], id: u32) -> &[u8] {
    texts.get(id as usize).and_then(Option::as_deref).unwrap_or_default()
}

/// The ids in use; on request also the numbers in use, each of which may be the id of something
/// else.
pub struct Marks {
    strings: Vec<bool>,
    numbers: Option<Vec<f64>>,
}

impl Marks {
    /// Also records numbers.
    pub fn with_numbers(self) -> Marks {
        Marks { numbers: Some(Vec::new()), ..self }
    }

    /// Marks a string id as in use.
    pub fn mark(&mut self, id: u32) {
        if let Some(mark) = self.strings.get_mut(id as usize) {
            *mark = true;
        }
    }

    /// Records a number, if numbers were requested.
    pub fn mark_number(&mut self, number: f64) {
        if let Some(numbers) = &mut self.numbers {
            numbers.push(number);
        }
    }

    /// Marks the string of a word, or records its number.
    pub fn mark_word(&mut self, word: super::word::Word) {
        match word.part() {
            super::word::WordContent::String(id) => self.mark(id),
            super::word::WordContent::Number(number) => self.mark_number(number),
        }
    }

    /// Returns the numbers, if they were requested.
    pub fn take_numbers(&mut self) -> Option<Vec<f64>> {
        self.numbers.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_one_id() {
        let mut strings = Strings::new(1 << 20);
        let nginx = strings.intern(b"nginx");
        assert_ne!(strings.intern(b"redis"), nginx);
        assert_eq!(strings.intern(b"nginx"), nginx);
        assert_eq!(strings.get(nginx), b"nginx");
        assert_eq!(strings.get(12345), b"");
    }

    #[test]
    fn at_the_bound_new_strings_become_other_and_are_counted() {
        let mut strings = Strings::new(2 * (OVERHEAD + 1));
        let (a, b) = (strings.intern(b"a"), strings.intern(b"b"));
        assert_eq!(strings.intern(b"c"), OTHER);
        assert_eq!(strings.intern(b"d"), OTHER);
        assert_eq!((strings.intern(b"a"), strings.intern(b"b")), (a, b));
        assert_eq!(strings.overflowed(), 2);
        assert_eq!(strings.get(OTHER), b"(other)");
    }

    #[test]
    fn a_sweep_makes_room_and_keeps_what_is_marked() {
        let mut strings = Strings::new(2 * (OVERHEAD + 1));
        let (a, b) = (strings.intern(b"a"), strings.intern(b"b"));
        assert!(strings.is_half_full());
        let mut marks = strings.marks();
        marks.mark_word(crate::stat::word::Word::string(b));
        assert_eq!(strings.sweep(&marks), [a]);
        assert_eq!(strings.get(a), b"");
        assert_eq!(strings.intern(b"c"), a);
        assert_eq!(strings.intern(b"b"), b);
        assert_eq!(strings.overflowed(), 0);
    }
}
