//! The call chains of a table: each of its two maps has a map of chains with as many places, which
//! is exchanged, read and emptied with it. A chain is stored before the first row that has it, so
//! it is there when the row is read.

use std::hash::{BuildHasher as _, RandomState};
use std::io;

use super::exchange::ExchangedTable;
use super::refused_by;
use crate::bpf::call_chain::{CHAIN_WORDS, ChainMaps, ChainShape};
use crate::source::counted_chain::CountedChains;
use crate::sys::bpf::{BpfMap, BpfMapType, CountTable, TableSlots};
use crate::sys::refusal::Refusal;

/// Bytes of an element besides its key and its value, with its share of the hash buckets.
const ELEMENT_BYTES: usize = 80;
/// Bytes of a key.
const KEY_BYTES: usize = 8 * CHAIN_WORDS;

/// The chains of a table.
pub(super) struct ChainTables {
    part: ChainShape,
    slots: TableSlots,
    tables: [Option<CountTable>; 2],
    /// The constants of the hash.
    seed: u64,
    factor: u64,
    /// The memory in which a program reads a chain. The programs belong to perf events, so a CPU
    /// runs only one of them at once.
    memory: BpfMap,
    /// Rows whose process is not known yet: their keys and values.
    deferred: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ChainTables {
    /// Creates chains for a table that is not used yet.
    pub(super) fn create(part: ChainShape, of: &ExchangedTable) -> Result<ChainTables, Refusal> {
        let first = new_table(part, of.entries())?;
        let random = RandomState::new();
        let slots = TableSlots::create(&first)?;
        slots.set(0, &first).map_err(|why| refused_by(&why))?;
        Ok(ChainTables {
            part,
            slots,
            tables: [Some(first), None],
            seed: random.hash_one(0),
            factor: random.hash_one(1),
            memory: BpfMap::create(BpfMapType::PerCpuArray, part.memory_bytes(), 1)?,
            deferred: Vec::new(),
        })
    }

    /// Returns the size of a chain in a map, in bytes.
    pub(super) fn bytes(part: ChainShape) -> usize {
        ELEMENT_BYTES + KEY_BYTES + part.stored_bytes()
    }

    /// Returns the maps for programs.
    pub(super) fn maps(&self) -> ChainMaps {
        ChainMaps {
            tables: self.slots.number(),
            memory: self.memory.number(),
            seed: self.seed,
            factor: self.factor,
        }
    }

    /// Gives the empty map at an index room for this many chains, if it has less. Without memory
    /// for a larger one, it keeps its size, and chains without room are counted as such.
    ///
    /// # Errors
    /// The kernel refuses the map, and there is none.
    pub(super) fn fit(&mut self, index: u32, entries: usize) -> io::Result<()> {
        let Some(place) = self.tables.get_mut(index as usize) else { return Ok(()) };
        if place.as_ref().is_some_and(|table| table.entries() >= entries) {
            return Ok(());
        }
        let table = match new_table(self.part, entries) {
            Err(_) if place.is_some() => return Ok(()),
            table => table.map_err(|why| io::Error::from_raw_os_error(why.errno))?,
        };
        self.slots.set(index, &table)?;
        *place = Some(table);
        Ok(())
    }

    /// Moves the chains at an index, which no program uses, to `chains`.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(super) fn take(&mut self, index: u32, chains: &mut CountedChains) -> io::Result<()> {
        chains.clear();
        let part = self.part;
        let table = self.tables.get_mut(index as usize).and_then(Option::as_mut);
        let Some(table) = table else { return Ok(()) };
        table.take_all(&mut |key, stored| chains.add(key, stored, part)).map(drop)
    }

    /// Keeps a row until the records about its process have been handled.
    pub(super) fn defer(&mut self, key: &[u8], values: &[u8]) {
        self.deferred.push((key.to_vec(), values.to_vec()));
    }

    /// Returns whether rows are kept.
    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Returns the rows that were kept; their chains are those of the last interval.
    pub(super) fn take_deferred(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.deferred)
    }
}

fn new_table(part: ChainShape, entries: usize) -> Result<CountTable, Refusal> {
    CountTable::shared_by_cpus(KEY_BYTES, part.stored_bytes(), entries, false)
}
