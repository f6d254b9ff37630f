//! Functions and variables in the symbol tables of an ELF file, as described in elf(5) and the LSB
//! (symbol versions).

use super::{Elf, Section};

/// A symbol table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolTable {
    /// `.symtab`: all symbols, in files that are not stripped.
    All,
    /// `.dynsym`: the symbols for dynamic linking.
    Dynamic,
}

/// A function that the file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfFunction<'a> {
    /// Its name; in [`SymbolTable::All`] it may contain the version, as in `f@@V2`.
    pub name: &'a [u8],
    /// Its address before relocation.
    pub address: u64,
    /// Size of its code in bytes; 0 if it is not known.
    pub size: u64,
    /// Whether it is a resolver that selects a function for the CPU when the program starts
    /// (`STT_GNU_IFUNC`).
    pub chooses: bool,
    /// Whether it is an older version, used only by programs linked against that version.
    pub superseded: bool,
}

/// A function or variable that the file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSymbol<'a> {
    /// Its name; in [`SymbolTable::All`] it may contain the version, as in `v@@V2`.
    pub name: &'a [u8],
    /// Kind of the function or variable.
    pub kind: ElfSymbolKind,
    /// Its address before relocation; of a thread-local variable, the offset in its block.
    pub address: u64,
    /// Its size in bytes; 0 if it is not known.
    pub size: u64,
    /// Whether it is an older version, used only by programs linked against that version.
    pub superseded: bool,
}

/// Kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfSymbolKind {
    /// A function (`STT_FUNC`).
    Function,
    /// A resolver that selects a function for the CPU when the program starts (`STT_GNU_IFUNC`).
    Resolver,
    /// A variable (`STT_OBJECT`).
    Variable,
    /// A thread-local variable (`STT_TLS`).
    ThreadLocal,
}

/// Maximum number of entries read from a table, enough for the largest programs.
const ENTRIES_MAX: usize = 1 << 22;
/// Maximum length of a name; longer ones are skipped. Bounds the work on crafted files, whose names
/// can all overlap.
const NAME_MAX: usize = 1024;
/// Maximum total length of the names read from a table: some tenths of a second.
const NAMES_MAX: usize = 256 << 20;

/// Maximum number of entries read from the dynamic section, which has some dozens.
const DYNAMIC_MAX: usize = 4096;

const ET_EXEC: u16 = 2;
const PT_DYNAMIC: u32 = 2;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;
const SHF_EXECINSTR: u64 = 4;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHT_GNU_VERSYM: u32 = 0x6fff_ffff;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_TLS: u8 = 6;
const STT_GNU_IFUNC: u8 = 10;
/// Bit of a version: not the default one.
const HIDDEN: u16 = 0x8000;

impl<'a> Elf<'a> {
    /// Returns the functions of a table, in table order; none if the table does not exist.
    pub fn functions(&self, table: SymbolTable) -> impl Iterator<Item = ElfFunction<'a>> + use<'a> {
        self.symbols(table).filter_map(|symbol| {
            let ElfSymbol { name, kind, address, size, superseded } = symbol;
            let chooses = kind == ElfSymbolKind::Resolver;
            (chooses || kind == ElfSymbolKind::Function).then_some(ElfFunction {
                name,
                address,
                size,
                chooses,
                superseded,
            })
        })
    }

    /// Returns the functions and variables of a table, in table order; none if the table does not
    /// exist.
    pub fn symbols(&self, table: SymbolTable) -> impl Iterator<Item = ElfSymbol<'a>> + use<'a> {
        let elf = *self;
        let found = self.table(table);
        let versions = match table {
            SymbolTable::All => &[],
            SymbolTable::Dynamic => self.versions().unwrap_or_default(),
        };
        let (entries, names) = found.unwrap_or_default();
        let size = if self.wide { 24 } else { 16 };
        let versions = versions.chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
        let versions = versions.map(Some).chain(std::iter::repeat(None));
        let entries = entries.chunks_exact(size).zip(versions).take(ENTRIES_MAX);
        let mut left = NAMES_MAX;
        let all = entries.filter_map(move |(entry, version)| elf.symbol(entry, names, version));
        let limited = all.take_while(move |symbol| {
            // The search for the end of a name that is too long has the cost of the longest one.
            let cost = if symbol.name.is_empty() { NAME_MAX } else { symbol.name.len() };
            left = left.saturating_sub(cost);
            left > 0
        });
        limited.filter(|symbol| !symbol.name.is_empty())
    }

