//! The texts of a column, each different one stored once.

use crate::base::text::message::utf8_bytes;
use crate::base::text::unescape::until_nul;
use hashbrown::HashTable;
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};

/// Entries of the cache of recent texts.
const RECENT: usize = 64;
/// Names whose indices are looked up before they are appended.
const TOGETHER: usize = 64;

/// Texts, as indices into a list of the different ones.
pub(super) struct Dictionary {
    /// The index of each text of the page in progress.
    pub(super) indices: Vec<u32>,
    /// The different texts, as pushed.
    entries: Vec<Box<[u8]>>,
    /// The texts as a page has them: a length of four bytes and valid UTF-8.
    pub(super) page: Vec<u8>,
    by_text: HashTable<u32>,
    hasher: RandomState,
    /// Short texts with their indices, by a hash of the text. The names of tasks are found here.
    recent: Box<[Option<(ShortText, u32)>]>,
    /// Names as records have them, with their indices, by a hash of the name.
    names: Box<[RecentName]>,
    /// The index of the last text that is not short.
    last_long: u32,
}

/// A text of at most 16 bytes: its length, and words that contain all its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ShortText {
    length: usize,
    words: [u64; 2],
}

impl ShortText {
    #[inline]
    fn of(text: &[u8]) -> Option<ShortText> {
        let length = text.len();
        let words = match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) if length <= 16 => {
                [u64::from_le_bytes(*first), u64::from_le_bytes(*last)]
            }
            (Some(_), _) => return None,
            _ => [text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0],
        };
        Some(ShortText { length, words })
    }
}

/// A name: all 16 bytes of its field, and the index of the text in it.
#[derive(Clone, Copy)]
struct RecentName {
    words: [u64; 2],
    index: Option<u32>,
}

#[inline]
fn words_of(name: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*name);
    [both as u64, (both >> 64) as u64]
}

/// Returns the place of a text in a cache.
#[inline]
fn slot_of([first, last]: [u64; 2]) -> usize {
    let mixed = (first ^ last.rotate_left(25)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % RECENT
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary {
            indices: Vec::new(),
            entries: Vec::new(),
            page: Vec::new(),
            by_text: HashTable::new(),
            hasher: RandomState::new(),
            recent: Box::new([]),
            names: Box::new([]),
            last_long: 0,
        }
    }
}

