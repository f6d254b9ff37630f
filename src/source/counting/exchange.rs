//! A table with two maps: programs add to one, the other is empty. To read the table, the maps are
//! exchanged, and the kernel waits until no program uses the old one.
//!
//! A program reads the index of its map once ([`crate::bpf::count`]), so that one store exchanges
//! all that belongs to an interval.

use std::io;

use crate::bpf::count::NO_TABLE;
use crate::sys::bpf::{BpfMap, BpfMapType, CountTable, TableSlots, possible_cpus};
use crate::sys::machine::memory_bytes;
use crate::sys::refusal::Refusal;

/// Number of keys of the first maps. The kernel takes 1 to 3 us to create each, and the same to
/// remove it.
const ENTRIES_FIRST: usize = 8192;
/// A map with room for this many keys is read only once a second, even if it fills before: reading
/// takes up to 1 us for each key.
const ENTRIES_EARLY: usize = 32_768;
/// Limit of the keys of a table.
const ENTRIES_MAX: usize = 1 << 20;
/// Limit of the memory of both maps of a table, in bytes. It is 1 MiB for each possible CPU if that
/// is more, because each has a value of its own for each key; but at most [`MEMORY_PART`].
const BYTES_MAX: usize = 64 << 20;
/// The part of the machine's memory that a table may take beyond [`BYTES_MAX`].
const MEMORY_PART: usize = 64;
/// Bytes of an element besides its key and its values, with its share of the hash buckets.
const ELEMENT_BYTES: usize = 88;

/// A table whose maps are exchanged.
pub(super) struct ExchangedTable {
    slots: TableSlots,
    /// The map that programs use while the table is not stopped, and its index.
    map: CountTable,
    index: u32,
    /// The empty one.
    spare: Option<CountTable>,
    /// An array of one number: the index of the map in use.
    active: BpfMap,
    /// For each index, the number of keys that programs have added so far.
    added: BpfMap,
    /// The same when the map at this index was read last.
    added_before: [u64; 2],
    is_counting: bool,
    /// Whether programs use neither map for the moment.
    is_paused: bool,
    /// The index of the map that programs no longer use, until it is read.
    left: Option<u32>,
    key_bytes: usize,
    value_bytes: usize,
    /// Bytes that each key takes in other maps.
    beside: usize,
}

/// The result of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// The index of the map that was read; the rest with this index belongs to it.
    pub(super) index: u32,
    /// Number of its keys.
    keys: usize,
    /// Number of the events with these keys.
    events: u64,
}

impl ExchangedTable {
    /// Creates an empty table, of whose keys each takes `beside` bytes in other maps.
    pub(super) fn create(
        key_bytes: usize,
        value_bytes: usize,
        beside: usize,
    ) -> Result<ExchangedTable, Refusal> {
        let most = entries_max(key_bytes + beside, value_bytes);
        let entries = ENTRIES_FIRST.min(most / 4).max(1);
        let map = CountTable::create(key_bytes, value_bytes, entries)?;
        let active = BpfMap::create(BpfMapType::Array, 4, 1)?;
        active.set_number(0, NO_TABLE).map_err(|why| super::refused_by(&why))?;
        Ok(ExchangedTable {
            slots: TableSlots::create(&map)?,
            map,
            index: 0,
            spare: None,
            active,
            added: BpfMap::create(BpfMapType::PerCpuArray, 8, 2)?,
            added_before: [0; 2],
            is_counting: false,
            is_paused: false,
            left: None,
            key_bytes,
            value_bytes,
            beside,
        })
    }

    /// Returns the number of keys for which the map in use has room.
    pub(super) fn entries(&self) -> usize {
        self.map.entries()
    }

    /// Returns the index of the empty map and the number of keys for which it has room; None if
    /// there is none, or if it is in use already and the map before has not been read yet.
    pub(super) fn spare(&self) -> Option<(u32, usize)> {
        let spare = self.spare.as_ref().filter(|_| self.left.is_none())?;
        Some((1 - self.index, spare.entries()))
    }

