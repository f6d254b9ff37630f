//! Interns call chains as small numbers. Scripts count by them, they outlive the event, and their
//! frames are named when they are drawn.
//!
//! Interning a known chain costs a hash and a comparison, and allocates nothing. Two chains are the
//! same if their addresses are equal and, if they have user frames, their address spaces: the
//! meaning of a kernel address does not depend on the task. The bytes held are bounded: at the
//! bound every new chain becomes [`OTHER`] and is counted.
//!
//! An id is never reused. Scripts keep ids in places that cannot be inspected (a local, a table of
//! their own), so the id of a swept chain must not later mean another stack: it has no chain from
//! then on, and is drawn as such. Ids held by an aggregate are marked and survive
//! ([`Stacks::sweep`]); the others are swept when half of the room is used, between batches, never
//! while a handler holds one.

pub mod chain;
pub mod fold;
pub mod naming;

use crate::base::report::frame::Space;
use crate::base::report::timeline::NO_ID;
use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};

/// The id of every new chain after the bound was reached.
pub const OTHER: u64 = NO_ID;

/// The id of the chain without frames, which is also the id of events without a chain.
pub const EMPTY: u64 = 1;

/// Default limit for the chains of a run, in bytes.
pub const BYTES: usize = 64 << 20;

/// The largest id: ids are passed to scripts as doubles.
const ID_MAX: u64 = 1 << 53;

/// Bytes of a chain beside its addresses: its entry, and its slot in the index at the usual load.
const OVERHEAD: usize = size_of::<ChainEntry>() + 8;

/// Maps chains to ids, and ids to chains.
pub struct Stacks {
    /// Sorted by id; a sweep keeps the order.
    entries: Vec<ChainEntry>,
    /// The addresses of all chains; each entry has its range.
    words: Vec<u64>,
    /// Indexes into `entries`.
    index: HashTable<u32>,
    seed: u64,
    next: u64,
    bound: usize,
    sweep_at: usize,
    overflowed: u64,
}

#[derive(Clone, Copy)]
struct ChainEntry {
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
    /// Creates a table that holds at most about `bound` bytes, and at most 2 GiB.
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

    /// Returns the id of a chain as the kernel delivers it, context markers included. Returns
    /// [`OTHER`], and counts it, if the chain is new and there is no room for it. Calls `space` for
    /// the address space of the process only if the chain has user frames.
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
            return self.other(1);
        }
        let id = self.next;
        self.next += 1;
        let (start, len) = (self.words.len() as u32, chain.len() as u32);
        self.words.extend_from_slice(chain);
        self.entries.push(ChainEntry { id, hash, start, len, space });
        let entries = &self.entries;
        let hash_of = |&at: &u32| entries.get(at as usize).map_or(0, |entry| entry.hash);
        self.index.insert_unique(hash, (self.entries.len() - 1) as u32, hash_of);
        id
    }

    /// Returns [`OTHER`], and counts it for this many events.
    pub fn other(&mut self, events: u64) -> u64 {
        self.overflowed += events;
        OTHER
    }

    /// Returns the chain of an id and the address space of its user frames; `None` for [`OTHER`]
    /// and for a swept id.
    pub fn chain(&self, id: u64) -> Option<(Space, &[u64])> {
        if id == EMPTY {
            return Some((Space::UNKNOWN, &[]));
        }
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        let entry = self.entries.get(at)?;
        Some((entry.space, words_of(&self.words, entry)))
    }

    /// Returns the number of chains held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no chain is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many times a chain became [`OTHER`].
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>() + self.entries.len() * OVERHEAD
    }

    /// Returns whether enough is held for a sweep to be worth its time. After a sweep that freed
    /// little, the next one comes later.
    pub fn wants_sweep(&self) -> bool {
        self.bytes() > self.sweep_at
    }

    /// Removes every chain whose id is not in `used`, which may contain other numbers, too. Returns
    /// how many were removed.
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
fn words_of<'a>(words: &'a [u64], entry: &ChainEntry) -> &'a [u64] {
    let start = entry.start as usize;
    words.get(start..start + entry.len as usize).unwrap_or_default()
}

/// Hashes many words by folded products, in two independent chains at once. `seed` prevents chosen
/// collisions.
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
