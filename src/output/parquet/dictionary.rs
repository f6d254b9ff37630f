//! The texts of a column, each different one stored once.

use hashbrown::HashTable;
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};

/// Texts, as indices into a list of the different ones.
#[derive(Default)]
pub(super) struct Dictionary {
    /// The index of each text.
    pub(super) indices: Vec<u32>,
    /// The different texts, as pushed.
    entries: Vec<Box<[u8]>>,
    /// The texts as a page has them: a length of four bytes and valid UTF-8.
    pub(super) page: Vec<u8>,
    by_text: HashTable<u32>,
    hasher: RandomState,
    /// The indices of the last two different texts.
    recent: [u32; 2],
}

impl Dictionary {
    /// Appends text; each byte that is not UTF-8 becomes `\xNN`.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        // Most events repeat the text of the event before, or of the one before that.
        for index in self.recent {
            if self.entries.get(index as usize).is_some_and(|entry| **entry == *text) {
                return self.indices.push(index);
            }
        }
        self.push_slowly(text, true);
    }

    /// Appends bytes unchanged.
    pub(super) fn push_raw(&mut self, bytes: &[u8]) {
        self.push_slowly(bytes, false);
    }

    fn push_slowly(&mut self, text: &[u8], is_text: bool) {
        let hash = self.hasher.hash_one(text);
        let (entries, hasher) = (&mut self.entries, &self.hasher);
        let is_same = |index: &u32| entries.get(*index as usize).is_some_and(|e| **e == *text);
        let index = match self.by_text.find(hash, is_same) {
            Some(index) => *index,
            None => {
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
        };
        self.recent = [index, self.recent[0]];
        self.indices.push(index);
    }

    /// Returns the number of texts.
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
}
