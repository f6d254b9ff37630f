//! Whether whoever walks by an unwind table comes to an end, whatever its author had in mind.
//!
//! Rules of a table can be expressions of DWARF, which can jump backwards, and framehop evaluates them without a limit: a
//! table of forty bytes would keep it busy for ever. No compiler needs jumps for where a register was saved, so
//! a table with one is no table. Neither is one with an entry that takes long to read, since that is done for each frame.
//!
//! The index of a table can lead anywhere into it, also to where another entry has its operands: it counts only if
//! each of its rows leads to an entry that was looked at.

use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, DebugFrame, EhFrame,
    Encoding, EndianSlice, NativeEndian, Operation, UnwindExpression, UnwindOffset, UnwindSection,
};

/// Bytes of an entry; those of the largest functions have some thousand.
const ENTRY_MAX: usize = 64 << 10;

/// Common entries; linkers leave few, but one for each source file in `.debug_frame`.
const COMMON_MAX: usize = 1 << 17;

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// Where the entries of functions stand in `.eh_frame`, ascending; None if it is not to be walked by.
pub(super) fn entries_of_eh_frame(bytes: &[u8], bases: &BaseAddresses) -> Option<Vec<usize>> {
    let mut table = EhFrame::new(bytes, NativeEndian);
    table.set_address_size(8);
    entries(&table, bases)
}

/// Likewise in `.debug_frame`.
pub(super) fn entries_of_debug_frame(bytes: &[u8]) -> Option<Vec<usize>> {
    let mut table = DebugFrame::new(bytes, NativeEndian);
    table.set_address_size(8);
    entries(&table, &BaseAddresses::default())
}

/// Whether each row of `.eh_frame_hdr` leads to one of `entries`. Both sections' addresses are those before the object is
/// moved. Every linker writes it in the one form that is known here.
pub(super) fn is_index_of(entries: &[usize], index: (&[u8], u64), eh_frame: u64) -> bool {
    const VERSION_AND_ENCODINGS: &[u8] = &[1, 0x1b, 0x03, 0x3b];
    let (bytes, address) = index;
    let Some(rest) = bytes.strip_prefix(VERSION_AND_ENCODINGS) else { return false };
    let (words, _) = rest.as_chunks::<4>();
    let word = |at: usize| words.get(at).map(|word| i32::from_ne_bytes(*word));
    let (Some(table), Some(count)) = (word(0), word(1)) else { return false };
    let moved = |from: u64, by: i32| from.wrapping_add_signed(by.into());
    let (rows, _) = words.get(2..).unwrap_or_default().as_chunks::<2>();
    let is_entry = |[_, to]: &[[u8; 4]; 2]| {
        let offset = moved(address, i32::from_ne_bytes(*to)).wrapping_sub(eh_frame);
        usize::try_from(offset).is_ok_and(|offset| entries.binary_search(&offset).is_ok())
    };
    moved(address + 4, table) == eh_frame
        && count.cast_unsigned() as usize == rows.len()
        && rows.len() <= entries.len()
        && rows.iter().all(is_entry)
}

fn entries<'a, Table>(table: &Table, bases: &BaseAddresses) -> Option<Vec<usize>>
where
    Table: UnwindSection<Bytes<'a>>,
{
    let (mut common, mut found) = (Vec::new(), Vec::new());
    let mut all = table.entries(bases);
    while let Some(entry) = all.next().ok()? {
        match entry {
            CieOrFde::Cie(entry) => {
                let instructions = entry.instructions(table, bases);
                let short = entry.entry_len() <= ENTRY_MAX && common.len() < COMMON_MAX;
                if !short || !is_straight(table, instructions, entry.encoding()) {
                    return None;
                }
                common.push((entry.offset(), entry));
            }
            CieOrFde::Fde(part) => {
                if part.entry_len() > ENTRY_MAX {
                    return None;
                }
                // A common entry that was not looked at stands where none is, or behind: nobody writes that.
                let of_common = |_: &Table, _: &BaseAddresses, at: Table::Offset| {
                    let at: usize = UnwindOffset::into(at);
                    let place = common.binary_search_by_key(&at, |(offset, _)| *offset);
                    let known = place.ok().and_then(|place| common.get(place));
                    known.map(|(_, entry)| entry.clone()).ok_or(gimli::Error::NotCieId(at as u64))
                };
                let entry = part.parse(of_common).ok()?;
                let encoding = entry.cie().encoding();
                if !is_straight(table, entry.instructions(table, bases), encoding) {
                    return None;
                }
                found.push(entry.offset());
            }
        }
    }
    Some(found)
}

