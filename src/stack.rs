//! Call chains as small numbers: what a script counts by, what outlives the event, what is named when it is drawn.
//!
//! A chain that was seen before costs a hash and a comparison, and nothing is allocated for it. Two chains are one
//! when their addresses are and, if user frames are among them, their address spaces: what a kernel address means
//! does not depend on who ran. The bytes held are bounded: at the bound every new chain is [`OTHER`] and counted.
//!
//! An id is never given twice. Scripts keep ids where nobody sees them (a local, a table of their own), so an id that
//! was swept must not come back as another stack: it is nobody's any more, and is drawn as such. What an
//! aggregate holds is marked and survives ([`Stacks::sweep`]); the others are swept when half the room is taken,
//! between batches, never while a handler has one in its hands.

pub mod chain;
pub mod fold;
pub mod naming;

use crate::base::frame::Space;
use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};

/// The id that stands for every chain that came after the bound was reached.
pub const OTHER: u64 = 0;

/// The id of the chain without frames, which events without a chain have, too.
pub const EMPTY: u64 = 1;

/// Bytes that the chains of a run may take.
pub const BYTES: usize = 64 << 20;

/// Ids are passed to scripts as doubles.
const ID_MAX: u64 = 1 << 53;

/// What a chain costs beside its addresses: its entry, and its slot in the index at the usual load.
const OVERHEAD: usize = size_of::<Entry>() + 8;

/// Chains by id, and ids by chain.
pub struct Stacks {
    /// In the order of ids: they ascend, and a sweep keeps their order.
    entries: Vec<Entry>,
    /// The addresses of all chains, each where its entry says.
    words: Vec<u64>,
    /// Positions in `entries`.
    index: HashTable<u32>,
    seed: u64,
    next: u64,
    bound: usize,
    sweep_at: usize,
    overflowed: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    id: u64,
    hash: u64,
    start: u32,
    len: u32,
    space: Space,
}

impl Default for Stacks {
    fn default() -> Stacks {
        Stacks::new(BYTES)
    }
}

impl Stacks {
    /// Holds at most about `bound` bytes, 2 GiB at most.
    pub fn new(bound: usize) -> Stacks {
        let bound = bound.min(2 << 30);
        Stacks {
            entries: Vec::new(),
            words: Vec::new(),
            index: HashTable::new(),
            seed: RandomState::new().hash_one(0),
            next: EMPTY + 1,
            bound,
            sweep_at: bound / 2,
            overflowed: 0,
        }
    }

    /// The id of a chain as the kernel gives it, context markers included; [`OTHER`], counted, when it is new and
    /// there is no room for it. `space` is asked for that of the process if the chain has user frames.
    #[inline]
    pub fn intern(&mut self, chain: &[u64], space: impl FnOnce() -> Space) -> u64 {
        if chain.is_empty() {
            return EMPTY;
        }
        let space = if chain::has_user_frames(chain) { space() } else { Space::UNKNOWN };
        let hash = hash(self.seed ^ u64::from(space.0), chain);
        let (entries, words) = (&self.entries, &self.words);
        let found = self.index.find(hash, |&at| {
            entries.get(at as usize).is_some_and(|entry| {
                entry.hash == hash && entry.space == space && words_of(words, entry) == chain
            })
        });
        match found.and_then(|&at| self.entries.get(at as usize)) {
            Some(entry) => entry.id,
            None => self.add(space, chain, hash),
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, space: Space, chain: &[u64], hash: u64) -> u64 {
        let room = self.bytes() + size_of_val(chain) + OVERHEAD <= self.bound;
        if !room || self.next >= ID_MAX {
            self.overflowed += 1;
            return OTHER;
        }
        let id = self.next;
        self.next += 1;
        let (start, len) = (self.words.len() as u32, chain.len() as u32);
        self.words.extend_from_slice(chain);
        self.entries.push(Entry { id, hash, start, len, space });
        let entries = &self.entries;
        let hash_of = |&at: &u32| entries.get(at as usize).map_or(0, |entry| entry.hash);
        self.index.insert_unique(hash, (self.entries.len() - 1) as u32, hash_of);
        id
    }

    /// The chain of an id and the space of its user frames; none of [`OTHER`], and of one that was swept.
    pub fn chain(&self, id: u64) -> Option<(Space, &[u64])> {
        if id == EMPTY {
            return Some((Space::UNKNOWN, &[]));
        }
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        let entry = self.entries.get(at)?;
        Some((entry.space, words_of(&self.words, entry)))
    }

    /// How many chains are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many times a chain became [`OTHER`].
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>() + self.entries.len() * OVERHEAD
    }

    /// Whether so much is held that a sweep is worth its time. After one that freed little the next comes later.
    pub fn wants_sweep(&self) -> bool {
        self.bytes() > self.sweep_at
    }

    /// Forgets every chain whose id is not in `used`, which may hold other numbers, too. Gives how many went.
    pub fn sweep(&mut self, used: &mut [f64]) -> usize {
        used.sort_unstable_by(f64::total_cmp);
        let is_used =
            |id: u64| used.binary_search_by(|other| other.total_cmp(&(id as f64))).is_ok();
        let before = self.entries.len();
        let words = &mut self.words;
        let mut end = 0;
        self.entries.retain_mut(|entry| {
            let kept = is_used(entry.id);
            if kept {
                let from = entry.start as usize;
                words.copy_within(from..from + entry.len as usize, end);
                entry.start = end as u32;
                end += entry.len as usize;
            }
            kept
        });
        words.truncate(end);
        let entries = &self.entries;
        let hash_of = |&at: &u32| entries.get(at as usize).map_or(0, |entry| entry.hash);
        self.index.clear();
        for (at, entry) in entries.iter().enumerate() {
            self.index.insert_unique(entry.hash, at as u32, hash_of);
        }
        let held = self.bytes();
        self.sweep_at = (self.bound / 2).max(held + (self.bound / 16).max(held / 4));
        before - self.entries.len()
    }
}

#[inline]
fn words_of<'a>(words: &'a [u64], entry: &Entry) -> &'a [u64] {
    let start = entry.start as usize;
    words.get(start..start + entry.len as usize).unwrap_or_default()
}

/// A hash of many words by folded products, two chains of them at once; `seed` keeps others from choosing collisions.
#[inline]
fn hash(seed: u64, words: &[u64]) -> u64 {
    const ODD: [u64; 4] = [
        0xa076_1d64_78bd_642f,
        0xe703_7ed1_a0b4_28db,
        0x8ebc_6af0_9c88_c6e3,
        0x5899_65cc_7537_4cc3,
    ];
    let (mut a, mut b) = (seed ^ ODD[0], seed.rotate_left(32) ^ ODD[1]);
    let mut fours = words.chunks_exact(4);
    for four in &mut fours {
        let [w, x, y, z] = *four else { continue };
        a = fold(a ^ w, x ^ ODD[2]);
        b = fold(b ^ y, z ^ ODD[3]);
    }
    for word in fours.remainder() {
        a = fold(a ^ word, ODD[2]);
    }
    fold(a ^ words.len() as u64, b ^ ODD[3])
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests;