    /// Returns the descriptor of the array of maps that has both.
    pub(super) fn slots(&self) -> i32 {
        self.slots.number()
    }

    /// Returns the descriptor of the array that has the index of the map in use.
    pub(super) fn active(&self) -> i32 {
        self.active.number()
    }

    /// Returns the descriptor of the array that has the numbers of keys.
    pub(super) fn added(&self) -> i32 {
        self.added.number()
    }

    /// Lets programs use the table.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.slots.set(self.index, &self.map)?;
        self.is_counting = true;
        self.pause(self.is_paused)
    }

    /// Lets programs use neither map, or again the one in use. Programs that run continue.
    pub(super) fn pause(&mut self, is_paused: bool) -> io::Result<()> {
        self.is_paused = is_paused;
        if !self.is_counting {
            return Ok(());
        }
        self.active.set_number(0, if is_paused { NO_TABLE } else { self.index })
    }

    /// Stops programs; the next exchange returns the last rows.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        if self.is_counting {
            self.active.set_number(0, NO_TABLE)?;
            self.is_counting = false;
            self.slots.set(self.index, &self.map)?;
        }
        Ok(())
    }

    /// Passes each key since the last exchange with its values on all possible CPUs, and starts
    /// again without keys.
    pub(super) fn exchange(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> io::Result<Exchange> {
        let index = self.turn()?;
        self.take(index, each)
    }

    /// Lets programs that begin from now on use the other map.
    pub(super) fn flip(&mut self) -> io::Result<()> {
        if self.is_counting && self.left.is_none() {
            self.add_spare()?;
            self.left = Some(self.index);
            self.index = 1 - self.index;
            self.pause(self.is_paused)?;
        }
        Ok(())
    }

    /// Exchanges the maps, unless [`ExchangedTable::flip`] has begun to. Returns the index of the
    /// one that no program uses any more.
    pub(super) fn turn(&mut self) -> io::Result<u32> {
        self.flip()?;
        let Some(index) = self.left.take() else { return Ok(self.index) };
        // The old map again, only to wait for the programs that use it.
        self.slots.set(index, &self.map)?;
        if let Some(spare) = self.spare.as_mut() {
            std::mem::swap(spare, &mut self.map);
        }
        Ok(index)
    }

    /// Passes each key of the map at the index that [`ExchangedTable::turn`] has returned with its
    /// values on all possible CPUs, and removes them.
    pub(super) fn take(
        &mut self,
        index: u32,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> io::Result<Exchange> {
        let old = self.spare.as_mut().filter(|_| self.is_counting).unwrap_or(&mut self.map);
        let (mut events, value_bytes) = (0, self.value_bytes);
        let keys = old.take_all(&mut |key, values| {
            let counts = values.chunks_exact(value_bytes).filter_map(super::word);
            events += counts.sum::<u64>();
            each(key, values);
        })?;
        self.added_before[index as usize] = self.added_so_far(index)?;
        Ok(Exchange { index, keys, events })
    }

    /// Returns whether the map in use will soon have no room, and should be read now.
    pub(super) fn is_nearly_full(&self) -> io::Result<bool> {
        if !self.is_counting || self.map.entries() >= ENTRIES_EARLY {
            return Ok(false);
        }
        Ok(is_nearly_full(self.keys()? as usize, self.map.entries()))
    }

    /// Returns the number of keys in the map in use.
    pub(super) fn keys(&self) -> io::Result<u64> {
        let before = self.added_before[self.index as usize];
        Ok(self.added_so_far(self.index)?.saturating_sub(before))
    }

    fn added_so_far(&self, index: u32) -> io::Result<u64> {
        let values = self.added.of_cpus(index)?;
        Ok(values.iter().filter_map(|value| super::word(value)).sum())
    }

    /// Creates the empty map, if there is none and programs use the table.
    pub(super) fn add_spare(&mut self) -> io::Result<()> {
        if self.is_counting && self.spare.is_none() {
            let spare = self.another(self.map.entries());
            self.set_spare(spare.map_err(|why| io::Error::from_raw_os_error(why.errno))?)?;
        }
        Ok(())
    }

    fn set_spare(&mut self, spare: CountTable) -> io::Result<()> {
        self.slots.set(1 - self.index, &spare)?;
        self.spare = Some(spare);
        Ok(())
    }

    fn another(&self, entries: usize) -> Result<CountTable, Refusal> {
        CountTable::create(self.key_bytes, self.value_bytes, entries)
    }

    /// Replaces the empty map if it has less room than the other one, or than an interval needs
    /// that is like the last one, of which `rest` events had no room. Without memory for a larger
    /// one, it keeps its size.
    pub(super) fn grow(&mut self, last: &Exchange, rest: u64) {
        let most = entries_max(self.key_bytes + self.beside, self.value_bytes);
        let Some(has) = self.spare.as_ref().map(CountTable::entries) else { return };
        let in_use = self.map.entries();
        let wanted = last.entries_for_next(has, rest).min(8 * in_use.max(has)).min(most);
        let wanted = wanted.max(in_use);
        if self.is_counting
            && wanted > has
            && let Ok(larger) = self.another(wanted)
        {
            // A failure keeps the old one, which is in its place.
            let _ = self.set_spare(larger);
        }
    }
}

impl Exchange {
    /// Returns the number of keys of the next map after one with `has`: twice the keys of this one,
    /// if the `rest` events without room have as many keys as others.
    fn entries_for_next(&self, has: usize, rest: u64) -> usize {
        if rest == 0 && !is_nearly_full(self.keys, has) {
            return has;
        }
        let more = u128::from(rest) * self.keys as u128 / u128::from(self.events.max(1));
        let keys = usize::try_from(more).unwrap_or(usize::MAX).saturating_add(self.keys);
        keys.saturating_mul(2).max(has)
    }
}

/// Returns whether at least three quarters of a map with room for `entries` keys are in use.
fn is_nearly_full(keys: usize, entries: usize) -> bool {
    4 * keys >= 3 * entries
}

/// Returns the limit of the keys of a table.
fn entries_max(key_bytes: usize, value_bytes: usize) -> usize {
    entries_on(possible_cpus().unwrap_or(1), memory_bytes(), key_bytes, value_bytes)
}

/// The same on a machine with this number of possible CPUs and this memory.
fn entries_on(cpus: usize, memory: usize, key_bytes: usize, value_bytes: usize) -> usize {
    let bytes = ELEMENT_BYTES + key_bytes + value_bytes * cpus;
    let most = BYTES_MAX.max((cpus << 20).min(memory / MEMORY_PART));
    (most / 2 / bytes).clamp(1, ENTRIES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(has: usize, keys: usize, events: u64, rest: u64) -> usize {
        Exchange { index: 0, keys, events }.entries_for_next(has, rest)
    }

    #[test]
    fn a_map_grows_to_twice_the_keys_that_its_events_have() {
        assert_eq!(after(1600, 0, 0, 0), 1600);
        assert_eq!(after(1600, 1199, 1 << 40, 0), 1600, "more than a quarter is left");
        assert_eq!(after(1600, 1200, 1200, 0), 2400);
        assert_eq!(after(1600, 1600, 1600, 1), 3202);
        assert_eq!(after(32_768, 32_768, 500_000, 500_000), 131_072, "half of the events had room");
        assert_eq!(after(1600, 1600, 1600, u64::MAX), usize::MAX, "the limit is elsewhere");
    }

    #[test]
    fn a_machine_with_more_cpus_has_room_for_thousands_of_keys() {
        let with = |gib: usize| move |cpus| entries_on(cpus, gib << 30, 24, 40);
        assert_eq!([1, 2, 64, 256, 1024].map(with(64)), [220_752, 174_762, 12_557, 12_965, 13_071]);
        assert_eq!([1, 256].map(with(4)), [220_752, 3241], "few of them are online");
    }
}