/// Whether no expression among these instructions jumps.
fn is_straight<'a, Table>(
    table: &Table,
    mut instructions: CallFrameInstructionIter<'_, Bytes<'a>>,
    encoding: Encoding,
) -> bool
where
    Table: UnwindSection<Bytes<'a>>,
{
    loop {
        let expression = match instructions.next() {
            // Whoever walks by them stops at what is no instruction, too.
            Ok(None) | Err(_) => return true,
            Ok(Some(
                CallFrameInstruction::DefCfaExpression { expression }
                | CallFrameInstruction::Expression { expression, .. }
                | CallFrameInstruction::ValExpression { expression, .. },
            )) => expression,
            Ok(Some(_)) => continue,
        };
        if jumps(table, &expression, encoding) {
            return false;
        }
    }
}

fn jumps<'a, Table>(table: &Table, expression: &UnwindExpression<usize>, encoding: Encoding) -> bool
where
    Table: UnwindSection<Bytes<'a>>,
{
    let Ok(expression) = expression.get(table) else { return true };
    let mut operations = expression.operations(encoding);
    loop {
        match operations.next() {
            Ok(Some(Operation::Skip { .. } | Operation::Bra { .. })) => return true,
            Ok(Some(_)) => {}
            // Whoever evaluates it stops there, too.
            Ok(None) | Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 0x2000;

    fn entry(body: &[u8]) -> Vec<u8> {
        let size = body.len().next_multiple_of(4);
        let mut bytes = [&(size as u32).to_ne_bytes()[..], body].concat();
        bytes.resize(4 + size, 0);
        bytes
    }

    /// A table of one function; where that has its entry.
    fn table(instructions: &[u8]) -> (Vec<u8>, usize) {
        let mut bytes = entry(b"\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b");
        let at = bytes.len();
        let id = (at as u32 + 4).to_ne_bytes();
        let function = [&id[..], &[0, 1, 0, 0], &[16, 0, 0, 0], &[0], instructions].concat();
        bytes.extend(entry(&function));
        bytes.extend([0; 4]);
        (bytes, at)
    }

    fn found(bytes: &[u8]) -> Option<Vec<usize>> {
        entries_of_eh_frame(bytes, &BaseAddresses::default().set_eh_frame(ADDRESS))
    }

    #[test]
    fn a_table_whose_expressions_jump_is_none() {
        // DW_CFA_def_cfa_expression { DW_OP_breg7 8 }, as of a procedure linkage table.
        let (straight, at) = table(&[0x0f, 2, 0x77, 8]);
        assert_eq!(found(&straight), Some(vec![at]));
        // DW_OP_skip -3, for ever; DW_OP_lit1, DW_OP_bra -4; the same for the value of a register.
        for instructions in [
            &[0x0f, 3, 0x2f, 0xfd, 0xff][..],
            &[0x0f, 4, 0x31, 0x28, 0xfc, 0xff],
            &[0x10, 6, 3, 0x2f, 0xfd, 0xff],
            &[0x16, 6, 3, 0x2f, 0xfd, 0xff],
        ] {
            assert_eq!(found(&table(instructions).0), None, "{instructions:x?}");
        }
        assert_eq!(found(&table(&vec![0; ENTRY_MAX]).0), None);
    }

    #[test]
    fn an_index_counts_only_if_it_leads_to_entries() {
        let (bytes, at) = table(&[0x0f, 2, 0x77, 8]);
        let entries = found(&bytes).unwrap();
        let address = ADDRESS + 0x100;
        let index = |to: i32, count: i32| {
            let words = [-0x104, count, 0, to - 0x100];
            [vec![1, 0x1b, 0x03, 0x3b], words.map(i32::to_ne_bytes).concat()].concat()
        };
        let counts = |index: &[u8]| is_index_of(&entries, (index, address), ADDRESS);
        assert!(counts(&index(at as i32, 1)));
        // Into an entry, in front of all, beyond the rows; of another form.
        assert!(!counts(&index(at as i32 + 4, 1)));
        assert!(!counts(&index(-8, 1)));
        assert!(!counts(&index(at as i32, 2)));
        assert!(!counts(&[&[1, 0x1b, 0x03, 0x1b], &index(at as i32, 1)[4..]].concat()));
    }
}
