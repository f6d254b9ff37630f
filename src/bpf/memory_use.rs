//! Reads from the instructions of a program which parts of its record and of its stack it uses.

use std::collections::BTreeSet;
use std::ops::Range;

use super::assembler::BpfRegister;
use super::expression::CONTEXT;
use super::record_text::OFFSET_MASK;

/// The parts of memory that a program uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryUse {
    /// The bytes of the record that are loaded.
    pub(super) loads: Vec<Range<i16>>,
    /// The texts that are read, by the offsets of their locations.
    pub(super) texts: BTreeSet<i16>,
    /// The lowest offset from R10 that it uses; 0 if it uses no stack.
    pub(super) lowest: i16,
}

/// An instruction.
#[derive(Clone, Copy)]
struct Instruction {
    opcode: u8,
    dst: u8,
    src: u8,
    offset: i16,
    imm: i32,
}

/// Classes of instructions: the lowest 3 bits of the opcode.
const LD: u8 = 0;
const LDX: u8 = 1;
const ST: u8 = 2;
const STX: u8 = 3;
const ALU: u8 = 4;
const ALU64: u8 = 7;
/// Bit of an opcode of a computation or a jump: the second operand is a register.
const BY_REGISTER: u8 = 0x08;
/// `dst = src` and `dst += value`.
const COPY: u8 = 0xbf;
const ADD_CONSTANT: u8 = 0x07;
/// `dst &= value`.
const AND_CONSTANT: u8 = 0x57;

const RECORD: u8 = CONTEXT as u8;
const FRAME: u8 = BpfRegister::R10 as u8;
/// The register of the record when the program begins.
const ARGUMENT: u8 = BpfRegister::R1 as u8;

impl MemoryUse {
    /// Returns what a program uses. Its first instruction copies the record's address to
    /// [`CONTEXT`]. Returns None if it uses the record for more than loads and texts.
    pub(super) fn of(program: &[u64]) -> Option<MemoryUse> {
        let mut used = MemoryUse::default();
        let mut words = program.iter().map(|word| Instruction::decode(*word));
        let first = words.next()?;
        if (first.opcode, first.dst, first.src) != (COPY, RECORD, ARGUMENT) {
            return None;
        }
        let (mut before, mut last) = (first, first);
        while let Some(one) = words.next() {
            if one.writes(RECORD) {
                return None;
            }
            if one.reads(RECORD) && one.class() != LDX {
                used.texts.insert(one.text_at(before, last)?);
            }
            match one.class() {
                LD => _ = words.next()?,
                LDX if one.src == RECORD => {
                    used.loads.push(one.offset..one.offset.checked_add(one.bytes())?);
                }
                LDX if one.src == FRAME => used.lowest = used.lowest.min(one.offset),
                ST | STX if one.dst == FRAME => used.lowest = used.lowest.min(one.offset),
                // The address of something on the stack.
                ALU64 if one.opcode == ADD_CONSTANT && last.is_copy_of(FRAME, one.dst) => {
                    used.lowest = used.lowest.min(i16::try_from(one.imm).ok()?);
                }
                _ => {}
            }
            (before, last) = (last, one);
        }
        Some(used)
    }
}

impl Instruction {
    fn decode(word: u64) -> Instruction {
        let [opcode, registers, low, high, imm @ ..] = word.to_le_bytes();
        Instruction {
            opcode,
            dst: registers & 0xf,
            src: registers >> 4,
            offset: i16::from_le_bytes([low, high]),
            imm: i32::from_le_bytes(imm),
        }
    }

    fn class(self) -> u8 {
        self.opcode & 7
    }

    /// Returns the size of a load or store.
    fn bytes(self) -> i16 {
        match self.opcode & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        }
    }

    /// Returns the offset of the location of a text, whose address this instruction begins to
    /// compute from the record's: the two before it have loaded the offset. At most `TEXT_MAX`
    /// bytes are read there. None for another instruction.
    fn text_at(self, load: Instruction, and: Instruction) -> Option<i16> {
        let is_load = load.class() == LDX && load.src == RECORD && load.bytes() == 4;
        let is_offset = (and.opcode, and.dst, and.imm) == (AND_CONSTANT, load.dst, OFFSET_MASK);
        let is_copy = self.opcode == COPY && self.src == RECORD && self.dst != load.dst;
        (is_load && is_offset && is_copy).then_some(load.offset)
    }

    fn is_copy_of(self, src: u8, dst: u8) -> bool {
        (self.opcode, self.src, self.dst) == (COPY, src, dst)
    }

    fn reads(self, register: u8) -> bool {
        match self.class() {
            LD => false,
            LDX => self.src == register,
            ST => self.dst == register,
            STX => self.src == register || self.dst == register,
            _ => {
                let has_source = self.opcode & BY_REGISTER != 0;
                has_source && self.src == register || self.dst == register
            }
        }
    }

    fn writes(self, register: u8) -> bool {
        matches!(self.class(), LD | LDX | ALU | ALU64) && self.dst == register
    }
}
