//! The text of `/proc/kallsyms` as a table by address.
//!
//! The kernel generates that text for each reader, in 0.3 µs per line, and can only start at its
//! beginning: with some 120,000 to 250,000 lines it is the largest cost of a short run. Nothing is
//! therefore read before an address is looked up, and the part after the kernel's own code
//! (`_etext`: init code, data, modules) not before an address in it is. The kernel's own symbols
//! are in address order, which the kernel needs itself to find one; if they are not, everything is
//! read and sorted.
//!
//! A line is stored as it is, and parsed when it is needed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read};
use std::ops::Range;

use super::kallsyms_cache::KallsymsCache;
use crate::decode::print::Symbol;

/// Maximum number of bytes read, larger than any kernel's list; symbols beyond it have no names.
const SIZE_MAX: u64 = 256 << 20;

/// The symbols of the kernel and its modules.
#[derive(Default)]
pub(super) struct Kallsyms {
    /// The lines that have not been read yet, and the list of modules.
    unread: RefCell<Option<(Lines, String)>>,
    /// Cache of the kernel's own code, if there is one.
    cache: Option<KallsymsCache>,
    /// The kernel's own code, from its first symbol to its end; or everything.
    code: OnceCell<KallsymsTable>,
    rest: OnceCell<KallsymsTable>,
}

type Lines = BufReader<std::io::Take<Box<dyn Read>>>;

/// Symbols by address, ascending, one per address.
struct KallsymsTable {
    symbols: Vec<KallsymsEntry>,
    text: Vec<u8>,
    /// First address, and the address after the last, of modules by name.
    places: HashMap<String, (u64, u64)>,
    /// Ends of the kernel's own code: `_etext` and `_einittext`.
    text_ends: Vec<u64>,
    /// Whether the lines were in address order.
    is_sorted: bool,
    /// Whether no line is left unread.
    complete: bool,
}

/// Result of noting a line.
#[derive(Clone, Copy, Default)]
struct Noted {
    /// Whether it has a symbol that is needed: the line must stay.
    symbol: bool,
    ends_code: bool,
}

/// How far to read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    First,
    EndOfCode,
    End,
}

/// A symbol; its line is in `text`.
#[derive(Clone, Copy)]
struct KallsymsEntry {
    address: u64,
    start: u32,
    /// Length of the line in bytes.
    length: u32,
}

/// A parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KallsymsLine<'a> {
    kind: u8,
    name: &'a str,
    /// The module; None for the kernel itself.
    module: Option<&'a str>,
}

impl Kallsyms {
    /// Reads lines of `ADDRESS TYPE NAME [MODULE]` when they are needed; `modules` is the text of
    /// `/proc/modules`. Hidden addresses (0) and absolute symbols are ignored.
    pub(super) fn new(from: Box<dyn Read>, modules: String) -> Kallsyms {
        let lines = BufReader::with_capacity(1 << 16, from.take(SIZE_MAX));
        Kallsyms { unread: RefCell::new(Some((lines, modules))), ..Kallsyms::default() }
    }

    /// Uses a cache of the kernel's own code: loads what an earlier run saved, or saves it for a
    /// later one.
    pub(super) fn with_cache(self, cache: Option<KallsymsCache>) -> Kallsyms {
        Kallsyms { cache, ..self }
    }

    /// Returns the symbol at or before an address; None below the first symbol, and if nothing is
    /// known.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let table = self.table(address);
        Some(table.line(table.entry(address)?.0)?.name)
    }

    /// Returns the symbol that contains an address, as the kernel itself would name it; None
    /// between its parts.
    pub(super) fn find(&self, address: u64) -> Option<Symbol<'_>> {
        self.table(address).find(address)
    }

    /// Returns whether there is no symbol at all.
    pub(super) fn is_empty(&self) -> bool {
        self.code().symbols.is_empty()
    }

    /// Returns the part of the list that covers an address.
    fn table(&self, address: u64) -> &KallsymsTable {
        let code = self.code();
        let (Some(first), Some(last)) = (code.symbols.first(), code.symbols.last()) else {
            return code;
        };
        if code.complete || (first.address..last.address).contains(&address) {
            return code;
        }
        self.rest.get_or_init(|| {
            let mut table =
                KallsymsTable { text_ends: code.text_ends.clone(), ..KallsymsTable::default() };
            // The rest has no symbol between these two, and none that reaches there.
            for entry in [first, last] {
                table.take(code.text_of(*entry));
            }
            if let Some((mut lines, modules)) = self.unread.take() {
                table.read(&mut lines, &modules, Until::End);
            }
            table
        })
    }

    fn code(&self) -> &KallsymsTable {
        self.code.get_or_init(|| {
            let mut table = KallsymsTable::default();
            if let Some((lines, modules)) = &mut *self.unread.borrow_mut() {
                // The first symbol shows whether the kernel reveals its addresses now, and whether
                // it starts where it did when the cache was written.
                table.read(lines, modules, Until::First);
                let cached = self
                    .cache
                    .as_ref()
                    .and_then(KallsymsCache::load)
                    .and_then(KallsymsTable::of_code);
                if let Some(code) =
                    cached.filter(|code| code.first().is_some() && code.first() == table.first())
                {
                    return code;
                }
                table.read(lines, modules, Until::EndOfCode);
            }
            if let Some(cache) = &self.cache {
                table.save(cache);
            }
            table
        })
    }
}

