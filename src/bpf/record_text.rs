//! Text of a record, or the name of the current task, as words that are padded with NULs.

use super::assembler::BpfRegister::{self, *};
use super::assembler::{AccessSize, Assembler, BpfAlu, BpfHelper, JumpIf};
use super::expression::CONTEXT;
use super::map_access::{INDEX_AT, WORD};

/// Words of the name of a task.
pub const COMM_WORDS: usize = 2;

/// Maximum size in bytes of a text.
pub const TEXT_MAX: usize = 64;

/// Words of the longest text.
const TEXT_WORDS: usize = TEXT_MAX / WORD;

/// Mask of a location: the offset of the text.
pub(super) const OFFSET_MASK: i32 = 0xffff;

/// The end of a text that was cut: an ellipsis and a NUL, as 4 bytes.
const ELLIPSIS: i32 = i32::from_ne_bytes([0xe2, 0x80, 0xa6, 0]);

/// A text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordText {
    /// A `char[size]` of the record, which ends at its first NUL, if there is one.
    Field {
        /// Offset in bytes.
        offset: i16,
        /// Size in bytes; at most [`TEXT_MAX`].
        size: usize,
    },
    /// The name of the task in which the event happens.
    Comm,
    /// A text of at most 15 bytes whose place differs between records; a longer one is cut.
    Short(TextLocation),
    /// A text whose place differs between records. If it has more than 63 bytes, it is cut after 60
    /// and ends with an ellipsis.
    Long(TextLocation),
}

/// Where a record has the place of a text, in the lower half of 4 bytes, and its length with the
/// NUL, in the upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLocation {
    /// Offset of the 4 bytes.
    pub at: i16,
    /// Offset from which the place counts.
    pub from: i16,
}

impl RecordText {
    /// Returns its size in words.
    pub fn words(self) -> usize {
        match self {
            RecordText::Field { size, .. } => size.div_ceil(8),
            RecordText::Comm | RecordText::Short(_) => COMM_WORDS,
            RecordText::Long(_) => TEXT_WORDS,
        }
    }

    /// Returns whether a text may be cut. Names of tasks ([`RecordText::Short`]) are never longer
    /// than their 15 bytes.
    pub fn may_be_cut(self) -> bool {
        matches!(self, RecordText::Long(_))
    }

    /// Appends instructions that store the words at `base + at`; they overwrite R0 to R5. Returns
    /// None if the field is too large.
    pub(super) fn store(self, code: &mut Assembler, base: BpfRegister, at: i16) -> Option<()> {
        match self {
            RecordText::Comm => {
                code.copy(R1, base);
                code.add_constant(R1, at.into());
                code.set(R2, 8 * COMM_WORDS as i32);
                code.call(BpfHelper::CurrentComm);
            }
            RecordText::Short(location) => location.store(code, base, at, COMM_WORDS),
            RecordText::Long(location) => {
                location.store(code, base, at, TEXT_WORDS);
                location.mark_cut(code, base, at);
            }
            RecordText::Field { size, .. } if size > TEXT_MAX => return None,
            RecordText::Field { offset, size } => store_field(code, (offset, size), base, at),
        }
        Some(())
    }
}

impl TextLocation {
    /// Stores the first words of the text, padded with NULs; the last byte is a NUL. Sets R0 to the
    /// number of bytes with the NUL; below 0, the text cannot be read.
    fn store(self, code: &mut Assembler, base: BpfRegister, at: i16, words: usize) {
        let most = words * WORD - 1;
        for word in 0..words as i16 {
            code.store_constant(AccessSize::B8, base, at + WORD as i16 * word, 0);
        }
        let fits = code.label();
        self.load_address(code, 0);
        self.load_length(code, R2);
        code.jump_if(JumpIf::LessEqual, R2, most as i32, fits);
        code.set(R2, most as i32);
        code.place(fits);
        // The helper adds a NUL: an array may have none.
        code.add_constant(R2, 1);
        code.copy(R1, base);
        code.add_constant(R1, at.into());
        code.call(BpfHelper::ReadKernelText);
    }

    /// Replaces the end of a text of [`TEXT_MAX`] bytes by an ellipsis if it is longer. R0 is what
    /// [`TextLocation::store`] has set.
    fn mark_cut(self, code: &mut Assembler, base: BpfRegister, at: i16) {
        let whole = code.label();
        code.jump_if(JumpIf::SignedLess, R0, TEXT_MAX as i32, whole);
        self.load_length(code, R1);
        code.jump_if(JumpIf::Less, R1, TEXT_MAX as i32, whole);
        // The next byte and a NUL, or only the NUL with which the text ends.
        self.load_address(code, TEXT_MAX as i32 - 1);
        code.copy(R1, R10);
        code.add_constant(R1, INDEX_AT.into());
        code.set(R2, 2);
        code.call(BpfHelper::ReadKernelText);
        code.jump_if(JumpIf::SignedLess, R0, 2, whole);
        code.store_constant(AccessSize::B4, base, at + TEXT_MAX as i16 - 4, ELLIPSIS);
        code.place(whole);
    }

