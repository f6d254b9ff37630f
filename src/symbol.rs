//! Names of the kernel's addresses, from `/proc/kallsyms`; and all that texts of events ask of the running kernel.
//!
//! The table is read at the first question: 10 MB of text that most runs never need. It stands for the kernel as
//! it was then; a module that comes later has no names.

mod running;

pub use running::RunningKernel;

use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};

use anyhow::Context as _;

use crate::decode::print::Symbol;

/// Longer than any kernel's list; what is beyond has no names.
const SIZE_MAX: u64 = 256 << 20;

/// The kernel's symbols, read when they are first asked for.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    table: OnceCell<Table>,
    trouble: RefCell<Option<String>>,
}

/// Symbols by address, ascending.
#[derive(Debug, Default)]
struct Table {
    symbols: Vec<Entry>,
    names: String,
    modules: Vec<String>,
}

/// A symbol; its name lies in `names`.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    start: u32,
    length: u16,
    /// Position in `modules`, counted from 1; 0 for the kernel itself.
    module: u16,
    /// Code, which is named all through; of data that the kernel does not list completely only the start is.
    code: bool,
}

impl KernelSymbols {
    /// The symbol that an address lies in or behind, without the offset; None below the first and where nothing is known.
    pub fn name(&self, address: u64) -> Option<&str> {
        let table = self.table();
        table.name(table.entry(address)?.0)
    }

    /// The symbol that an address lies in, as the kernel itself would name it: none between its own parts.
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        self.table().find(address)
    }

    /// Why there are no names, the first time that it is asked.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.take()
    }

    fn table(&self) -> &Table {
        self.table.get_or_init(|| {
            load().unwrap_or_else(|why| {
                self.trouble.replace(Some(format!("ksymbol: {why:#}")));
                Table::default()
            })
        })
    }
}

fn load() -> anyhow::Result<Table> {
    let file = File::open("/proc/kallsyms").context("failed to open /proc/kallsyms")?;
    let table = Table::read(file.take(SIZE_MAX)).context("failed to read /proc/kallsyms")?;
    anyhow::ensure!(
        !table.symbols.is_empty(),
        "the kernel hides its addresses; run as root, or set kernel.kptr_restrict to 0 or 1"
    );
    Ok(table)
}

impl Table {
    /// Takes lines of `ADDRESS TYPE NAME [MODULE]`; addresses that are hidden (0) and absolute symbols are left out.
    fn read(from: impl Read) -> std::io::Result<Table> {
        let mut table = Table::default();
        let (mut reader, mut line) = (BufReader::with_capacity(1 << 16, from), String::new());
        while reader.read_line(&mut line)? > 0 {
            // A line without a place in the table has no names, as none that is malformed.
            let _ = table.take(&line);
            line.clear();
        }
        // Of several names at one address the first in the list, as the kernel itself prints it.
        table.symbols.sort_by_key(|entry| entry.address);
        table.symbols.dedup_by_key(|entry| entry.address);
        Ok(table)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let (kind, name) = (words.next()?, words.next()?);
        // Of a CPU's own area `a` and `A` are offsets, no addresses.
        if address == 0 || matches!(kind, "a" | "A") {
            return None;
        }
        let module = match words.next() {
            Some(module) => self.module(module.trim_matches(['[', ']'])),
            None => 0,
        };
        let (start, length) = (self.names.len().try_into().ok()?, name.len().try_into().ok()?);
        let code = matches!(kind, "t" | "T" | "w" | "W");
        self.names.push_str(name);
        self.symbols.push(Entry { address, start, length, module, code });
        Some(())
    }

    /// The number of a module, whose symbols stand together.
    fn module(&mut self, name: &str) -> u16 {
        if self.modules.last().is_none_or(|last| last != name) && self.modules.len() < 0xffff {
            self.modules.push(name.to_owned());
        }
        self.modules.len() as u16
    }

    /// The last symbol at or before an address, and the one behind it.
    fn entry(&self, address: u64) -> Option<(Entry, Option<Entry>)> {
        let behind = self.symbols.partition_point(|entry| entry.address <= address);
        let entry = *self.symbols.get(behind.checked_sub(1)?)?;
        Some((entry, self.symbols.get(behind).copied()))
    }

    fn name(&self, entry: Entry) -> Option<&str> {
        let start = entry.start as usize;
        self.names.get(start..start + usize::from(entry.length))
    }

    fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let (entry, behind) = self.entry(address)?;
        let (name, offset) = (self.name(entry)?, address - entry.address);
        let ends_code = matches!(name, "_etext" | "_einittext");
        if ends_code || (!entry.code && offset > 0) {
            return None;
        }
        let module = usize::from(entry.module).checked_sub(1);
        Some(Symbol {
            name,
            offset,
            size: behind?.address - entry.address,
            module: module.and_then(|at| self.modules.get(at)).map(String::as_str),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "0000000000000000 A fixed_percpu_data\nffff2000 t later\nffff1000 T first\n\
        ffff1000 t alias\nffff2800 T _etext\nffff2900 D __start_rodata\n\
        ffff3000 t of_a_module\t[module]\nffff4000 t last\t[other]\nnonsense\n";

    #[test]
    fn an_address_has_the_name_of_the_symbol_it_lies_in() {
        let table = Table::read(LIST.as_bytes()).unwrap();
        for (address, name) in [
            (0xffff_0fff, None),
            (0xffff_1000, Some("first")),
            (0xffff_1fff, Some("first")),
            (0xffff_2000, Some("later")),
            (u64::MAX, Some("last")),
        ] {
            let entry = table.entry(address).and_then(|(entry, _)| table.name(entry));
            assert_eq!(entry, name, "{address:x}");
        }
    }

    #[test]
    fn a_symbol_has_a_size_and_a_module() {
        let table = Table::read(LIST.as_bytes()).unwrap();
        let symbol = |name, offset, size, module| Some(Symbol { name, offset, size, module });
        for (address, found) in [
            (0xffff_1010, symbol("first", 0x10, 0x1000, None)),
            (0xffff_2800, None),
            (0xffff_2900, symbol("__start_rodata", 0, 0x700, None)),
            (0xffff_2901, None),
            (0xffff_3004, symbol("of_a_module", 4, 0x1000, Some("module"))),
            (0xffff_4000, None),
        ] {
            assert_eq!(table.find(address), found, "{address:x}");
        }
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let table = Table::read(&b"0000000000000000 T first\n"[..]).unwrap();
        assert!(table.symbols.is_empty());
        assert_eq!(table.find(0), None);
    }
}