impl KallsymsTable {
    /// Parses a text that [`KallsymsTable::save`] saved; None if it is incomplete.
    fn of_code(text: Vec<u8>) -> Option<KallsymsTable> {
        let mut table = KallsymsTable { text, ..KallsymsTable::default() };
        let mut start = 0;
        while let Some(length) = table.text.get(start..)?.iter().position(|byte| *byte == b'\n') {
            let end = start + length + 1;
            if table.note(start..end).ends_code {
                return Some(table);
            }
            start = end;
        }
        None
    }

    /// Saves the lines of the kernel's own code for the next run, if exactly these have been read.
    fn save(&self, cache: &KallsymsCache) {
        if let ([end], false) = (self.text_ends.as_slice(), self.complete) {
            // The line is not in the text if another symbol of its address precedes it.
            let end = format!("{end:x} T _etext\n");
            // If this fails, the next run reads the kernel's list again.
            let _ = cache.save(&[&self.text, end.as_bytes()]);
        }
    }

    /// Reads the remaining lines up to `until`. A read error counts as the end of the file.
    fn read(&mut self, lines: &mut Lines, modules: &str, until: Until) {
        let mut start = self.text.len();
        while lines.read_until(b'\n', &mut self.text).is_ok_and(|read| read > 0) {
            let ends_code = self.take_from(start);
            let there = match until {
                Until::First => !self.symbols.is_empty(),
                Until::EndOfCode => ends_code && self.is_sorted,
                Until::End => false,
            };
            if there {
                return;
            }
            start = self.text.len();
        }
        if !self.is_sorted {
            self.symbols.sort_by_key(|entry| entry.address);
            self.symbols.dedup_by_key(|entry| entry.address);
        }
        self.place_modules(modules);
        self.complete = true;
    }

    /// Returns the line of the first symbol.
    fn first(&self) -> Option<&[u8]> {
        self.symbols.first().map(|first| self.text_of(*first))
    }

    fn take(&mut self, line: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(line);
        self.take_from(start);
    }

    /// Notes the line at the end of the text, and removes it if it is not needed. Returns whether
    /// it is an end of the kernel's code.
    fn take_from(&mut self, start: usize) -> bool {
        let noted = self.note(start..self.text.len());
        if !noted.symbol {
            self.text.truncate(start);
        }
        noted.ends_code
    }

    /// Notes the content of a line of the text.
    fn note(&mut self, place: Range<usize>) -> Noted {
        let line = self.text.get(place.clone()).unwrap_or_default();
        let (Some(address), Ok(start)) = (address(line), place.start.try_into()) else {
            return Noted::default();
        };
        let last = self.symbols.last().map_or(0, |last| last.address);
        self.is_sorted &= last <= address;
        let ends_code = is_end(line);
        if ends_code {
            self.text_ends.push(address);
        }
        // If several names have one address, only the first in the list is used, as by the kernel
        // itself.
        let symbol = last != address;
        if symbol {
            self.symbols.push(KallsymsEntry { address, start, length: line.len() as u32 });
        }
        Noted { symbol, ends_code }
    }

    /// Parses lines of `NAME SIZE USES USERS STATE 0xADDRESS`.
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

    /// Returns the address after the last one that a symbol can cover: the end of its module, or of
    /// the kernel's code.
    fn end(&self, entry: &KallsymsEntry, line: &KallsymsLine<'_>) -> Option<u64> {
        let Some(module) = line.module else {
            let end = self.text_ends.iter().copied().filter(|end| *end >= entry.address).min();
            return end.filter(|_| line.is_code());
        };
        let &(start, end) = self.places.get(module)?;
        (start..end).contains(&entry.address).then_some(end)
    }

