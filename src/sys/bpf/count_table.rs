//! Tables of values by key, separate for each CPU, and the places where programs find the two of
//! them that are exchanged.
//!
//! Sources: kernel/bpf/hashtab.c (`__htab_map_lookup_and_delete_batch()`) and
//! `maybe_wait_bpf_programs()` in kernel/bpf/syscall.c.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::attr::{BpfAttr, owned};
use super::{MAP_CREATE, MAP_UPDATE, possible_cpus};
use crate::sys::errno::errno;
use crate::sys::refusal::{Refusal, RefusedCall};

/// `BPF_MAP_LOOKUP_AND_DELETE_BATCH` (5.6).
const TAKE_BATCH: libc::c_int = 25;
/// `BPF_MAP_TYPE_HASH`, whose elements are allocated in advance without [`NO_PREALLOC`].
const HASH: u32 = 1;
/// `BPF_F_NO_PREALLOC`
const NO_PREALLOC: u32 = 1;
/// `BPF_MAP_TYPE_PERCPU_HASH`, whose elements are allocated in advance.
const PER_CPU_HASH: u32 = 5;
/// `BPF_MAP_TYPE_ARRAY_OF_MAPS`
const ARRAY_OF_MAPS: u32 = 12;

/// Bytes of a batch of keys and values.
const BATCH_BYTES: usize = 1 << 16;
/// Least number of keys of a batch. It must hold all keys of a bucket.
const BATCH_LEAST: usize = 64;

/// A hash table whose keys have a value for each CPU, or one for all.
#[derive(Debug)]
pub struct CountTable {
    fd: OwnedFd,
    key_bytes: usize,
    /// Bytes of a key's values.
    values_bytes: usize,
    entries: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
}

/// The tables that programs use: an array of two maps.
#[derive(Debug)]
pub struct TableSlots {
    fd: OwnedFd,
}

impl CountTable {
    /// Creates a table for `entries` keys of `key_bytes` bytes with values of `value_bytes` bytes,
    /// a multiple of 8.
    ///
    /// # Errors
    /// The kernel refuses it; the [`Refusal`] explains why.
    pub fn create(
        key_bytes: usize,
        value_bytes: usize,
        entries: usize,
    ) -> Result<CountTable, Refusal> {
        let cpus = possible_cpus().map_err(|why| refusal(&why))?;
        CountTable::of_kind([PER_CPU_HASH, 0], key_bytes, value_bytes, cpus, entries)
    }

    /// Creates a table whose keys have one value for all CPUs. With `is_lazy`, a program that adds
    /// a key allocates its element.
    ///
    /// # Errors
    /// As [`CountTable::create`].
    pub fn shared_by_cpus(
        key_bytes: usize,
        value_bytes: usize,
        entries: usize,
        is_lazy: bool,
    ) -> Result<CountTable, Refusal> {
        let flags = if is_lazy { NO_PREALLOC } else { 0 };
        CountTable::of_kind([HASH, flags], key_bytes, value_bytes, 1, entries)
    }

    fn of_kind(
        [kind, flags]: [u32; 2],
        key_bytes: usize,
        value_bytes: usize,
        values: usize,
        entries: usize,
    ) -> Result<CountTable, Refusal> {
        let mut attr = BpfAttr::default();
        attr.set_u32(0, kind);
        attr.set_u32(4, key_bytes as u32);
        attr.set_u32(8, value_bytes as u32);
        attr.set_u32(12, entries as u32);
        attr.set_u32(16, flags);
        // SAFETY: the command uses no pointer.
        let fd = unsafe { attr.call(MAP_CREATE) }.map_err(|why| refusal(&why))?;
        let values_bytes = value_bytes.next_multiple_of(8) * values;
        // SAFETY: the kernel just returned it.
        let fd = unsafe { owned(fd) };
        let (keys, values) = (Vec::new(), Vec::new());
        Ok(CountTable { fd, key_bytes, values_bytes, entries, keys, values })
    }

    /// Returns the number of the descriptor, for programs.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Returns the number of keys for which it has room.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Removes all keys. Passes each one to `each` with its value, or its values on all possible
    /// CPUs, in their order. Returns the number of keys.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn take_all(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) -> io::Result<usize> {
        let per_key = self.key_bytes + self.values_bytes;
        let mut batch = (BATCH_BYTES / per_key).max(BATCH_LEAST);
        let (mut position, mut next, mut is_first, mut taken) = (0u64, 0u64, true, 0);
        loop {
            self.keys.resize(batch * self.key_bytes, 0);
            self.values.resize(batch * self.values_bytes, 0);
            let mut attr = BpfAttr::default();
            if !is_first {
                attr.set_pointer(0, &raw const position);
            }
            attr.set_pointer(8, &raw mut next);
            attr.set_pointer(16, self.keys.as_mut_ptr());
            attr.set_pointer(24, self.values.as_mut_ptr());
            attr.set_u32(32, batch as u32);
            attr.set_u32(36, self.fd.as_raw_fd().cast_unsigned());
            // SAFETY: keys and values have room for `batch` elements of the sizes that the map
            // declares; the positions have at least the 4 bytes of a bucket's number.
            let result = unsafe { attr.call(TAKE_BATCH) };
            let is_last = match &result {
                Ok(_) => false,
                Err(why) if errno(why) == libc::ENOENT => true,
                // A bucket has more keys.
                Err(why) if errno(why) == libc::ENOSPC && batch < self.entries => {
                    batch *= 2;
                    continue;
                }
                Err(_) => return result.map(|_| taken),
            };
            let count = (attr.u32_at(32) as usize).min(batch);
            let values = self.values.chunks_exact(self.values_bytes);
            for (key, values) in self.keys.chunks_exact(self.key_bytes).zip(values).take(count) {
                each(key, values);
            }
            taken += count;
            if is_last {
                return Ok(taken);
            }
            (position, is_first) = (next, false);
        }
    }
}

impl TableSlots {
    /// Creates empty places for tables of the same shape as `like`.
    ///
    /// # Errors
    /// The kernel refuses it; the [`Refusal`] explains why.
    pub fn create(like: &CountTable) -> Result<TableSlots, Refusal> {
        let mut attr = BpfAttr::default();
        attr.set_u32(0, ARRAY_OF_MAPS);
        attr.set_u32(4, 4);
        attr.set_u32(8, 4);
        attr.set_u32(12, 2);
        attr.set_u32(20, like.fd.as_raw_fd().cast_unsigned());
        // SAFETY: the command uses no pointer.
        let fd = unsafe { attr.call(MAP_CREATE) }.map_err(|why| refusal(&why))?;
        // SAFETY: the kernel just returned it.
        Ok(TableSlots { fd: unsafe { owned(fd) } })
    }

    /// Returns the number of the descriptor, for programs.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Sets the table at an index, 0 or 1, and waits for all programs that run now: they may use
    /// the one before, or have read something else that was changed before the call.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn set(&self, index: u32, table: &CountTable) -> io::Result<()> {
        let value = table.fd.as_raw_fd();
        let mut attr = BpfAttr::fd(0, &self.fd);
        attr.set_pointer(8, &raw const index);
        attr.set_pointer(16, &raw const value);
        // SAFETY: key and value have 4 bytes each, as the map declares, and outlive the call.
        unsafe { attr.call(MAP_UPDATE) }.map(drop)
    }
}

fn refusal(why: &io::Error) -> Refusal {
    Refusal::new("BPF", RefusedCall::Bpf(""), errno(why))
}
