//! MiniDebugInfo: the symbols that some distributions leave in a stripped object, as an
//! xz-compressed ELF file in `.gnu_debugdata`.
//!
//! They are unpacked here with a size limit: xz expands kilobytes to gigabytes, and any user can
//! put them into a file.

use std::io::Read as _;
use std::ops::Range;

use liblzma::read::XzDecoder;
use liblzma::stream::Stream;

use crate::decode::elf::Elf;
use crate::task::objects::Object;

const SECTION: &str = ".gnu_debugdata";

/// Maximum unpacked size in bytes; the files of the largest libraries have a few million.
const SIZE_MAX: usize = 64 << 20;

/// Maximum memory for unpacking, in bytes: xz needs 65 MiB at its highest compression.
const MEMORY_MAX: u64 = 128 << 20;

/// Maximum number of bytes copied for the tables of dynamic symbols.
const COPIED_MAX: usize = 256 << 20;

/// Unpacks the file in the object; None if there is none, or it is too large or broken.
pub(super) fn unpack(object: &Object) -> Option<Object> {
    let packed = Elf::new(object.bytes())?.section(SECTION)?.bytes?;
    Object::of_bytes(c"symbols", &unxz(packed)?)
}

/// Returns whether the object has such a file.
pub(super) fn is_in(object: &Object) -> bool {
    Elf::new(object.bytes()).is_some_and(|elf| elf.section(SECTION).is_some())
}

/// Returns a file with only the object's sections and dynamic symbols, at the same offsets. The
/// packed symbols are omitted, so that blazesym does not unpack them itself.
pub(super) fn dynamic_only(object: &Object) -> Option<Object> {
    let bytes = object.bytes();
    let elf = Elf::new(bytes)?;
    let part = |range: Range<usize>| Some((range.start as u64, bytes.get(range)?.to_vec()));
    let [header, sections, names] = elf.outline()?.map(part);
    let mut names = names?;
    let packed = SECTION.as_bytes();
    let mut from = 0;
    while let Some(at) = names.1[from..].windows(packed.len()).position(|name| name == packed) {
        names.1[from + at..][..packed.len()].fill(b'_');
        from += at + packed.len();
    }
    let tables = [".dynsym", ".dynstr"].map(|name| part(elf.range_of(elf.section(name)?.bytes?)?));
    let parts: Vec<_> =
        [header?, sections?, names].into_iter().chain(tables.into_iter().flatten()).collect();
    let size: usize = parts.iter().map(|(_, part)| part.len()).sum();
    (size <= COPIED_MAX)
        .then(|| Object::of_parts(c"dynamic symbols", bytes.len() as u64, &parts))?
}

fn unxz(packed: &[u8]) -> Option<Vec<u8>> {
    let stream = Stream::new_stream_decoder(MEMORY_MAX, 0).ok()?;
    let (mut decoder, mut unpacked) = (XzDecoder::new_stream(packed, stream), Vec::new());
    decoder.by_ref().take(SIZE_MAX as u64 + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() <= SIZE_MAX).then_some(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use liblzma::read::XzEncoder;

    #[test]
    fn dynamic_symbols_keep_their_place_and_other_sections_are_zero() {
        let program = Object::open(std::path::Path::new("/proc/self/exe"), 1).unwrap();
        let copy = dynamic_only(&program).unwrap();
        let [own, copied] = [&program, &copy].map(|object| Elf::new(object.bytes()).unwrap());
        let bytes = |elf: &Elf<'_>, name| elf.section(name).unwrap().bytes.unwrap().to_vec();
        for table in [".dynsym", ".dynstr"] {
            assert_eq!(bytes(&own, table), bytes(&copied, table), "{table}");
        }
        assert!(bytes(&copied, ".text").iter().all(|byte| *byte == 0));
        assert_eq!(own.sections().count(), copied.sections().count());
    }

    #[test]
    fn data_that_unpacks_beyond_the_limit_is_rejected() {
        let packed = |size: usize| {
            let mut packed = Vec::new();
            XzEncoder::new(std::io::repeat(7).take(size as u64), 0)
                .read_to_end(&mut packed)
                .unwrap();
            packed
        };
        assert_eq!(unxz(&packed(1000)), Some(vec![7; 1000]));
        let bomb = packed(SIZE_MAX + 1);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(unxz(&bomb), None);
        assert_eq!(unxz(b"no xz"), None);
    }
}
