//! Rejects unwind tables that cannot be evaluated in bounded time.
//!
//! Rules of a table can be DWARF expressions, which can jump backwards, and framehop evaluates them
//! without a limit: a table of forty bytes could loop forever. No compiler needs jumps to locate a
//! saved register, so a table with a jump is rejected, and a table with a very long entry, since an
//! entry is read for each frame.
//!
//! The index of a table can point anywhere into it, also into the operands of an entry. It is used
//! only if each of its rows points to a checked entry.

use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CieOrFde, DebugFrame, EhFrame,
    Encoding, EndianSlice, NativeEndian, Operation, UnwindExpression, UnwindOffset, UnwindSection,
};

/// Maximum size of an entry in bytes; the largest functions need some thousand.
const ENTRY_MAX: usize = 64 << 10;

/// Maximum number of common entries; linkers emit few, but one for each source file in
/// `.debug_frame`.
const COMMON_MAX: usize = 1 << 17;

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// Returns the offsets of the entries of functions in `.eh_frame`, ascending; None if the table is
/// rejected.
pub(super) fn entries_of_eh_frame(bytes: &[u8], bases: &BaseAddresses) -> Option<Vec<usize>> {
    let mut table = EhFrame::new(bytes, NativeEndian);
    table.set_address_size(8);
    entries(&table, bases)
}

/// Like [`entries_of_eh_frame`], for `.debug_frame`.
pub(super) fn entries_of_debug_frame(bytes: &[u8]) -> Option<Vec<usize>> {
    let mut table = DebugFrame::new(bytes, NativeEndian);
    table.set_address_size(8);
    entries(&table, &BaseAddresses::default())
}

/// Returns whether each row of `.eh_frame_hdr` points to one of `entries`. The addresses of both
/// sections are those before relocation. Only the form that every linker writes is accepted.
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
                // A common entry must precede its functions, as every compiler writes it.
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

/// Returns whether no expression in these instructions jumps.
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
            // The evaluation also stops at an invalid instruction.
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
            // The evaluation also stops there.
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

    /// Returns a table of one function, and the offset of its entry.
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
    fn a_table_with_jumping_expressions_is_rejected() {
        // DW_CFA_def_cfa_expression { DW_OP_breg7 8 }, as in a procedure linkage table.
        let (straight, at) = table(&[0x0f, 2, 0x77, 8]);
        assert_eq!(found(&straight), Some(vec![at]));
        // DW_OP_skip -3, which loops; DW_OP_lit1, DW_OP_bra -4; the same for a register value.
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
    fn an_index_is_accepted_only_if_it_leads_to_entries() {
        let (bytes, at) = table(&[0x0f, 2, 0x77, 8]);
        let entries = found(&bytes).unwrap();
        let address = ADDRESS + 0x100;
        let index = |to: i32, count: i32| {
            let words = [-0x104, count, 0, to - 0x100];
            [vec![1, 0x1b, 0x03, 0x3b], words.map(i32::to_ne_bytes).concat()].concat()
        };
        let counts = |index: &[u8]| is_index_of(&entries, (index, address), ADDRESS);
        assert!(counts(&index(at as i32, 1)));
        // Into an entry, before the first one, beyond the rows; another form.
        assert!(!counts(&index(at as i32 + 4, 1)));
        assert!(!counts(&index(-8, 1)));
        assert!(!counts(&index(at as i32, 2)));
        assert!(!counts(&[&[1, 0x1b, 0x03, 0x1b], &index(at as i32, 1)[4..]].concat()));
    }
}
