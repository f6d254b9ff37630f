//! Names of the kernel's addresses, from `/proc/kallsyms` and the records of symbols that come and go.
//!
//! The table is read at the first question: 10 MB of text that most runs never need. It stands for the kernel as it was
//! then; BPF programs and other code that is made later is known by its KSYMBOL records, a module that comes later has
//! no names.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::rc::Rc;

use anyhow::Context as _;

use super::made::{Made, MadeSymbol};
use crate::base::frame::Frame;
use crate::decode::print::Symbol;

/// Longer than any kernel's list; what is beyond has no names.
const SIZE_MAX: u64 = 256 << 20;

/// The kernel's symbols, read when they are first asked for.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    table: OnceCell<Table>,
    made: RefCell<Made>,
    dsos: OnceCell<Dsos>,
    trouble: RefCell<Option<String>>,
}

/// What frames name as their file: the kernel itself, and each module by its position in the table.
#[derive(Debug)]
struct Dsos {
    kernel: Rc<str>,
    modules: Vec<Rc<str>>,
}

/// Symbols by address, ascending.
#[derive(Debug, Default)]
struct Table {
    symbols: Vec<Entry>,
    names: String,
    modules: Vec<String>,
    /// First address and the one behind the last, of modules by name.
    places: HashMap<String, (u64, u64)>,
    /// Where the kernel's own code ends: that of its running, and that of its start.
    text_ends: Vec<u64>,
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

    /// A KSYMBOL record: code was made.
    pub fn on_made(&self, symbol: &MadeSymbol<'_>) {
        self.made.borrow_mut().take(symbol);
    }

    /// Changes when an address may have another name than before.
    pub fn version(&self) -> u64 {
        self.made.borrow().taken()
    }

    /// The frame of an address in a call chain. `caller`: the address is one to return to.
    pub fn frame(&self, address: u64, caller: bool) -> Frame {
        let asked = address.saturating_sub(u64::from(caller));
        let mut frame = Frame { address, kernel: true, ..Frame::default() };
        if let Some((start, name, dso)) = self.made.borrow().find(asked) {
            frame.offset = address - start;
            (frame.symbol, frame.dso) = (Some(name), Some(dso));
            return frame;
        }
        let table = self.table();
        let dsos = self.dsos.get_or_init(|| Dsos::of(table));
        frame.dso = Some(dsos.kernel.clone());
        let found = table.find(asked).and_then(|found| Some((found, table.entry(asked)?.0)));
        if let Some((found, entry)) = found {
            frame.symbol = Some(found.name.into());
            frame.offset = address - entry.address;
            let module = usize::from(entry.module).checked_sub(1).and_then(|m| dsos.modules.get(m));
            frame.dso = Some(module.unwrap_or(&dsos.kernel).clone());
        }
        frame
    }

    /// Why there are no names, the first time that it is asked.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.take()
    }

    fn table(&self) -> &Table {
        self.table.get_or_init(|| {
            load().unwrap_or_else(|why| {
                self.trouble.replace(Some(format!("names of the kernel: {why:#}")));
                Table::default()
            })
        })
    }
}

impl Dsos {
    fn of(table: &Table) -> Dsos {
        let bracketed = |name: &String| format!("[{name}]").into();
        Dsos { kernel: "[kernel]".into(), modules: table.modules.iter().map(bracketed).collect() }
    }
}

fn load() -> anyhow::Result<Table> {
    let file = File::open("/proc/kallsyms").context("failed to open /proc/kallsyms")?;
    let mut table = Table::read(file.take(SIZE_MAX)).context("failed to read /proc/kallsyms")?;
    // A kernel that loads no modules has no such file.
    table.place_modules(&std::fs::read_to_string("/proc/modules").unwrap_or_default());
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
        let (mut reader, mut line) = (BufReader::with_capacity(1 << 16, from), Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 {
            // A line without a place in the table has no names, as none that is malformed.
            let _ = table.take(&line);
            line.clear();
        }
        // Of several names at one address the first in the list, as the kernel itself prints it.
        table.symbols.sort_by_key(|entry| entry.address);
        table.symbols.dedup_by_key(|entry| entry.address);
        Ok(table)
    }

    /// Takes lines of `NAME SIZE USES USERS STATE 0xADDRESS`.
    fn place_modules(&mut self, list: &str) {
        let place = |line: &str| {
            let mut words = line.split_whitespace();
            let (name, size) = (words.next()?, words.next()?.parse::<u64>().ok()?);
            let address = words.nth(3)?.strip_prefix("0x")?;
            let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)?;
            Some((name.to_owned(), (address, address.saturating_add(size))))
        };
        self.places = list.lines().filter_map(place).collect();
    }

    /// The address behind the last that may be a symbol's: where the module ends that it lies in, or the kernel's code.
    fn end(&self, entry: &Entry) -> Option<u64> {
        let Some(module) = usize::from(entry.module).checked_sub(1) else {
            let end = self.text_ends.iter().copied().filter(|end| *end >= entry.address).min();
            return end.filter(|_| entry.code);
        };
        let &(start, end) = self.places.get(self.modules.get(module)?)?;
        (start..end).contains(&entry.address).then_some(end)
    }

    /// By bytes: there are some 150,000 lines, and words as Rust's text has them cost three times as much.
    fn take(&mut self, line: &[u8]) -> Option<()> {
        let line = line.trim_ascii_end();
        let (digits, rest) = line.split_at_checked(line.iter().position(|b| *b == b' ')?)?;
        let [b' ', kind, b' ', rest @ ..] = rest else { return None };
        let address = hexadecimal(digits)?;
        // Of a CPU's own area `a` and `A` are offsets, no addresses.
        if address == 0 || matches!(kind, b'a' | b'A') {
            return None;
        }
        let end = rest.iter().position(|b| *b == b'\t').unwrap_or(rest.len());
        let (name, module) = rest.split_at_checked(end)?;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        let module = match module.trim_ascii_start() {
            [b'[', module @ .., b']'] => self.module(std::str::from_utf8(module).ok()?),
            _ => 0,
        };
        let (start, length) = (self.names.len().try_into().ok()?, name.len().try_into().ok()?);
        let code = matches!(kind, b't' | b'T' | b'w' | b'W');
        if matches!(name, "_etext" | "_einittext") && module == 0 {
            self.text_ends.push(address);
        }
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
        let end = self.end(&entry);
        if end.is_some_and(|end| address >= end) || (!entry.code && offset > 0) {
            return None;
        }
        let behind = behind.map(|behind| behind.address).into_iter().chain(end).min();
        let module = usize::from(entry.module).checked_sub(1);
        Some(Symbol {
            name,
            offset,
            size: behind? - entry.address,
            module: module.and_then(|at| self.modules.get(at)).map(String::as_str),
        })
    }
}

