//! The functions of an object by the index of its unwind tables (`.eh_frame_hdr`), which a stripped
//! file keeps (Linux Standard Base, Core, 10.6).

use super::{COMPRESSED, Elf, Section};

/// Version 1; the encodings of all linkers: a signed 32-bit offset from its own place to
/// `.eh_frame`, an unsigned 32-bit count, and signed 32-bit offsets from the index in the rows.
const VERSION_AND_ENCODINGS: &[u8] = &[1, 0x1b, 0x03, 0x3b];

/// Size of the index before its rows, in bytes.
const ROWS: usize = 12;

/// Returns the address at which the function begins that contains an address; None if the object
/// has no index, or no function there. Both are addresses before relocation. The bytes are not
/// trusted: a wrong index gives wrong functions, but nothing else.
pub fn function_start(elf: &Elf<'_>, address: u64) -> Option<u64> {
    let index = elf.section(".eh_frame_hdr")?;
    let bytes = plain(&index)?;
    if !bytes.starts_with(VERSION_AND_ENCODINGS) {
        return None;
    }
    let (rows, _) = bytes.get(ROWS..)?.as_chunks::<8>();
    let start_of = |row: &[u8; 8]| index.address.wrapping_add_signed(first_half(row).into());
    let after = rows.partition_point(|row| start_of(row) <= address);
    let row = rows.get(after.checked_sub(1)?)?;
    let entry = index.address.wrapping_add_signed(second_half(row).into());
    let (start, size) = (start_of(row), size_at(elf, entry, start_of(row))?);
    (address.wrapping_sub(start) < size).then_some(start)
}

/// Returns the size of the function that an entry of `.eh_frame` describes, in bytes; None if the
/// entry does not begin with `start` in the encoding of all linkers.
fn size_at(elf: &Elf<'_>, entry: u64, start: u64) -> Option<u64> {
    // Behind the length and the offset of the common entry: where the function begins, relative to
    // this place, and its size.
    const BEGIN: usize = 8;
    let table = elf.section(".eh_frame")?;
    let offset = usize::try_from(entry.checked_sub(table.address)?).ok()?;
    let values = plain(&table)?.get(offset.checked_add(BEGIN)?..)?.first_chunk::<8>()?;
    let begin = entry.wrapping_add(BEGIN as u64).wrapping_add_signed(first_half(values).into());
    (begin == start).then(|| second_half(values).cast_unsigned().into())
}

fn plain<'a>(section: &Section<'a>) -> Option<&'a [u8]> {
    section.bytes.filter(|_| section.flags & COMPRESSED == 0)
}

fn first_half(bytes: &[u8; 8]) -> i32 {
    let [a, b, c, d, ..] = *bytes;
    i32::from_ne_bytes([a, b, c, d])
}

fn second_half(bytes: &[u8; 8]) -> i32 {
    let [.., a, b, c, d] = *bytes;
    i32::from_ne_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_this_program_have_starts() {
        let bytes = std::fs::read("/proc/self/exe").expect("it runs");
        let elf = Elf::new(&bytes).expect("it is an ELF file");
        let own = elf.section(".text").expect("it has code");
        let first = own.address + own.size / 2;
        // Some addresses in the middle are between functions.
        let starts: Vec<u64> = (0..64).filter_map(|at| function_start(&elf, first + at)).collect();
        assert!(!starts.is_empty() && starts.iter().all(|start| *start < first + 64));
        for start in starts {
            assert_eq!(function_start(&elf, start), Some(start));
            assert_ne!(function_start(&elf, start - 1), Some(start));
        }
        assert_eq!(function_start(&elf, 0), None);
        assert_eq!(function_start(&elf, u64::MAX), None);
    }

    #[test]
    fn any_bytes_give_an_answer() {
        let bytes = std::fs::read("/proc/self/exe").expect("it runs");
        let elf = Elf::new(&bytes).expect("it is an ELF file");
        let text = elf.section(".text").expect("it has code");
        let place = |name: &str| {
            let section = elf.section(name).expect("it has unwind tables");
            let from = section.bytes.expect("they are in the file").as_ptr() as usize;
            from - bytes.as_ptr() as usize
        };
        for (name, step) in [(".eh_frame_hdr", 5), (".eh_frame", 3)] {
            let mut broken = bytes.clone();
            for byte in broken[place(name) + 4..].iter_mut().take(100_000).step_by(step) {
                *byte = !*byte;
            }
            let broken = Elf::new(&broken).expect("its header is the same");
            for at in (0..text.size).step_by(997) {
                let _ = function_start(&broken, text.address + at);
            }
        }
    }
}
