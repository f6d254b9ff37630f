//! Segments, sections, build-id and debug link of an ELF file.
//!
//! Supports both classes, in this machine's byte order, as described in elf(5). Nothing is cached:
//! each call parses the bytes. Offsets outside the file result in None.
//!
//! The files are untrusted and their tables may overlap, so each table is read up to a limit that
//! is far beyond that of real files.

use crate::base::text::unescape::until_nul;
use std::ops::Range;

pub mod symbols;
#[cfg(test)]
mod tests;
pub mod unwind_index;
pub mod usdt;

/// An executable, library, object file or debug file.
#[derive(Clone, Copy, Debug)]
pub struct Elf<'a> {
    bytes: &'a [u8],
    /// Class: addresses have 8 bytes instead of 4.
    wide: bool,
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `PT_*`.
    pub kind: u32,
    /// `PF_*`.
    pub flags: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Address in memory, before relocation.
    pub address: u64,
    /// Size in the file, in bytes.
    pub file_size: u64,
    /// Size in memory, in bytes: that in the file, and zeros behind it.
    pub size: u64,
}

/// A section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// `SHT_*`.
    pub kind: u32,
    /// `SHF_*`.
    pub flags: u64,
    /// Address in memory, before relocation; 0 if the section is not loaded.
    pub address: u64,
    /// Size in memory, in bytes.
    pub size: u64,
    /// Its bytes in the file; None if the file does not contain them (`SHT_NOBITS`), as in a debug
    /// file.
    pub bytes: Option<&'a [u8]>,
}

/// `PT_LOAD`.
pub const LOAD: u32 = 1;
/// `PT_NOTE`.
pub const NOTE: u32 = 4;
/// `PF_X`.
pub const EXECUTABLE: u32 = 1;
/// `PF_W`.
pub const WRITABLE: u32 = 2;
/// `SHF_COMPRESSED`.
pub const COMPRESSED: u64 = 0x800;

/// Maximum number of sections, and of segments.
const HEADERS_MAX: u64 = 1 << 16;
/// Maximum length of a section name in bytes; longer names are truncated.
const NAME_MAX: usize = 256;
/// Maximum total size of the notes that are searched for the build-id.
const NOTES_MAX: usize = 64 << 10;

const NOBITS: u32 = 8;
const SHT_NOTE: u32 = 7;
const NT_GNU_BUILD_ID: u32 = 3;
/// `PN_XNUM` and `SHN_XINDEX`: the actual number is in the first section header.
const EXTENDED: u64 = 0xffff;

impl<'a> Elf<'a> {
    /// Returns None unless `bytes` begin with an ELF header in this machine's byte order.
    pub fn new(bytes: &'a [u8]) -> Option<Elf<'a>> {
        const NATIVE: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
        let wide = match bytes {
            [0x7f, b'E', b'L', b'F', 2, NATIVE, ..] => true,
            [0x7f, b'E', b'L', b'F', 1, NATIVE, ..] => false,
            _ => return None,
        };
        (bytes.len() >= if wide { 64 } else { 52 }).then_some(Elf { bytes, wide })
    }

    /// Returns whether addresses have 64 bits.
    pub fn is_wide(&self) -> bool {
        self.wide
    }

    /// Returns the program headers, in file order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + use<'a> {
        let elf = *self;
        let (table, size, count) = match self.wide {
            true => (self.word8(32), self.half(54), self.half(56)),
            false => (self.word4(28), self.half(42), self.half(44)),
        };
        let count = match count {
            Some(EXTENDED) => self.header_of_section(0).and_then(|at| elf.info(at)),
            count => count,
        };
        // A header below the minimum size does not contain all fields.
        let least = if self.wide { 56 } else { 32 };
        let (table, size) = (table.unwrap_or(0), size.filter(|size| *size >= least));
        let (size, count) = (size.unwrap_or(0), size.and(count));
        let count = count.unwrap_or(0).min(HEADERS_MAX);
        (0..count).map_while(move |i| elf.segment(table.checked_add(i * size)?))
    }

