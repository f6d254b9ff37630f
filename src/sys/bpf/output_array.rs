//! The perf events to which a BPF program writes.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{BpfLink, BpfMap};

/// Entries of an array of perf events, one per CPU, to which BPF programs write. They are removed
/// when this is dropped: an event does not end while it has one.
#[derive(Debug)]
pub struct OutputArray {
    /// The array.
    pub map: Arc<BpfMap>,
    /// The indexes of the CPUs, in their order.
    pub entries: Range<u32>,
    /// The attachment of the program that writes to them, if it must last as long.
    pub link: Option<Arc<BpfLink>>,
}

impl OutputArray {
    /// Sets the event of a CPU.
    ///
    /// # Errors
    /// The kernel refuses it ([`BpfMap::set_file`]), or the CPU has no entry.
    pub fn set_event(&self, cpu: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        let index = self.entries.start + cpu;
        if !self.entries.contains(&index) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.map.set_file(index, event)
    }
}

impl Drop for OutputArray {
    fn drop(&mut self) {
        self.entries.clone().for_each(|index| self.map.remove(index));
    }
}