    /// Copies the array in which the text is to an offset from R10. R2 has its length
    /// ([`TextLocation::load_length`]).
    pub(super) fn copy_array(self, code: &mut Assembler, at: i16) {
        self.load_address(code, 0);
        code.copy(R1, R10);
        code.add_constant(R1, at.into());
        code.call(BpfHelper::ReadKernel);
    }

    /// Sets R3 to the address of a byte of the text; changes R1. A program may not load from a
    /// computed place of the record itself. `MemoryUse` recognizes the first three instructions.
    fn load_address(self, code: &mut Assembler, byte: i32) {
        code.load(AccessSize::B4, R1, CONTEXT, self.at);
        code.alu_constant(BpfAlu::And, R1, OFFSET_MASK);
        code.copy(R3, CONTEXT);
        code.add_constant(R3, i32::from(self.from) + byte);
        code.add(R3, R1);
    }

    /// Sets a register to the number of bytes of the array.
    pub(super) fn load_length(self, code: &mut Assembler, to: BpfRegister) {
        code.load(AccessSize::B4, to, CONTEXT, self.at);
        code.alu_constant(BpfAlu::ShiftRight, to, 16);
    }
}

/// Returns a text without the bytes of an incomplete character before the ellipsis with which a
/// program has cut it; None for another text.
pub fn without_partial_character(text: &[u8]) -> Option<Vec<u8>> {
    let end = ELLIPSIS.to_ne_bytes();
    let head = text.strip_suffix(&end[..3]).filter(|_| text.len() == TEXT_MAX - 1)?;
    let why = std::str::from_utf8(head).err().filter(|why| why.error_len().is_none())?;
    Some([&head[..why.valid_up_to()], &end[..3]].concat())
}

fn store_field(code: &mut Assembler, (offset, size): (i16, usize), base: BpfRegister, at: i16) {
    let end = code.label();
    let words = size.div_ceil(8);
    for word in 0..words {
        let place = |word: usize| at + 8 * word as i16;
        let rest = (size - 8 * word).min(8);
        load_word(code, offset + 8 * word as i16, rest);
        let full = code.label();
        // Bit 7 of the first byte that is 0, and perhaps of bytes behind it.
        code.copy(R2, R1);
        code.set_long(R3, 0x0101_0101_0101_0101);
        code.alu(BpfAlu::Sub, R2, R3);
        code.copy(R4, R1);
        code.alu_constant(BpfAlu::Xor, R4, -1);
        code.alu(BpfAlu::And, R2, R4);
        code.set_long(R3, 0x8080_8080_8080_8080);
        code.alu(BpfAlu::And, R2, R3);
        code.jump_if(JumpIf::Equal, R2, 0, full);
        // Keeps the bytes before it.
        code.copy(R3, R2);
        code.negate(R3);
        code.alu(BpfAlu::And, R2, R3);
        code.alu_constant(BpfAlu::ShiftRight, R2, 7);
        code.add_constant(R2, -1);
        code.alu(BpfAlu::And, R1, R2);
        code.store(AccessSize::B8, base, place(word), R1);
        code.set(R1, 0);
        (word + 1..words).for_each(|word| code.store(AccessSize::B8, base, place(word), R1));
        code.jump(end);
        code.place(full);
        code.store(AccessSize::B8, base, place(word), R1);
    }
    code.place(end);
}

/// Loads up to 8 bytes of the record into R1, the first one lowest. The kernel refuses to load at
/// an offset that is not a multiple of the size.
fn load_word(code: &mut Assembler, offset: i16, bytes: usize) {
    code.set(R1, 0);
    let mut done = 0;
    while done < bytes {
        let at = offset + done as i16;
        let sizes = [AccessSize::B8, AccessSize::B4, AccessSize::B2, AccessSize::B1];
        let fits = |size: &AccessSize| {
            size.bytes() <= bytes - done && usize::from(at.unsigned_abs()) % size.bytes() == 0
        };
        let size = sizes.into_iter().find(fits).unwrap_or(AccessSize::B1);
        code.load(size, R2, CONTEXT, at);
        if done > 0 {
            code.shift_left(R2, 8 * done as i32);
        }
        code.or(R1, R2);
        done += size.bytes();
    }
}