    /// Returns the end of the last symbol of code that the kernel generated, such as BPF programs.
    /// The list has no sizes, and the next symbol may be far away: it ends a page after its first
    /// address, rounded up to a page, as in `symbols__fixup_end()` of perf.
    fn end_of_generated(
        &self,
        entry: &KallsymsEntry,
        line: &KallsymsLine<'_>,
        behind: Option<KallsymsEntry>,
    ) -> Option<u64> {
        const PAGE: u64 = 4096;
        let is_generated = |module: &&str| *module == "bpf" || module.starts_with("__builtin__");
        let module = line.module.filter(is_generated)?;
        let next = behind.and_then(|behind| self.line(behind)?.module);
        let end = entry.address.checked_add(PAGE)?.checked_next_multiple_of(PAGE);
        end.filter(|_| next != Some(module))
    }

    /// Returns the last symbol at or before an address, and the one after it.
    fn entry(&self, address: u64) -> Option<(KallsymsEntry, Option<KallsymsEntry>)> {
        let behind = self.symbols.partition_point(|entry| entry.address <= address);
        let entry = *self.symbols.get(behind.checked_sub(1)?)?;
        Some((entry, self.symbols.get(behind).copied()))
    }

    fn line(&self, entry: KallsymsEntry) -> Option<KallsymsLine<'_>> {
        KallsymsLine::of(self.text_of(entry))
    }

    fn text_of(&self, entry: KallsymsEntry) -> &[u8] {
        let start = entry.start as usize;
        self.text.get(start..start + entry.length as usize).unwrap_or_default()
    }

    fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let (entry, behind) = self.entry(address)?;
        let (line, offset) = (self.line(entry)?, address - entry.address);
        let end = self.end(&entry, &line);
        let end = end.or_else(|| self.end_of_generated(&entry, &line, behind));
        if end.is_some_and(|end| address >= end) || (!line.is_code() && offset > 0) {
            return None;
        }
        let behind = behind.map(|behind| behind.address).into_iter().chain(end).min();
        Some(Symbol { name: line.name, offset, size: behind? - entry.address, module: line.module })
    }
}

impl Default for KallsymsTable {
    fn default() -> KallsymsTable {
        let (symbols, text, text_ends) = (Vec::new(), Vec::new(), Vec::new());
        KallsymsTable {
            symbols,
            text,
            places: HashMap::new(),
            text_ends,
            is_sorted: true,
            complete: false,
        }
    }
}

impl<'a> KallsymsLine<'a> {
    fn of(line: &'a [u8]) -> Option<KallsymsLine<'a>> {
        let text = std::str::from_utf8(line).ok()?.trim_end();
        let (_, rest) = text.split_once(' ')?;
        let (kind, rest) = rest.split_once(' ')?;
        let (name, module) = rest.split_once('\t').unwrap_or((rest, ""));
        let module = module.trim_start().strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let [kind] = *kind.as_bytes() else { return None };
        (!name.is_empty()).then_some(KallsymsLine { kind, name, module })
    }

    /// Returns whether it is code. Every address in code has a name; in data, which the kernel need
    /// not list completely, only the first address of a symbol has.
    fn is_code(&self) -> bool {
        matches!(self.kind, b't' | b'T' | b'w' | b'W')
    }
}

/// Returns the address of a line that has a symbol.
fn address(line: &[u8]) -> Option<u64> {
    const NONE: u8 = 0xff;
    const DIGITS: [u8; 256] = {
        let mut digits = [NONE; 256];
        let mut value = 0;
        while value < 16 {
            digits[b"0123456789abcdef"[value] as usize] = value as u8;
            value += 1;
        }
        digits
    };
    let (mut address, mut length) = (0_u64, 0);
    // By bytes and a table: splitting the text into words costs three times as much.
    for byte in line.iter().take(16) {
        let digit = DIGITS[usize::from(*byte)];
        if digit == NONE {
            break;
        }
        address = address << 4 | u64::from(digit);
        length += 1;
    }
    let [b' ', kind, b' ', first, ..] = line.get(length..)? else { return None };
    // `a` and `A` are offsets in a CPU's own area, not addresses.
    let is_symbol = address != 0 && !matches!(kind, b'a' | b'A') && !first.is_ascii_whitespace();
    is_symbol.then_some(address)
}

/// Returns whether the line is an end of the kernel's own code.
fn is_end(line: &[u8]) -> bool {
    // Two bytes are enough to exclude most lines.
    let is_such = |end: &[u8]| {
        line.ends_with(end) && line.get(line.len() - end.len() - 1).is_some_and(|b| *b == b' ')
    };
    line.ends_with(b"xt\n") && (is_such(b"_etext\n") || is_such(b"_einittext\n"))
}

#[cfg(test)]
mod tests;
