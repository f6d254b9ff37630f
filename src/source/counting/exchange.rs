//! A table with two maps: programs add to one, the other is empty. To read the table, the maps are
//! exchanged, and the kernel waits until no program uses the old one (`TableSlot::set`).

use std::io;

use crate::sys::bpf::{BpfMap, BpfMapType, CountTable, TableSlot, possible_cpus};
use crate::sys::refusal::Refusal;

/// Number of keys of a new table, which is created before the run begins: that takes milliseconds.
const ENTRIES_FIRST: usize = 8192;
/// Number of keys of the map of the second interval.
const ENTRIES: usize = 32_768;
/// Limit of the keys of a table.
const ENTRIES_MAX: usize = 1 << 20;
/// Limit of the memory of both maps of a table, in bytes.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of an element besides its key and its values.
const ELEMENT_BYTES: usize = 64;

/// A table whose maps are exchanged.
pub(super) struct ExchangedTable {
    slot: TableSlot,
    /// The map that programs use while the table is not stopped.
    map: CountTable,
    /// The empty one.
    spare: Option<CountTable>,
    /// An array of one number: the index of the rest in use.
    active: BpfMap,
    rest_index: u32,
    is_counting: bool,
    key_bytes: usize,
    value_bytes: usize,
}

/// The result of an exchange.
pub(super) struct Exchange {
    /// The index of the rest that belongs to the rows.
    pub(super) rest: u32,
    /// Whether the table was nearly full.
    pub(super) is_nearly_full: bool,
}

impl ExchangedTable {
    /// Creates an empty table for `entries` keys; None for the usual number.
    pub(super) fn create(
        key_bytes: usize,
        value_bytes: usize,
        entries: Option<usize>,
    ) -> Result<ExchangedTable, Refusal> {
        let entries =
            entries.unwrap_or_else(|| ENTRIES_FIRST.min(entries_max(key_bytes, value_bytes)));
        let map = CountTable::create(key_bytes, value_bytes, entries)?;
        Ok(ExchangedTable {
            slot: TableSlot::create(&map)?,
            map,
            spare: None,
            active: BpfMap::create(BpfMapType::Array, 4, 1)?,
            rest_index: 0,
            is_counting: false,
            key_bytes,
            value_bytes,
        })
    }

    /// Returns the descriptor of the array of maps whose element is the table.
    pub(super) fn slot(&self) -> i32 {
        self.slot.number()
    }

    /// Returns the descriptor of the array that has the index of the rest.
    pub(super) fn active(&self) -> i32 {
        self.active.number()
    }

    /// Lets programs use the table.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.slot.set(&self.map)?;
        self.is_counting = true;
        Ok(())
    }

    /// Stops programs; the next exchange returns the last rows.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        if self.is_counting {
            self.slot.clear()?;
            self.is_counting = false;
        }
        Ok(())
    }

    /// Passes each key since the last exchange with its values on all possible CPUs, and starts
    /// again without keys.
    pub(super) fn exchange(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> io::Result<Exchange> {
        let rest = self.rest_index;
        if self.is_counting {
            self.add_spare()?;
            // Before the exchange, which waits for the programs that may use the old one.
            self.rest_index = 1 - rest;
            self.active.set_number(0, self.rest_index)?;
            if let Some(spare) = self.spare.as_mut() {
                self.slot.set(spare)?;
                std::mem::swap(spare, &mut self.map);
            }
        }
        let old = self.spare.as_mut().filter(|_| self.is_counting).unwrap_or(&mut self.map);
        let keys = old.take_all(each)?;
        Ok(Exchange { rest, is_nearly_full: keys * 4 > old.entries() * 3 })
    }

    /// Creates the empty map, if there is none.
    pub(super) fn add_spare(&mut self) -> io::Result<()> {
        if self.spare.is_none() {
            let most = entries_max(self.key_bytes, self.value_bytes);
            let spare = self.another(self.map.entries().max(ENTRIES).min(most));
            let spare = spare.map_err(|why| io::Error::from_raw_os_error(why.errno))?;
            self.spare = Some(spare);
        }
        Ok(())
    }

    fn another(&self, entries: usize) -> Result<CountTable, Refusal> {
        CountTable::create(self.key_bytes, self.value_bytes, entries)
    }

    /// Replaces the empty map if it has less room than the other one, or was nearly full. Without
    /// memory for a larger one, it keeps its size.
    pub(super) fn grow(&mut self, was_nearly_full: bool) {
        let most = entries_max(self.key_bytes, self.value_bytes);
        let Some(has) = self.spare.as_ref().map(CountTable::entries) else { return };
        let grown = if was_nearly_full { (has * 4).min(most) } else { has };
        let wanted = grown.max(self.map.entries());
        if self.is_counting
            && wanted > has
            && let Ok(larger) = self.another(wanted)
        {
            self.spare = Some(larger);
        }
    }
}

/// Returns the limit of the keys of a table.
fn entries_max(key_bytes: usize, value_bytes: usize) -> usize {
    let bytes = ELEMENT_BYTES + key_bytes + value_bytes * possible_cpus().unwrap_or(1);
    (BYTES_MAX / 2 / bytes).clamp(1, ENTRIES_MAX)
}
