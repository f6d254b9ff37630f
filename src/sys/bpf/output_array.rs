//! The perf events to which a BPF program writes.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{BpfLink, BpfMap, BpfMapType, cpu_numbers};
use crate::sys::errno::errno;
use crate::sys::refusal::{Refusal, RefusedCall};

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
    /// Creates an array for one event of each CPU.
    ///
    /// # Errors
    /// The number of CPUs cannot be read, or the kernel refuses the map.
    pub fn create() -> Result<OutputArray, Refusal> {
        let refused = |why| Refusal::new("BPF", RefusedCall::Bpf(""), errno(&why));
        let cpus = cpu_numbers().map_err(refused)?;
        let map = Arc::new(BpfMap::create(BpfMapType::PerfEventArray, 4, cpus)?);
        Ok(OutputArray { map, entries: 0..cpus as u32, link: None })
    }

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
