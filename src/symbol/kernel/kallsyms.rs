//! The text of `/proc/kallsyms` as a table by address.
//!
//! The kernel makes that text anew for whoever reads it, 0.3 µs a line, and can begin nowhere but at its start: with some
//! 120,000 to 250,000 lines it is what costs a short run most. So nothing is read before an address is asked for; the part behind the
//! kernel's own code (`_etext`: code of its start, data, modules) not before one there is. The kernel's own symbols come in the
//! order of their addresses, which it needs itself to find one; where they do not, all is read and sorted.
//!
//! A line is kept as it is and taken apart when it is asked for.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read};
use std::ops::Range;

use super::kept::Kept;
use crate::decode::print::Symbol;

/// Longer than any kernel's list; what is beyond has no names.
const SIZE_MAX: u64 = 256 << 20;

/// The symbols of the kernel and its modules.
#[derive(Default)]
pub(super) struct Kallsyms {
    /// What has not been read yet, and with it the list of modules.
    unread: RefCell<Option<(Lines, String)>>,
    /// Where the kernel's own code may stand already.
    kept: Option<Kept>,
    /// The kernel's own code, from its first symbol to its end; or everything.
    code: OnceCell<Table>,
    rest: OnceCell<Table>,
}

type Lines = BufReader<std::io::Take<Box<dyn Read>>>;

/// Symbols by address, ascending, one an address.
struct Table {
    symbols: Vec<Entry>,
    text: Vec<u8>,
    /// First address and the one behind the last, of modules by name.
    places: HashMap<String, (u64, u64)>,
    /// Where the kernel's own code ends: that of its running, and that of its start.
    text_ends: Vec<u64>,
    /// Whether the lines came in the order of their addresses.
    is_sorted: bool,
    /// Whether no line is left that is not here.
    complete: bool,
}

/// What a line was.
#[derive(Clone, Copy, Default)]
struct Noted {
    /// A symbol that is needed: the line has to stay.
    symbol: bool,
    ends_code: bool,
}

/// How far is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    First,
    EndOfCode,
    End,
}

/// A symbol; its line is in `text`.
#[derive(Clone, Copy)]
struct Entry {
    address: u64,
    start: u32,
    /// Bytes up to the line's end.
    length: u32,
}

/// A line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'a> {
    kind: u8,
    name: &'a str,
    /// The module; the kernel itself has none.
    module: Option<&'a str>,
}

impl Kallsyms {
    /// Takes lines of `ADDRESS TYPE NAME [MODULE]` when they are needed; `modules` is the text of `/proc/modules`. Addresses that
    /// are hidden (0) and absolute symbols are left out.
    pub(super) fn new(from: Box<dyn Read>, modules: String) -> Kallsyms {
        let lines = BufReader::with_capacity(1 << 16, from.take(SIZE_MAX));
        Kallsyms { unread: RefCell::new(Some((lines, modules))), ..Kallsyms::default() }
    }

    /// The same where an earlier run may have kept the kernel's own code, and a later one will look for it.
    pub(super) fn keep(self, kept: Option<Kept>) -> Kallsyms {
        Kallsyms { kept, ..self }
    }

    /// The symbol that an address lies in or behind; None below the first and where nothing is known.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let table = self.table(address);
        Some(table.line(table.entry(address)?.0)?.name)
    }

    /// The symbol that an address lies in, as the kernel itself would name it: none between its own parts.
    pub(super) fn find(&self, address: u64) -> Option<Symbol<'_>> {
        self.table(address).find(address)
    }

    /// Whether there is no symbol at all.
    pub(super) fn is_empty(&self) -> bool {
        self.code().symbols.is_empty()
    }

    /// The part of the list that knows of an address.
    fn table(&self, address: u64) -> &Table {
        let code = self.code();
        let (Some(first), Some(last)) = (code.symbols.first(), code.symbols.last()) else {
            return code;
        };
        if code.complete || (first.address..last.address).contains(&address) {
            return code;
        }
        self.rest.get_or_init(|| {
            let mut table = Table { text_ends: code.text_ends.clone(), ..Table::default() };
            // Between them nothing of the rest lies, and nothing of it reaches there.
            for entry in [first, last] {
                table.take(code.text_of(*entry));
            }
            if let Some((mut lines, modules)) = self.unread.take() {
                table.read(&mut lines, &modules, Until::End);
            }
            table
        })
    }

    fn code(&self) -> &Table {
        self.code.get_or_init(|| {
            let mut table = Table::default();
            if let Some((lines, modules)) = &mut *self.unread.borrow_mut() {
                // The kernel is asked whether it shows its addresses now, and begins where it did then.
                table.read(lines, modules, Until::First);
                let kept = self.kept.as_ref().and_then(Kept::load).and_then(Table::of_code);
                if let Some(code) =
                    kept.filter(|code| code.first().is_some() && code.first() == table.first())
                {
                    return code;
                }
                table.read(lines, modules, Until::EndOfCode);
            }
            if let Some(kept) = &self.kept {
                table.keep(kept);
            }
            table
        })
    }
}

