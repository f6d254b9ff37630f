//! The debug file of an object that was stripped of its symbols: by build ID, or by the file name
//! in the object's debug link.
//!
//! It is searched below the root of the object's process, if the process is alive, and below
//! perilune's own. A file is used only if it belongs to the same build: it has the same build ID
//! or, if there is none, the CRC that the object names.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::decode::elf::Elf;
use crate::task::objects::Object;

/// Directory in which distributions install debug files.
const DIRECTORY: &str = "usr/lib/debug";

/// Maximum number of bytes of a debug file whose CRC is computed: some tenths of a second.
const CRC_MAX: usize = 512 << 20;

/// Finds the debug file of an object that its process sees as `path`. `roots` are the root
/// directories to search.
pub(super) fn find(object: &Object, path: &Path, roots: &[PathBuf]) -> Option<Object> {
    let elf = Elf::new(object.bytes())?;
    let build_id = object.build_id();
    let link = elf.debug_link();
    let link_name = link.map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    // Only a plain file name: it must not lead elsewhere.
    let link_name = link_name.filter(|name| name.file_name() == Some(name.as_os_str()));
    let inside = path.strip_prefix("/").unwrap_or(path);
    let directory = inside.parent();
    for root in roots {
        let of_debug = root.join(DIRECTORY);
        let by_build_id = build_id.and_then(by_build_id).map(|name| of_debug.join(name));
        let by_link = link_name.zip(directory).map(|(name, directory)| {
            let beside = root.join(directory);
            [
                beside.join(name),
                beside.join(".debug").join(name),
                of_debug.join(directory).join(name),
            ]
        });
        let candidates = by_build_id.into_iter().chain(by_link.into_iter().flatten());
        let belongs = |found: &Object| match build_id {
            Some(id) => found.build_id() == Some(id),
            None => link.is_some_and(|(_, crc)| {
                found.bytes().len() <= CRC_MAX && crc32(found.bytes()) == crc
            }),
        };
        let found = candidates.filter_map(|path| Object::open(&path, 0)).find(belongs);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Returns `.build-id/ab/cdef….debug`.
fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let mut name = format!(".build-id/{first:02x}/");
    for byte in rest {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".debug");
    Some(name.into())
}

/// Returns the CRC-32 of IEEE 802.3, which `.gnu_debuglink` holds.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut value = at as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_matches_the_standard_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_build_id_gives_a_path() {
        let path = by_build_id(&[0xab, 0x01, 0xff]).unwrap();
        assert_eq!(path, Path::new(".build-id/ab/01ff.debug"));
        assert_eq!(by_build_id(&[1]), None);
    }
}