    /// Returns the sections with their names, in file order.
    pub fn sections(&self) -> impl Iterator<Item = (&'a [u8], Section<'a>)> + use<'a> {
        let elf = *self;
        let names = self.section_names().unwrap_or_default();
        self.headers_of_sections().map_while(move |at| {
            let name = names.get(elf.word4(at)? as usize..).unwrap_or_default();
            let name = until_nul(name.get(..NAME_MAX).unwrap_or(name));
            Some((name, elf.section_at(at)?))
        })
    }

    /// Returns the first section with this name.
    pub fn section(&self, name: &str) -> Option<Section<'a>> {
        self.sections().find(|(found, _)| *found == name.as_bytes()).map(|(_, section)| section)
    }

    /// Returns the address, before relocation, of the byte at this file offset.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let load = self.segments().filter(|segment| segment.kind == LOAD);
        let holds = |s: &Segment| offset.checked_sub(s.offset).is_some_and(|by| by < s.file_size);
        // Two segments may map the same byte of the file; prefer an executable one.
        let (mut any, mut executable) = (None, None);
        for segment in load.filter(holds) {
            let address = segment.address.checked_add(offset - segment.offset);
            any = any.or(address);
            if segment.flags & EXECUTABLE != 0 {
                executable = executable.or(address);
            }
        }
        executable.or(any)
    }

    /// Returns the build-id from the linker's note.
    pub fn build_id(&self) -> Option<&'a [u8]> {
        let of_segments = self.segments().filter(|segment| segment.kind == NOTE);
        let of_segments = of_segments.filter_map(|s| self.slice(s.offset, s.file_size));
        let elf = *self;
        // A debug file does not contain the segments' bytes, but keeps the section.
        let of_sections = self.headers_of_sections().map_while(move |at| elf.section_at(at));
        let of_sections = of_sections.filter(|section| section.kind == SHT_NOTE);
        let of_sections = of_sections.filter_map(|section| section.bytes);
        let mut left = NOTES_MAX;
        let within = |notes: &'a [u8]| {
            let notes = notes.get(..left).unwrap_or(notes);
            left -= notes.len();
            (!notes.is_empty()).then_some(notes)
        };
        of_segments
            .chain(of_sections)
            .filter(|n| !n.is_empty())
            .map_while(within)
            .find_map(build_id_in)
    }

    /// Returns the name of the file with the debug information, and the CRC of its contents, from
    /// `.gnu_debuglink`.
    pub fn debug_link(&self) -> Option<(&'a [u8], u32)> {
        let bytes = self.section(".gnu_debuglink")?.bytes?;
        let name = until_nul(bytes);
        let crc = bytes.get((name.len() + 1).next_multiple_of(4)..)?.first_chunk()?;
        (!name.is_empty()).then_some((name, u32::from_ne_bytes(*crc)))
    }

    /// Returns the file ranges of the ELF header, the section header table and the section names.
    pub fn outline(&self) -> Option<[Range<usize>; 3]> {
        let first = usize::try_from(self.header_of_section(0)?).ok()?;
        let size = self.half(if self.wide { 58 } else { 46 })?;
        let count = self.section_count()?.min(HEADERS_MAX);
        let table = first..first.checked_add(usize::try_from(size.checked_mul(count)?).ok()?)?;
        let header = 0..if self.wide { 64 } else { 52 };
        Some([header, table, self.range_of(self.section_names()?)?])
    }

    /// Returns the uncompressed size of a compressed section (`SHF_COMPRESSED`), from its header.
    pub fn unpacked_size(&self, section: &[u8]) -> Option<u64> {
        match self.wide {
            true => section.get(8..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
            false => section.get(4..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into()),
        }
    }

    /// Returns the file range of a part of the file's bytes.
    pub fn range_of(&self, part: &[u8]) -> Option<Range<usize>> {
        let start = (part.as_ptr() as usize).checked_sub(self.bytes.as_ptr() as usize)?;
        Some(start..start.checked_add(part.len())?)
    }

    fn headers_of_sections(&self) -> impl Iterator<Item = u64> + use<'a> {
        let elf = *self;
        let count = self.section_count().unwrap_or(0).min(HEADERS_MAX);
        (0..count).map_while(move |i| elf.header_of_section(i))
    }

    fn section_count(&self) -> Option<u64> {
        // 0 also means that the number does not fit the field, if there is a table at all.
        match self.half(if self.wide { 60 } else { 48 })? {
            0 => self.size(self.header_of_section(0)?),
            count => Some(count),
        }
    }

    fn section_names(&self) -> Option<&'a [u8]> {
        let index = match self.half(if self.wide { 62 } else { 50 })? {
            EXTENDED => self.link(self.header_of_section(0)?)?,
            index => index,
        };
        self.section_at(self.header_of_section(index)?)?.bytes
    }

    fn header_of_section(&self, index: u64) -> Option<u64> {
        let (table, size) = match self.wide {
            true => (self.word8(40)?, self.half(58).filter(|size| *size >= 64)?),
            false => (self.word4(32)?, self.half(46).filter(|size| *size >= 40)?),
        };
        let at = table.checked_add(index.checked_mul(size)?)?;
        (table != 0 && at < self.bytes.len() as u64).then_some(at)
    }

    fn section_at(&self, at: u64) -> Option<Section<'a>> {
        let kind = self.word4(at.checked_add(4)?)?;
        let (flags, address, offset) = match self.wide {
            true => (self.word8(at + 8)?, self.word8(at + 16)?, self.word8(at + 24)?),
            false => (self.word4(at + 8)?, self.word4(at + 12)?, self.word4(at + 16)?),
        };
        let (kind, size) = (kind as u32, self.size(at)?);
        let bytes = if kind == NOBITS { None } else { self.slice(offset, size) };
        Some(Section { kind, flags, address, size, bytes })
    }

    fn size(&self, at: u64) -> Option<u64> {
        if self.wide { self.word8(at.checked_add(32)?) } else { self.word4(at.checked_add(20)?) }
    }

    fn link(&self, at: u64) -> Option<u64> {
        self.word4(at.checked_add(if self.wide { 40 } else { 24 })?)
    }

    fn info(&self, at: u64) -> Option<u64> {
        self.word4(at.checked_add(if self.wide { 44 } else { 28 })?)
    }

    fn segment(&self, at: u64) -> Option<Segment> {
        let kind = self.word4(at)? as u32;
        let narrow = |by: u64| self.word4(at.checked_add(by)?);
        let wide = |by: u64| self.word8(at.checked_add(by)?);
        Some(match self.wide {
            true => Segment {
                kind,
                flags: narrow(4)? as u32,
                offset: wide(8)?,
                address: wide(16)?,
                file_size: wide(32)?,
                size: wide(40)?,
            },
            false => Segment {
                kind,
                flags: narrow(24)? as u32,
                offset: narrow(4)?,
                address: narrow(8)?,
                file_size: narrow(16)?,
                size: narrow(20)?,
            },
        })
    }

    fn slice(&self, offset: u64, size: u64) -> Option<&'a [u8]> {
        self.bytes.get(usize::try_from(offset).ok()?..)?.get(..usize::try_from(size).ok()?)
    }

    fn half(&self, at: u64) -> Option<u64> {
        self.slice(at, 2)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes).into())
    }

    fn word4(&self, at: u64) -> Option<u64> {
        self.slice(at, 4)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into())
    }

    fn word8(&self, at: u64) -> Option<u64> {
        self.slice(at, 8)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

/// Returns the build-id in a list of notes.
fn build_id_in(notes: &[u8]) -> Option<&[u8]> {
    Notes(notes)
        .find(|note| {
            note.kind == NT_GNU_BUILD_ID && note.owner == b"GNU\0" && !note.contents.is_empty()
        })
        .map(|note| note.contents)
}

/// The notes in some bytes, up to the first malformed one.
struct Notes<'a>(&'a [u8]);

/// A note: the sizes of its owner's name and of its contents, a type, the name and the contents,
/// both padded.
struct Note<'a> {
    owner: &'a [u8],
    kind: u32,
    contents: &'a [u8],
}

impl<'a> Iterator for Notes<'a> {
    type Item = Note<'a>;

    fn next(&mut self) -> Option<Note<'a>> {
        let notes = self.0;
        let word = |at: usize| Some(u32::from_ne_bytes(*notes.get(at..)?.first_chunk()?));
        let (owner_size, size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let owner = notes.get(12..)?.get(..owner_size)?;
        let rest = notes.get(12..)?.get(owner_size.next_multiple_of(4)..)?;
        let contents = rest.get(..size)?;
        self.0 = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        Some(Note { owner, kind, contents })
    }
}
