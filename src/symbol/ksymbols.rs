//! Code that the kernel generates at run time: BPF programs, trampolines and slots of probes, known
//! from KSYMBOL records.
//!
//! Code that was removed keeps its name until other code replaces it: chains that were taken in it
//! are named later.

use std::collections::BTreeMap;
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
    symbols: Ranges<GeneratedSymbol>,
    /// First addresses, by the number of the symbol: the oldest first.
    by_age: BTreeMap<u64, u64>,
    added: u64,
    dropped: u64,
}

#[derive(Debug)]
struct GeneratedSymbol {
    name: Rc<str>,
    dso: Rc<str>,
    /// Value of `added` with this symbol.
    number: u64,
}

impl KsymbolTable {
    pub(super) fn add(&mut self, symbol: &Ksymbol<'_>) {
        if symbol.length == 0 {
            return;
        }
        self.added += 1;
        let name = String::from_utf8_lossy(symbol.name).into();
        let dso = if symbol.bpf { "[bpf]" } else { "[kernel]" }.into();
        let new = GeneratedSymbol { name, dso, number: self.added };
        for replaced in self.symbols.put(symbol.address, symbol.length.into(), new) {
            self.by_age.remove(&replaced.number);
        }
        self.by_age.insert(self.added, symbol.address);
        if self.by_age.len() > SYMBOLS_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.symbols.remove(oldest);
            self.dropped += 1;
        }
    }

    /// Returns how many symbols were dropped because of the limit, the oldest first.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how many symbols were added: with each, an address may have another name.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    /// Returns start, name and dso of the symbol that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<(u64, Rc<str>, Rc<str>)> {
        let (start, symbol) = self.symbols.find(address)?;
        Some((start, symbol.name.clone(), symbol.dso.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_symbols_are_dropped_and_counted() {
        let mut table = KsymbolTable::default();
        let most = SYMBOLS_MAX as u64;
        let add = |table: &mut KsymbolTable, address| {
            table.add(&Ksymbol { address, length: 0x100, bpf: true, name: b"bpf_prog_x" });
        };
        // From the highest address to the lowest; the first one is replaced.
        for number in 0..most {
            add(&mut table, (2 * most - number) << 12);
        }
        add(&mut table, (2 * most) << 12);
        assert_eq!((table.dropped(), table.by_age.len()), (0, SYMBOLS_MAX));
        add(&mut table, 0x1000);
        assert_eq!((table.dropped(), table.by_age.len()), (1, SYMBOLS_MAX));
        let is_known = |address| table.find(address).is_some();
        assert!(is_known(0x1000) && is_known((2 * most) << 12));
        assert!(!is_known((2 * most - 1) << 12) && is_known((2 * most - 2) << 12));
        assert_eq!(table.symbols.len(), SYMBOLS_MAX);
    }
}
