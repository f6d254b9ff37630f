//! Code that the kernel generates at run time: BPF programs, trampolines and slots of probes, known
//! from KSYMBOL records.
//!
//! Code that was removed keeps its name until other code replaces it: chains that were taken in it
//! are named later.

use std::rc::Rc;

use super::ranges::Ranges;

/// Maximum number of symbols, those of removed code included.
const SYMBOLS_MAX: usize = 1 << 16;

/// A symbol that a KSYMBOL record announces.
#[derive(Clone, Copy, Debug)]
pub struct Ksymbol<'a> {
    /// First address.
    pub address: u64,
    /// Size in bytes.
    pub length: u32,
    /// Whether it is a BPF program (`PERF_RECORD_KSYMBOL_TYPE_BPF`).
    pub bpf: bool,
    /// Its name.
    pub name: &'a [u8],
}

/// Symbols of generated code.
#[derive(Debug, Default)]
pub(super) struct KsymbolTable {
    symbols: Ranges<(Rc<str>, Rc<str>)>,
    added: u64,
}

impl KsymbolTable {
    pub(super) fn add(&mut self, symbol: &Ksymbol<'_>) {
        self.added += 1;
        if self.symbols.len() >= SYMBOLS_MAX {
            self.symbols.drop_first();
        }
        let name = String::from_utf8_lossy(symbol.name).into();
        let dso = if symbol.bpf { "[bpf]" } else { "[kernel]" };
        self.symbols.put(symbol.address, symbol.length.into(), (name, dso.into()));
    }

    /// Returns how many symbols were added: with each, an address may have another name.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    /// Returns start, name and dso of the symbol that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<(u64, Rc<str>, Rc<str>)> {
        let (start, (name, dso)) = self.symbols.find(address)?;
        Some((start, name.clone(), dso.clone()))
    }
}