    /// Returns the file type (`ET_*`).
    pub fn kind(&self) -> u16 {
        self.half(16).unwrap_or(0) as u16
    }

    /// Returns whether it is a program, which no process can map as a library: it has fixed
    /// addresses, or the linker marked it as a position-independent program (`DF_1_PIE`).
    pub fn is_program(&self) -> bool {
        let dynamic = self.segments().find(|segment| segment.kind == PT_DYNAMIC);
        let entries = dynamic.and_then(|segment| self.slice(segment.offset, segment.file_size));
        let mut entries = entries.unwrap_or_default().chunks_exact(16).take(DYNAMIC_MAX);
        let is_marked = |entry: &[u8]| {
            let half = |at: usize| Some(u64::from_ne_bytes(*entry.get(at..)?.first_chunk()?));
            half(0) == Some(DT_FLAGS_1) && half(8).is_some_and(|flags| flags & DF_1_PIE != 0)
        };
        self.kind() == ET_EXEC || self.wide && entries.any(is_marked)
    }

    /// Returns the machine type (`EM_*`).
    pub fn machine(&self) -> u16 {
        self.half(18).unwrap_or(0) as u16
    }

    /// Returns the file offset of the code at an address before relocation. A segment with code may
    /// contain data as well; sections distinguish them, if there are any.
    pub fn offset_of_code(&self, address: u64) -> Option<u64> {
        let mut code = self.sections().filter(|(_, one)| one.flags & SHF_EXECINSTR != 0).peekable();
        let is_in =
            |one: &Section<'_>| address.checked_sub(one.address).is_some_and(|by| by < one.size);
        let is_code = code.peek().is_none() || code.any(|(_, one)| is_in(&one));
        self.offset_in(super::EXECUTABLE, address).filter(|_| is_code)
    }

    /// Returns the file offset of the writable data at an address before relocation.
    pub fn offset_of_data(&self, address: u64) -> Option<u64> {
        self.offset_in(super::WRITABLE, address)
    }

    fn offset_in(&self, flag: u32, address: u64) -> Option<u64> {
        let loaded = self.segments().filter(|s| s.kind == super::LOAD && s.flags & flag != 0);
        loaded
            .filter_map(|s| {
                let by = address.checked_sub(s.address).filter(|by| *by < s.file_size)?;
                s.offset.checked_add(by)
            })
            .next()
    }

    fn table(&self, table: SymbolTable) -> Option<(&'a [u8], &'a [u8])> {
        let wanted = if table == SymbolTable::All { SHT_SYMTAB } else { SHT_DYNSYM };
        self.headers_of_sections().find_map(|at| {
            let entries = self.section_at(at)?;
            let names = self.section_at(self.header_of_section(self.link(at)?)?)?;
            (entries.kind == wanted).then_some((entries.bytes?, names.bytes?))
        })
    }

    fn versions(&self) -> Option<&'a [u8]> {
        let mut sections = self.headers_of_sections().filter_map(|at| self.section_at(at));
        sections.find(|section| section.kind == SHT_GNU_VERSYM)?.bytes
    }

    fn symbol(
        &self,
        entry: &'a [u8],
        names: &'a [u8],
        version: Option<u16>,
    ) -> Option<ElfSymbol<'a>> {
        let word4 = |at: usize| Some(u32::from_ne_bytes(*entry.get(at..)?.first_chunk()?));
        let word8 = |at: usize| Some(u64::from_ne_bytes(*entry.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u16::from_ne_bytes(*entry.get(at..)?.first_chunk()?));
        let (info, section, address, size) = match self.wide {
            true => (entry[4], half(6)?, word8(8)?, word8(16)?),
            false => (entry[12], half(14)?, u64::from(word4(4)?), u64::from(word4(8)?)),
        };
        let kind = match info & 0xf {
            STT_FUNC => ElfSymbolKind::Function,
            STT_GNU_IFUNC => ElfSymbolKind::Resolver,
            STT_OBJECT => ElfSymbolKind::Variable,
            STT_TLS => ElfSymbolKind::ThreadLocal,
            _ => return None,
        };
        // Section 0 marks symbols that are defined in other files.
        if section == 0 {
            return None;
        }
        let name = names.get(word4(0)? as usize..)?;
        let end = name.iter().take(NAME_MAX + 1).position(|byte| *byte == 0);
        let name = &name[..end.unwrap_or(0)];
        let superseded = version.is_some_and(|version| version & HIDDEN != 0);
        Some(ElfSymbol { name, kind, address, size, superseded })
    }
}