/// A number of hexadecimal digits and nothing else.
fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digit = |value: u64, byte: &u8| {
        let digit = char::from(*byte).to_digit(16)?;
        (value >> 60 == 0).then_some(value << 4 | u64::from(digit))
    };
    digits.first()?;
    digits.iter().try_fold(0, digit)
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
    fn the_last_function_ends_where_its_module_or_the_kernels_code_does() {
        let list = "ffff1000 T first\nffff1800 T last\nffff2000 t alias_of_the_end\nffff2000 T _etext\n\
            ffff3000 t of_a_module\t[module]\nffff8000 t other\t[other]\nffff9000 t without_a_place\t[unplaced]\n\
            ffffa000 b bss\n";
        let mut table = Table::read(list.as_bytes()).unwrap();
        table.place_modules(
            "module 8192 1 other, Live 0xffff2800\nother 4096 0 - Live 0xffff8000\nnonsense\n",
        );
        let at = |address| table.find(address).map(|found| (found.name, found.size));
        for (address, found) in [
            (0xffff_1fff, Some(("last", 0x800))),
            (0xffff_2000, None),
            (0xffff_2fff, None),
            (0xffff_47ff, Some(("of_a_module", 0x1800))),
            (0xffff_4800, None),
            (0xffff_8fff, Some(("other", 0x1000))),
            (0xffff_9fff, Some(("without_a_place", 0x1000))),
        ] {
            assert_eq!(at(address), found, "{address:x}");
        }
    }

    fn known() -> KernelSymbols {
        let table = OnceCell::from(Table::read(LIST.as_bytes()).unwrap());
        KernelSymbols { table, ..KernelSymbols::default() }
    }

    #[test]
    fn a_caller_lies_in_the_function_in_front_of_the_address() {
        let kernel = known();
        let named = |address, caller| {
            let frame = kernel.frame(address, caller);
            assert!(frame.kernel && frame.address == address);
            (frame.symbol.unwrap().to_string(), frame.offset, frame.dso.unwrap().to_string())
        };
        let in_kernel = |name: &str, offset| (name.to_owned(), offset, "[kernel]".to_owned());
        assert_eq!(named(0xffff_2000, false), in_kernel("later", 0));
        assert_eq!(named(0xffff_2000, true), in_kernel("first", 0x1000));
        assert_eq!(named(0xffff_3004, false).2, "[module]");
        let unnamed = kernel.frame(0x1000, false);
        assert_eq!((unnamed.symbol, unnamed.dso.as_deref()), (None, Some("[kernel]")));
    }

    #[test]
    fn what_was_made_later_stands_above_the_list() {
        let kernel = known();
        let program =
            MadeSymbol { address: 0xffff_1800, length: 0x100, bpf: true, name: b"bpf_prog_x" };
        kernel.on_made(&program);
        let frame = kernel.frame(0xffff_1810, false);
        assert_eq!(frame.symbol.as_deref(), Some("bpf_prog_x"));
        assert_eq!((frame.offset, frame.dso.as_deref()), (0x10, Some("[bpf]")));
        assert_eq!(kernel.frame(0xffff_1900, false).symbol.as_deref(), Some("first"));
        let before = kernel.version();
        kernel.on_made(&MadeSymbol { name: b"bpf_prog_y", ..program });
        assert_ne!(kernel.version(), before, "who remembers names has to ask again");
        assert_eq!(kernel.frame(0xffff_1810, false).symbol.as_deref(), Some("bpf_prog_y"));
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        let table = Table::read(&b"0000000000000000 T first\n"[..]).unwrap();
        assert!(table.symbols.is_empty());
        assert_eq!(table.find(0), None);
    }
}
