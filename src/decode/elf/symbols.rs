//! The functions that a file's symbol tables name, as elf(5) and the LSB (symbol versions) describe them.

use super::Elf;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `.symtab`: everything, in files that were not stripped.
    All,
    /// `.dynsym`: what others may call.
    Dynamic,
}

/// A function that the file has itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name; in [`Table::All`] the version may stand in it, as in `f@@V2`.
    pub name: &'a [u8],
    /// Where it begins, before the object is moved to where it is mapped.
    pub address: u64,
    /// It is the one that chooses a function when the program starts, by which CPU it runs on (`STT_GNU_IFUNC`).
    pub chooses: bool,
    /// It is an older version, which only programs call that were linked with it.
    pub superseded: bool,
}

/// Entries that are read of a table: those of the largest programs.
const ENTRIES_MAX: usize = 1 << 22;
/// Bytes of a name that are read; what is longer is left out. All names of a table may be made to overlap.
const NAME_MAX: usize = 1024;

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const SHT_GNU_VERSYM: u32 = 0x6fff_ffff;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
/// Of a version: not the default one.
const HIDDEN: u16 = 0x8000;

impl<'a> Elf<'a> {
    /// The functions of a table, in its order; none if there is no such table.
    pub fn functions(&self, table: Table) -> impl Iterator<Item = Function<'a>> + use<'a> {
        let elf = *self;
        let found = self.table(table);
        let versions = match table {
            Table::All => &[],
            Table::Dynamic => self.versions().unwrap_or_default(),
        };
        let (entries, names) = found.unwrap_or_default();
        let size = if self.wide { 24 } else { 16 };
        let versions = versions.chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
        let versions = versions.map(Some).chain(std::iter::repeat(None));
        let entries = entries.chunks_exact(size).zip(versions).take(ENTRIES_MAX);
        entries.filter_map(move |(entry, version)| elf.function(entry, names, version))
    }

    /// The kind of file (`ET_*`).
    pub fn kind(&self) -> u16 {
        self.half(16).unwrap_or(0) as u16
    }

    /// The processor that it is for (`EM_*`).
    pub fn machine(&self) -> u16 {
        self.half(18).unwrap_or(0) as u16
    }

    /// Where in the file the code lies that is loaded to an address, before the object is moved.
    pub fn offset_of_code(&self, address: u64) -> Option<u64> {
        let code =
            self.segments().filter(|s| s.kind == super::LOAD && s.flags & super::EXECUTABLE != 0);
        code.filter_map(|s| {
            let by = address.checked_sub(s.address).filter(|by| *by < s.file_size)?;
            s.offset.checked_add(by)
        })
        .next()
    }

    fn table(&self, table: Table) -> Option<(&'a [u8], &'a [u8])> {
        let wanted = if table == Table::All { SHT_SYMTAB } else { SHT_DYNSYM };
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

    fn function(
        &self,
        entry: &'a [u8],
        names: &'a [u8],
        version: Option<u16>,
    ) -> Option<Function<'a>> {
        let word4 = |at: usize| Some(u32::from_ne_bytes(*entry.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u16::from_ne_bytes(*entry.get(at..)?.first_chunk()?));
        let (info, section, address) = match self.wide {
            true => (entry[4], half(6)?, u64::from_ne_bytes(*entry.get(8..)?.first_chunk()?)),
            false => (entry[12], half(14)?, u64::from(word4(4)?)),
        };
        let kind = info & 0xf;
        // Section 0 is where symbols of other files are.
        if section == 0 || !matches!(kind, STT_FUNC | STT_GNU_IFUNC) {
            return None;
        }
        let name = names.get(word4(0)? as usize..)?;
        let name = &name[..name.iter().take(NAME_MAX + 1).position(|byte| *byte == 0)?];
        (!name.is_empty()).then_some(Function {
            name,
            address,
            chooses: kind == STT_GNU_IFUNC,
            superseded: version.is_some_and(|version| version & HIDDEN != 0),
        })
    }
}
