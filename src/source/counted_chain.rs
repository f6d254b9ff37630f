//! Call chains that programs in the kernel have stored for the rows of a table.

use hashbrown::HashMap;

use crate::base::event::chain::{KERNEL, TRUNCATED, USER};
use crate::bpf::call_chain::{CHAIN_HEADER, CHAIN_WORDS, ChainShape};

/// The words of a call chain in a key.
pub(super) type ChainKey = [u64; CHAIN_WORDS];

/// A call chain with the context of its user addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedChain {
    /// The process whose addresses it has; 0 without user frames.
    pub process: u32,
    /// Time of its first event in the interval, as of `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// The chain as in a record: markers, addresses, and [`TRUNCATED`] if there may be more.
    pub words: Vec<u64>,
}

/// The call chains of an interval, by key.
#[derive(Default)]
pub(super) struct CountedChains(HashMap<ChainKey, CountedChain>);

impl CountedChain {
    /// Reads a chain that a program has stored.
    fn read(key: ChainKey, stored: &[u8], part: ChainShape) -> CountedChain {
        let [in_kernel, all] = [0, 1].map(|at| (word(stored, at) as usize).min(part.depth));
        let in_kernel = in_kernel.min(all);
        let frames =
            |from: usize, to: usize| (from..to).map(|frame| word(stored, CHAIN_HEADER + frame));
        let mut words = Vec::with_capacity(all + 3);
        if in_kernel > 0 {
            words.push(KERNEL);
            words.extend(frames(0, in_kernel));
        }
        if all > in_kernel {
            words.push(USER);
            words.extend(frames(in_kernel, all));
        }
        if all >= part.depth {
            words.push(TRUNCATED);
        }
        CountedChain { process: key[2] as u32, first_ns: word(stored, 2), words }
    }

    /// Returns whether it contains only the inner part of its stack.
    pub fn is_truncated(&self) -> bool {
        self.words.last() == Some(&TRUNCATED)
    }
}

impl CountedChains {
    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a chain that a program has stored.
    pub(super) fn add(&mut self, key: &[u8], stored: &[u8], part: ChainShape) {
        let key = key_at(key, 0);
        self.0.insert(key, CountedChain::read(key, stored, part));
    }

    /// Returns the chain whose words begin at an offset in a key, in bytes.
    pub(super) fn of(&self, key: &[u8], offset: usize) -> Option<&CountedChain> {
        self.0.get(&key_at(key, offset))
    }
}

/// Returns the words of a chain at an offset, in bytes.
fn key_at(key: &[u8], offset: usize) -> ChainKey {
    let chain = key.get(offset..).unwrap_or_default();
    std::array::from_fn(|at| word(chain, at))
}

/// Returns a word of 8 bytes; 0 if there are not as many.
pub(super) fn word(bytes: &[u8], index: usize) -> u64 {
    let word = bytes.get(8 * index..8 * index + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn read(stored: &[u64], depth: usize) -> Vec<u64> {
        let part = ChainShape { kernel: true, user: true, depth };
        CountedChain::read([1, 2, 3], &bytes(stored), part).words
    }

    #[test]
    fn a_chain_has_the_markers_of_a_record() {
        let addresses = [0xa1, 0xa2, 0xb1, 0, 0];
        let of = |kernel, all| read(&[&[kernel, all, 9], &addresses[..]].concat(), 5);
        assert_eq!(of(2, 3), [KERNEL, 0xa1, 0xa2, USER, 0xb1]);
        assert_eq!(of(0, 1), [USER, 0xa1]);
        assert_eq!(of(2, 2), [KERNEL, 0xa1, 0xa2]);
        assert!(of(0, 0).is_empty());
    }

    #[test]
    fn a_chain_of_the_maximum_length_is_truncated() {
        assert_eq!(read(&[1, 2, 9, 0xa1, 0xb1], 2), [KERNEL, 0xa1, USER, 0xb1, TRUNCATED]);
        assert_eq!(read(&[u64::MAX, u64::MAX, 9, 0xa1], 1), [KERNEL, 0xa1, TRUNCATED]);
    }

    #[test]
    fn a_chain_is_found_by_its_words_in_a_key() {
        let mut chains = CountedChains::default();
        let part = ChainShape { kernel: true, user: true, depth: 5 };
        chains.add(&bytes(&[1, 2, 42]), &bytes(&[0, 1, 77, 0xb1]), part);
        let found = chains.of(&bytes(&[9, 1, 2, 42]), 8).unwrap();
        assert_eq!((found.process, found.first_ns, found.is_truncated()), (42, 77, false));
        assert_eq!(chains.of(&bytes(&[9, 1, 2, 43]), 8), None);
    }
}
