//! The texts of a column, each different one stored once.

use hashbrown::HashTable;
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};

/// Entries of the cache of recent texts.
const RECENT: usize = 64;

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

    /// Returns its place in the cache.
    fn slot(&self) -> usize {
        let [first, last] = self.words;
        let mixed = (first ^ last.rotate_left(25)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % RECENT
    }
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
            last_long: 0,
        }
    }
}

impl Dictionary {
    /// Appends text; each byte that is not UTF-8 becomes `\xNN`.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        let Some(short) = ShortText::of(text) else { return self.push_long(text, true) };
        match self.recent.get(short.slot()) {
            Some(Some((recent, index))) if *recent == short => self.indices.push(*index),
            _ => self.push_short(text, short),
        }
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
        if let Some(place) = self.recent.get_mut(short.slot()) {
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
        let written = if is_text { utf8(text) } else { Cow::Borrowed(text) };
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
    }
}

fn utf8(text: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(text).is_ok() {
        return Cow::Borrowed(text);
    }
    let mut valid = String::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        valid.push_str(chunk.valid());
        for byte in chunk.invalid() {
            valid.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(valid.into_bytes())
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
