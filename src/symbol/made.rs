//! Code that the kernel makes while it runs: BPF programs, trampolines, slots of probes, as KSYMBOL records tell.
//!
//! What goes keeps its name until something else takes its place: chains that were taken in it are named later.

use std::rc::Rc;

use super::ranges::Ranges;

/// Symbols that are kept, those that are gone included.
const KEPT: usize = 1 << 16;

/// What a KSYMBOL record says has come.
#[derive(Clone, Copy, Debug)]
pub struct MadeSymbol<'a> {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Whether it is a BPF program (`PERF_RECORD_KSYMBOL_TYPE_BPF`).
    pub bpf: bool,
    /// Its name.
    pub name: &'a [u8],
}

/// What was made.
#[derive(Debug, Default)]
pub(super) struct Made {
    symbols: Ranges<(Rc<str>, Rc<str>)>,
    taken: u64,
}

impl Made {
    pub(super) fn take(&mut self, symbol: &MadeSymbol<'_>) {
        self.taken += 1;
        if self.symbols.len() >= KEPT {
            self.symbols.drop_first();
        }
        let name = String::from_utf8_lossy(symbol.name).into();
        let dso = if symbol.bpf { "[bpf]" } else { "[kernel]" };
        self.symbols.put(symbol.address, symbol.length.into(), (name, dso.into()));
    }

    /// How many were taken: with each, an address may have another name.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Start, name and dso of the symbol that an address lies in.
    pub(super) fn find(&self, address: u64) -> Option<(u64, Rc<str>, Rc<str>)> {
        let (start, (name, dso)) = self.symbols.find(address)?;
        Some((start, name.clone(), dso.clone()))
    }
}
