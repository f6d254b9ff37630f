//! One column of a key as 64 bits that identify their type: a number or an interned string.
//!
//! A number is the bits of its double, with one zero and one NaN, so that equal numbers are equal
//! words. A string is its id inside a NaN that no arithmetic produces, so that the string `"1"` and
//! the number 1 are different keys, and a column does not need a type of its own.

use std::cmp::Ordering;

/// A number or a string id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Word(u64);

/// The content of a [`Word`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WordContent {
    /// A number; zero is positive.
    Number(f64),
    /// The id that [`Strings::intern`](super::strings::Strings::intern) returned.
    String(u32),
}

const STRING: u64 = 0xfffc_0000_0000_0000;
const NAN: u64 = 0x7ff8_0000_0000_0000;

impl Word {
    /// The number zero.
    pub const ZERO: Word = Word(0);

    /// An empty buffer for a key.
    pub(super) const BUFFER: Buffer = [Word::ZERO; 8];

    /// Returns the word of a number.
    #[inline]
    pub fn number(value: f64) -> Word {
        // Adding zero turns -0 into 0 and leaves every other number unchanged.
        if value.is_nan() { Word(NAN) } else { Word((value + 0.0).to_bits()) }
    }

    /// Returns the word of a string id.
    #[inline]
    pub fn string(id: u32) -> Word {
        Word(STRING | u64::from(id))
    }

    /// Returns a word as Lua passes it: a double, and whether that is a string id.
    #[inline]
    pub fn passed(value: f64, is_string: bool) -> Word {
        if is_string { Word::string(value as u32) } else { Word::number(value) }
    }

    /// Returns the double as which Lua passes it, and whether that is a string id.
    pub(super) fn passable(self) -> (f64, bool) {
        match self.part() {
            WordContent::Number(value) => (value, false),
            WordContent::String(id) => (f64::from(id), true),
        }
    }

    /// Returns the 64 bits, which are equal only for equal words.
    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the content.
    pub fn part(self) -> WordContent {
        if self.0 & STRING == STRING {
            WordContent::String(self.0 as u32)
        } else {
            WordContent::Number(f64::from_bits(self.0))
        }
    }

    /// Compares two words: numbers by value, before strings by `text`.
    pub fn order<'a>(self, other: Word, text: impl Fn(u32) -> &'a [u8]) -> Ordering {
        match (self.part(), other.part()) {
            (WordContent::Number(a), WordContent::Number(b)) => a.total_cmp(&b),
            (WordContent::Number(_), WordContent::String(_)) => Ordering::Less,
            (WordContent::String(_), WordContent::Number(_)) => Ordering::Greater,
            (WordContent::String(a), WordContent::String(b)) => text(a).cmp(text(b)),
        }
    }
}

/// Compares keys for a stable order: columns from the left, numbers before strings.
pub fn order_keys<'a>(a: &[Word], b: &[Word], text: impl Fn(u32) -> &'a [u8]) -> Ordering {
    let words = a.iter().zip(b).map(|(a, b)| a.order(*b, &text));
    words.fold(Ordering::Equal, Ordering::then)
}

/// Hashes a key for tables that use bits from both ends.
///
/// Small numbers differ only in the top 16 bits of their doubles, which do not affect the low half
/// of a product: both halves are folded.
#[inline(always)]
pub fn hash(key: &[Word]) -> u64 {
    let mut hash = 0u64;
    for word in key {
        let product = u128::from(hash.rotate_left(5) ^ word.0) * 0x9e37_79b9_7f4a_7c15;
        hash = product as u64 ^ (product >> 64) as u64;
    }
    hash
}

/// A buffer for the words of one key.
pub(super) type Buffer = [Word; 8];

/// Returns the words of a key as Lua passes them: bit i of `kinds` is set if double i is a string
/// id. At most 8.
///
/// Writes them in place: copying the buffer out would wait for its stores.
#[inline(always)]
pub(super) fn words<'a>(buffer: &'a mut Buffer, doubles: &[f64], kinds: u32) -> &'a [Word] {
    let mut len = 0;
    for (word, value) in buffer.iter_mut().zip(doubles) {
        *word = Word::passed(*value, kinds >> len & 1 != 0);
        len += 1;
    }
    buffer.get(..len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_equal_words() {
        assert_eq!(Word::number(-0.0), Word::number(0.0));
        assert_eq!(Word::number(f64::NAN), Word::number(-f64::NAN));
        assert_ne!(Word::number(1.0), Word::number(-1.0));
    }

    #[test]
    fn both_ends_of_the_hash_distinguish_small_numbers() {
        let hashes = |pick: fn(u64) -> u64| {
            let words = (0..4096).map(|n| [Word::number(f64::from(n))]);
            words.map(|word| pick(hash(&word))).collect::<std::collections::HashSet<u64>>().len()
        };
        // 4096 balls thrown at random into 4096 bins fill 63 % of them.
        assert!(hashes(|hash| hash & 4095) > 2400);
        assert_eq!(hashes(|hash| hash >> 57), 128);
    }

    #[test]
    fn a_number_is_never_a_string() {
        let numbers = [0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 9e15];
        for n in numbers {
            assert!(matches!(Word::number(n).part(), WordContent::Number(_)), "{n}");
        }
        // Every NaN that could be passed, including the string's own pattern.
        assert!(matches!(Word::number(f64::from_bits(STRING | 7)).part(), WordContent::Number(_)));
        assert_eq!(Word::string(7).part(), WordContent::String(7));
        assert_eq!(Word::string(u32::MAX).part(), WordContent::String(u32::MAX));
    }
}