impl Dictionary {
    /// Appends text; each byte that is not UTF-8 becomes `\xNN`.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        let Some(short) = ShortText::of(text) else { return self.push_long(text, true) };
        match self.recent.get(slot_of(short.words)) {
            Some(Some((recent, index))) if *recent == short => self.indices.push(*index),
            _ => self.push_short(text, short),
        }
    }

    /// Appends texts that end at their first NUL.
    #[inline]
    pub(super) fn push_names(&mut self, mut names: impl ExactSizeIterator<Item = [u8; 16]>) {
        if self.names.is_empty() {
            self.names = vec![RecentName { words: [0; 2], index: None }; RECENT].into();
        }
        while names.len() > 0 {
            // Uses an array: the length of a vector would be stored and loaded for each name.
            let (mut found, mut count, mut missed) = ([0; TOGETHER], 0, None);
            for (place, name) in found.iter_mut().zip(names.by_ref()) {
                let words = words_of(&name);
                match self.names.get(slot_of(words)) {
                    Some(RecentName { words: recent, index: Some(index) }) if *recent == words => {
                        *place = *index;
                        count += 1;
                    }
                    _ => {
                        missed = Some(name);
                        break;
                    }
                }
            }
            self.indices.extend_from_slice(found.get(..count).unwrap_or_default());
            let missed = missed.map(|name| self.add_name(name));
            self.indices.extend(missed);
        }
    }

    /// Returns the index of a name that is not in the cache of names, and adds it there.
    #[inline(never)]
    fn add_name(&mut self, name: [u8; 16]) -> u32 {
        let index = self.find_or_add(until_nul(&name), true);
        let words = words_of(&name);
        if let Some(place) = self.names.get_mut(slot_of(words)) {
            *place = RecentName { words, index: Some(index) };
        }
        index
    }

    /// Appends bytes unchanged.
    pub(super) fn push_raw(&mut self, bytes: &[u8]) {
        self.push_long(bytes, false);
    }

    /// Appends a short text that is not in the cache, and adds it there.
    #[inline(never)]
    fn push_short(&mut self, text: &[u8], short: ShortText) {
        let index = self.find_or_add(text, true);
        if self.recent.is_empty() {
            self.recent = vec![None; RECENT].into();
        }
        if let Some(place) = self.recent.get_mut(slot_of(short.words)) {
            *place = Some((short, index));
        }
        self.indices.push(index);
    }

    fn push_long(&mut self, text: &[u8], is_text: bool) {
        let is_last = self.entries.get(self.last_long as usize).is_some_and(|e| **e == *text);
        if !is_last {
            self.last_long = self.find_or_add(text, is_text);
        }
        self.indices.push(self.last_long);
    }

    fn find_or_add(&mut self, text: &[u8], is_text: bool) -> u32 {
        let hash = self.hasher.hash_one(text);
        let (entries, hasher) = (&mut self.entries, &self.hasher);
        let is_same = |index: &u32| entries.get(*index as usize).is_some_and(|e| **e == *text);
        if let Some(index) = self.by_text.find(hash, is_same) {
            return *index;
        }
        let index = entries.len() as u32;
        let written = if is_text { utf8_bytes(text) } else { Cow::Borrowed(text) };
        self.page.extend_from_slice(&(written.len() as u32).to_le_bytes());
        self.page.extend_from_slice(&written);
        entries.push(text.into());
        self.by_text.insert_unique(hash, index, |index| {
            hasher.hash_one(entries.get(*index as usize).map_or(&[][..], |entry| entry))
        });
        index
    }

    /// Returns the number of texts of the page in progress.
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Returns the number of different texts.
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns the memory that the texts take.
    pub(super) fn bytes(&self) -> usize {
        let entry = size_of::<Box<[u8]>>() + 2 * size_of::<u32>();
        2 * self.page.len() + entry * self.entries.len() + self.indices.len() * size_of::<u32>()
    }

    /// Forgets all texts.
    pub(super) fn clear(&mut self) {
        self.indices.clear();
        self.entries.clear();
        self.page.clear();
        self.by_text.clear();
        self.recent.fill(None);
        self.names.iter_mut().for_each(|name| name.index = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_stored_once_and_is_utf8() {
        let mut texts = Dictionary::default();
        for text in [&b"bash"[..], b"sh", b"bash", b"a\xffb", b"sh", b"sh", b""] {
            texts.push(text);
        }
        assert_eq!(texts.indices, [0, 1, 0, 2, 1, 1, 3]);
        assert_eq!(texts.page, b"\x04\0\0\0bash\x02\0\0\0sh\x06\0\0\0a\\xffb\0\0\0\0");
        assert_eq!((texts.len(), texts.entries()), (7, 4));
        texts.clear();
        assert_eq!((texts.len(), texts.bytes()), (0, 0));
        texts.push(b"sh");
        assert_eq!(texts.indices, [0]);
    }

    #[test]
    fn names_end_at_their_nul_and_share_the_entries_of_texts() {
        let mut texts = Dictionary::default();
        let name = |text: &[u8]| std::array::from_fn(|at| text.get(at).copied().unwrap_or(0));
        for round in 0..2 {
            texts.push(b"bash");
            let names = [&b"bash"[..], b"", b"bash\0garbage", b"sixteen bytes ok", b"bash\0other"];
            texts.push_names(names.map(name).into_iter());
            assert_eq!(texts.indices, [0, 0, 1, 0, 2, 0], "round {round}");
            assert_eq!(texts.entries(), 3);
            texts.clear();
        }
    }

    #[test]
    fn texts_of_every_length_differ() {
        let mut texts = Dictionary::default();
        let all: Vec<Vec<u8>> = (0..40u8)
            .flat_map(|length| {
                (0..=length).map(move |x| (0..length).map(|i| u8::from(i == x)).collect())
            })
            .collect();
        for round in 0..2 {
            all.iter().for_each(|text| texts.push(text));
            assert_eq!(texts.entries(), all.len(), "round {round}");
        }
        let expected: Vec<u32> = (0..all.len() as u32).collect();
        assert_eq!(texts.indices, [expected.clone(), expected].concat());
    }
}