impl Table {
    /// The table of a text that [`Table::keep`] kept; None of one that was cut.
    fn of_code(text: Vec<u8>) -> Option<Table> {
        let mut table = Table { text, ..Table::default() };
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

    /// Keeps the lines of the kernel's own code for the next run, unless there is more, or nothing.
    fn keep(&self, kept: &Kept) {
        if let ([end], false) = (self.text_ends.as_slice(), self.complete) {
            // It may have stood behind another symbol of its address.
            let end = format!("{end:x} T _etext\n");
            // Where that fails, the next run asks the kernel again.
            let _ = kept.save(&[&self.text, end.as_bytes()]);
        }
    }

    /// Reads the lines that are left up to there. A file that cannot be read any further ends there.
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

    /// The line of the first symbol.
    fn first(&self) -> Option<&[u8]> {
        self.symbols.first().map(|first| self.text_of(*first))
    }

    fn take(&mut self, line: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(line);
        self.take_from(start);
    }

    /// Takes the line at the end of the text, which is removed again if it is not needed. Whether it says where the kernel's code
    /// ends.
    fn take_from(&mut self, start: usize) -> bool {
        let noted = self.note(start..self.text.len());
        if !noted.symbol {
            self.text.truncate(start);
        }
        noted.ends_code
    }

    /// Notes what a line of the text says.
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
        // Of several names at one address the first in the list, as the kernel itself prints it.
        let symbol = last != address;
        if symbol {
            self.symbols.push(Entry { address, start, length: line.len() as u32 });
        }
        Noted { symbol, ends_code }
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
    fn end(&self, entry: &Entry, line: &Line<'_>) -> Option<u64> {
        let Some(module) = line.module else {
            let end = self.text_ends.iter().copied().filter(|end| *end >= entry.address).min();
            return end.filter(|_| line.is_code());
        };
        let &(start, end) = self.places.get(module)?;
        (start..end).contains(&entry.address).then_some(end)
    }

    /// The last symbol at or before an address, and the one behind it.
    fn entry(&self, address: u64) -> Option<(Entry, Option<Entry>)> {
        let behind = self.symbols.partition_point(|entry| entry.address <= address);
        let entry = *self.symbols.get(behind.checked_sub(1)?)?;
        Some((entry, self.symbols.get(behind).copied()))
    }

    fn line(&self, entry: Entry) -> Option<Line<'_>> {
        Line::of(self.text_of(entry))
    }

    fn text_of(&self, entry: Entry) -> &[u8] {
        let start = entry.start as usize;
        self.text.get(start..start + entry.length as usize).unwrap_or_default()
    }

    fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let (entry, behind) = self.entry(address)?;
        let (line, offset) = (self.line(entry)?, address - entry.address);
        let end = self.end(&entry, &line);
        if end.is_some_and(|end| address >= end) || (!line.is_code() && offset > 0) {
            return None;
        }
        let behind = behind.map(|behind| behind.address).into_iter().chain(end).min();
        Some(Symbol { name: line.name, offset, size: behind? - entry.address, module: line.module })
    }
}

impl Default for Table {
    fn default() -> Table {
        let (symbols, text, text_ends) = (Vec::new(), Vec::new(), Vec::new());
        Table { symbols, text, places: HashMap::new(), text_ends, is_sorted: true, complete: false }
    }
}

impl<'a> Line<'a> {
    fn of(line: &'a [u8]) -> Option<Line<'a>> {
        let text = std::str::from_utf8(line).ok()?.trim_end();
        let (_, rest) = text.split_once(' ')?;
        let (kind, rest) = rest.split_once(' ')?;
        let (name, module) = rest.split_once('\t').unwrap_or((rest, ""));
        let module = module.trim_start().strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let [kind] = *kind.as_bytes() else { return None };
        (!name.is_empty()).then_some(Line { kind, name, module })
    }

    /// Code is named all through; of data, which the kernel need not list completely, only the start is.
    fn is_code(&self) -> bool {
        matches!(self.kind, b't' | b'T' | b'w' | b'W')
    }
}

/// The address of a line that is one of a symbol.
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
    // By bytes and a table: words as Rust's text has them cost three times as much.
    for byte in line.iter().take(16) {
        let digit = DIGITS[usize::from(*byte)];
        if digit == NONE {
            break;
        }
        address = address << 4 | u64::from(digit);
        length += 1;
    }
    let [b' ', kind, b' ', first, ..] = line.get(length..)? else { return None };
    // Of a CPU's own area `a` and `A` are offsets, no addresses.
    let is_symbol = address != 0 && !matches!(kind, b'a' | b'A') && !first.is_ascii_whitespace();
    is_symbol.then_some(address)
}

/// Whether the line tells an end of the kernel's own code.
fn is_end(line: &[u8]) -> bool {
    // Most lines are known by two bytes to be others.
    let is_such = |end: &[u8]| {
        line.ends_with(end) && line.get(line.len() - end.len() - 1).is_some_and(|b| *b == b' ')
    };
    line.ends_with(b"xt\n") && (is_such(b"_etext\n") || is_such(b"_einittext\n"))
}

#[cfg(test)]
mod tests;
