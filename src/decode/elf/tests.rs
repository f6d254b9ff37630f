//! Tests with the file of the test program, and with files crafted to be expensive.

use super::symbols::SymbolTable;
use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

fn this_program() -> Vec<u8> {
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

#[test]
fn sections_and_segments_of_this_program_are_found() {
    let bytes = this_program();
    let elf = Elf::new(&bytes).unwrap();
    assert!(elf.is_wide());
    let text = elf.section(".text").unwrap();
    let code = text.bytes.unwrap();
    let offset = code.as_ptr() as u64 - bytes.as_ptr() as u64;
    assert_eq!(elf.address_of(offset + 5), Some(text.address + 5));
    assert_eq!(elf.section(".no_such_section"), None);
    assert!(elf.segments().any(|s| s.kind == LOAD && s.flags & EXECUTABLE != 0));
    assert!(elf.section(".bss").unwrap().bytes.is_none());
}

#[test]
fn function_addresses_convert_to_file_offsets_and_back() {
    let bytes = this_program();
    let elf = Elf::new(&bytes).unwrap();
    let text = elf.section(".text").unwrap();
    let inside: Vec<_> = elf
        .functions(SymbolTable::All)
        .filter(|f| f.address.wrapping_sub(text.address) < text.size)
        .collect();
    assert!(inside.len() > 1000 && inside.iter().any(|f| f.name == b"main"));
    for function in inside {
        let offset = elf.offset_of_code(function.address).unwrap();
        assert_eq!(elf.address_of(offset), Some(function.address));
    }
    assert_eq!(elf.offset_of_code(0), None);
}

#[test]
fn the_build_id_is_read_from_a_note() {
    let note = |name: &[u8], kind: u32, contents: &[u8]| {
        let mut note = Vec::new();
        for word in [name.len() as u32, contents.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, contents] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    };
    let notes = [note(b"GNU\0", 1, b"abi"), note(b"GNU\0", 3, b"twenty bytes of it..")].concat();
    assert_eq!(build_id_in(&notes), Some(&b"twenty bytes of it.."[..]));
    assert_eq!(build_id_in(&notes[..notes.len() - 1]), None);
    assert_eq!(build_id_in(&note(b"Go\0\0", 3, b"other")), None);
}

/// Returns a 64-bit header with these tables: (offset, count) of segments and of sections, and the
/// index of the section with the names.
fn header((phoff, phnum): (u64, u16), (shoff, shnum): (u64, u16), names: u16) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, order]);
    for (at, offset) in [(32, phoff), (40, shoff)] {
        bytes[at..at + 8].copy_from_slice(&offset.to_ne_bytes());
    }
    for (at, half) in [(54, 56), (56, phnum), (58, 64), (60, shnum), (62, names)] {
        bytes[at..at + 2].copy_from_slice(&u16::to_ne_bytes(half));
    }
    bytes
}

#[test]
fn the_work_on_a_crafted_file_is_limited() {
    let sections = 0xfff0_u16;
    let (size, count) = (32_u64 << 20, usize::from(sections));
    let mut bytes = header((0, 0), (64, sections), 0);
    let mut section = [0; 64];
    section[4..8].copy_from_slice(&SHT_NOTE.to_ne_bytes());
    section[32..40].copy_from_slice(&size.to_ne_bytes());
    bytes.extend(section.repeat(count));
    // Names and notes span the whole file and have no end.
    bytes.resize(size as usize, 1);
    bytes[..4].copy_from_slice(b"\x7fELF");
    let elf = Elf::new(&bytes).unwrap();
    assert_eq!(elf.sections().count(), count);
    assert!(elf.sections().all(|(name, _)| name.len() <= NAME_MAX));
    assert_eq!((elf.section(".text"), elf.build_id()), (None, None));
    let mut many = header((64, 0xfff0), (0, 0), 0);
    let mut segment = [0; 56];
    segment[..4].copy_from_slice(&NOTE.to_ne_bytes());
    segment[32..40].copy_from_slice(&(3_u64 << 20).to_ne_bytes());
    many.extend(segment.repeat(count));
    assert_eq!(Elf::new(&many).unwrap().build_id(), None);
    assert_eq!(Elf::new(&many).unwrap().segments().count(), count);
}

#[test]
fn the_names_of_a_crafted_symbol_table_are_limited() {
    const ENTRIES: usize = 600_000;
    let name = 192_u64;
    let mut bytes = header((0, 0), (64, 3), 0);
    let section = |kind: u32, offset: u64, size: u64, link: u32| {
        let mut section = [0; 64];
        section[4..8].copy_from_slice(&kind.to_ne_bytes());
        section[24..32].copy_from_slice(&offset.to_ne_bytes());
        section[32..40].copy_from_slice(&size.to_ne_bytes());
        section[40..44].copy_from_slice(&link.to_ne_bytes());
        section
    };
    let table = 64 + name + 1024;
    bytes.extend(section(0, 0, 0, 0));
    bytes.extend(section(2, table, 24 * ENTRIES as u64, 2));
    bytes.extend(section(3, 64 + name, 1024, 0));
    let of = |end: u8| {
        let mut bytes = bytes.clone();
        bytes.extend([b'a'; 1023]);
        bytes.push(end);
        let mut entry = [0; 24];
        // A function of section 1.
        (entry[4], entry[6]) = (2, 1);
        bytes.extend(entry.repeat(ENTRIES));
        Elf::new(&bytes).unwrap().symbols(SymbolTable::All).count()
    };
    assert_eq!((of(0), of(b'a')), ((256 << 20) / 1023, 0));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        (at, by) in (0usize..4096, any::<u8>()),
        (end, wide) in (0usize..4096, any::<bool>()),
    ) {
        static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(this_program);
        let mut bytes = PROGRAM[..end].to_vec();
        for (i, byte) in bytes.iter_mut().enumerate().filter(|(i, _)| *i > 6) {
            if i % 61 == at % 61 {
                *byte = by;
            }
        }
        if let Some(class) = bytes.get_mut(4) {
            *class = if wide { 2 } else { 1 };
        }
        if let Some(elf) = Elf::new(&bytes) {
            let _ = (elf.build_id(), elf.debug_link(), elf.address_of(at as u64));
            let _ = elf.sections().take(100).count();
            for table in [SymbolTable::All, SymbolTable::Dynamic] {
                let _ = elf.functions(table).count();
            }
            let _ = (elf.offset_of_code(at as u64), elf.kind(), elf.machine());
        }
    }
}
