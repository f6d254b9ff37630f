//! USDT probes of a program or library: the notes that `sys/sdt.h` writes.
//!
//! Layout: <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>.

use super::{Elf, Notes};
use crate::base::text::unescape::until_nul;

/// A place where a program raises a USDT probe. A probe has several if its macro was inlined or is
/// written more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsdtSite<'a> {
    /// Name of the group of probes.
    pub provider: &'a [u8],
    /// Name of the probe.
    pub name: &'a [u8],
    /// Address of the instruction, before relocation.
    pub address: u64,
    /// Address of the counter of its observers, before relocation; None if it has none.
    pub semaphore: Option<u64>,
    /// Where its arguments are: `-4@%edi 8@-16(%rbp)`; see [`crate::decode::operand`].
    pub arguments: &'a [u8],
}

const SECTION: &[u8] = b".note.stapsdt";
const OWNER: &[u8] = b"stapsdt\0";
const KIND: u32 = 3;
/// Maximum number of notes that are read.
const NOTES_MAX: usize = 1 << 16;

impl<'a> Elf<'a> {
    /// Returns the sites of all USDT probes, in file order; none for a 32-bit file.
    pub fn usdt_sites(&self) -> impl Iterator<Item = UsdtSite<'a>> + use<'a> {
        // prelink moves code but not the addresses in notes; this section moves along.
        let base = self.section(".stapsdt.base").map(|section| section.address);
        let sections = self.is_wide().then(|| self.sections()).into_iter().flatten();
        let notes = sections.filter(|(name, _)| *name == SECTION);
        let notes = notes.flat_map(|(_, section)| Notes(section.bytes.unwrap_or_default()));
        let notes = notes.take(NOTES_MAX);
        notes
            .filter(|note| note.kind == KIND && note.owner == OWNER)
            .filter_map(move |note| site(note.contents, base))
    }
}

fn site(note: &[u8], base: Option<u64>) -> Option<UsdtSite<'_>> {
    let word = |at: usize| Some(u64::from_ne_bytes(*note.get(at..)?.first_chunk()?));
    let (address, linked, semaphore) = (word(0)?, word(8)?, word(16)?);
    let moved = base.filter(|_| linked != 0).map_or(0, |base| base.wrapping_sub(linked));
    let text = |at: usize| Some(until_nul(note.get(at..)?));
    let provider = text(24)?;
    let name = text(24 + provider.len() + 1)?;
    let arguments = text(24 + provider.len() + 1 + name.len() + 1).unwrap_or_default();
    Some(UsdtSite {
        provider,
        name,
        address: address.wrapping_add(moved),
        semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn note(words: [u64; 3], texts: &str) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        words.chain(texts.bytes()).collect()
    }

    #[test]
    fn a_note_has_addresses_names_and_arguments() {
        let bytes = note([0x1139, 0x2000, 0x4010], "app\0start\0-4@%edi 8@$5\0");
        let found = site(&bytes, Some(0x2000)).unwrap();
        assert_eq!((found.provider, found.name), (&b"app"[..], &b"start"[..]));
        assert_eq!((found.address, found.semaphore), (0x1139, Some(0x4010)));
        assert_eq!(found.arguments, b"-4@%edi 8@$5");
        let moved = site(&bytes, Some(0x12000)).unwrap();
        assert_eq!((moved.address, moved.semaphore), (0x11139, Some(0x14010)));
        let plain = note([0x1139, 0, 0], "app\0start\0\0");
        let plain = site(&plain, Some(0x12000)).unwrap();
        assert_eq!((plain.address, plain.semaphore, plain.arguments), (0x1139, None, &b""[..]));
        assert_eq!(site(b"short", None), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = site(&bytes, Some(1));
            let _ = Notes(&bytes).count();
        }
    }
}
