//! The sections of debug information of a file, unpacked if they are compressed (`gcc -gz`).
//!
//! Compressed sections expand a thousandfold and more, and any user can create a file, so their
//! total size is limited. Source: the ELF gABI, section "Compression Header".

use std::io::Read;

use gimli::{EndianSlice, NativeEndian, SectionId};

use super::NoPrototype;
use crate::decode::elf::{COMPRESSED, Elf, Section};

pub(super) type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// The sections that are compressed in the file.
#[derive(Debug, Default)]
pub(super) struct Sections {
    unpacked: Vec<(SectionId, Vec<u8>)>,
}

/// Maximum size of all unpacked sections in bytes: about a second.
const UNPACKED_MAX: u64 = 256 << 20;

/// The sections that have prototypes, locations of parameters and types; gimli reads no unit
/// without its line table.
const USED: [SectionId; 12] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
];

/// Size of `Elf64_Chdr`.
const HEADER: usize = 24;
/// `ELFCOMPRESS_ZLIB` and `ELFCOMPRESS_ZSTD`.
const ZLIB: u32 = 1;
const ZSTD: u32 = 2;

impl Sections {
    /// Unpacks the sections of a file that are compressed and used.
    ///
    /// # Errors
    /// One of them is compressed in an unknown way, or they are too large.
    pub(super) fn unpack(elf: Elf<'_>) -> Result<Sections, NoPrototype> {
        let (mut unpacked, mut left) = (Vec::new(), UNPACKED_MAX);
        for id in USED {
            let bytes = if let Some(section) = elf.section(id.name()) {
                if section.flags & COMPRESSED == 0 {
                    continue;
                }
                unpack(&section, left)
            } else if let Some(section) = elf.section(&id.name().replacen('.', ".z", 1)) {
                unpack_gnu(&section, left)
            } else {
                continue;
            };
            let bytes = bytes.ok_or(NoPrototype::Compressed)?;
            left = left.saturating_sub(bytes.len() as u64);
            unpacked.push((id, bytes));
        }
        Ok(Sections { unpacked })
    }

    /// Returns the debug information of the file, of which parts may be missing.
    ///
    /// # Errors
    /// Its sections cannot be read.
    pub(super) fn load<'a>(&'a self, elf: Elf<'a>) -> Result<gimli::Dwarf<Bytes<'a>>, NoPrototype> {
        gimli::Dwarf::load(|id| Ok(self.section(elf, id)))
    }

    /// Returns the sections of location lists before DWARF 5 and since.
    pub(super) fn location_lists<'a>(&'a self, elf: Elf<'a>) -> [Bytes<'a>; 2] {
        [SectionId::DebugLoc, SectionId::DebugLocLists].map(|id| self.section(elf, id))
    }

    fn section<'a>(&'a self, elf: Elf<'a>, id: SectionId) -> Bytes<'a> {
        let unpacked = self.unpacked.iter().find(|(of, _)| *of == id);
        let bytes = match unpacked {
            Some((_, bytes)) => bytes.as_slice(),
            None if USED.contains(&id) => plain(elf, id),
            None => &[],
        };
        EndianSlice::new(bytes, NativeEndian)
    }
}

fn plain<'a>(elf: Elf<'a>, id: SectionId) -> &'a [u8] {
    elf.section(id.name()).and_then(|section| section.bytes).unwrap_or_default()
}

/// Returns the bytes of a compressed section, at most `most`; None if there are more or they cannot
/// be unpacked.
fn unpack(section: &Section<'_>, most: u64) -> Option<Vec<u8>> {
    let bytes = section.bytes?;
    let (header, packed) = bytes.split_at_checked(HEADER)?;
    match u32::from_ne_bytes(*header.first_chunk()?) {
        ZLIB => read_all(flate2::read::ZlibDecoder::new(packed), most),
        ZSTD => read_all(zstd::Decoder::with_buffer(packed).ok()?, most),
        _ => None,
    }
}

/// Returns the bytes of a section `.zdebug_*`, the form before the gABI's (`gcc -gz=zlib-gnu`):
/// `ZLIB`, the unpacked size in 8 bytes, big-endian, and the packed bytes. As [`unpack`] else.
fn unpack_gnu(section: &Section<'_>, most: u64) -> Option<Vec<u8>> {
    let packed = section.bytes?.strip_prefix(b"ZLIB")?.get(8..)?;
    read_all(flate2::read::ZlibDecoder::new(packed), most)
}

/// Returns all bytes; None if there are more than `most`, or reading fails.
fn read_all(from: impl Read, most: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    from.take(most + 1).read_to_end(&mut all).ok()?;
    (all.len() as u64 <= most).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_in_the_older_form_are_unpacked_up_to_the_limit() {
        use std::io::Write as _;
        let text = b"debug information ".repeat(1000);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let size = (text.len() as u64).to_be_bytes();
        let bytes = [b"ZLIB", &size[..], &zlib.finish().unwrap()].concat();
        let of = |bytes: &[u8], most| {
            let bytes = Some(bytes);
            unpack_gnu(&Section { kind: 1, flags: 0, address: 0, size: 0, bytes }, most)
        };
        assert_eq!(of(&bytes, text.len() as u64).as_ref(), Some(&text));
        assert_eq!(of(&bytes, text.len() as u64 - 1), None);
        assert_eq!(of(&bytes[..bytes.len() / 2], 1 << 20), None, "it is truncated");
        assert_eq!(of(&bytes[1..], 1 << 20), None);
        assert_eq!(of(b"ZLIB", 1 << 20), None);
    }

    #[test]
    fn sections_are_unpacked_up_to_the_limit() {
        use std::io::Write as _;
        let text = b"debug information ".repeat(1000);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&text).unwrap();
        let packed = [(ZLIB, zlib.finish().unwrap()), (ZSTD, zstd::encode_all(&*text, 1).unwrap())];
        for (how, packed) in packed {
            let mut bytes = vec![0; HEADER];
            bytes[..4].copy_from_slice(&how.to_ne_bytes());
            bytes.extend(packed);
            let of = |bytes: &[u8], most| {
                let section =
                    Section { kind: 1, flags: COMPRESSED, address: 0, size: 0, bytes: Some(bytes) };
                unpack(&section, most)
            };
            assert_eq!(of(&bytes, text.len() as u64).as_ref(), Some(&text));
            assert_eq!(of(&bytes, text.len() as u64 - 1), None);
            assert_eq!(of(&bytes[..bytes.len() / 2], 1 << 20), None, "it is truncated");
            assert_eq!(of(&bytes[..10], 1 << 20), None);
            bytes[0] = 9;
            assert_eq!(of(&bytes, 1 << 20), None, "an unknown way");
        }
    }
}
