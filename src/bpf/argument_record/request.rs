//! Fields of records of block requests, from `struct request`.
//!
//! Source: `block_rq_issue`, `block_rq_complete` and `block_rq_requeue` in
//! include/trace/events/block.h; `blk_fill_rwbs()` in kernel/trace/blktrace.c.

use super::super::assembler::BpfRegister::*;
use super::super::assembler::{AccessSize, Assembler, BpfAlu, JumpIf};
use super::load_argument;

/// A field of the record, computed from the request in the first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestField {
    /// `dev`: the number of the disk.
    Device,
    /// `sector`: the first one; 0 for a command of the driver.
    Sector,
    /// `nr_sector`; 0 for a command of the driver.
    Sectors,
    /// The first byte of `rwbs`.
    Kind,
}

/// The requests of the running kernel: offsets of members in bytes, and numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestLayout {
    /// `q` of `struct request`.
    pub queue: i16,
    /// `disk` of `struct request_queue`.
    pub disk: i16,
    /// `major` of `struct gendisk`.
    pub major: i16,
    /// `first_minor` of `struct gendisk`.
    pub minor: i16,
    /// `cmd_flags` of `struct request`.
    pub flags: i16,
    /// `__sector` of `struct request`.
    pub sector: i16,
    /// `__data_len` of `struct request`.
    pub bytes: i16,
    /// `REQ_PREFLUSH`.
    pub preflush: i32,
    /// `REQ_OP_DRV_IN` and `REQ_OP_DRV_OUT`.
    pub driver: [i32; 2],
    /// The letters of operations; the others have `N`.
    pub letters: Vec<(i32, u8)>,
}

/// Bits of a minor number.
const MINOR_BITS: i32 = 20;
/// Binary logarithm of the size of a sector.
pub(super) const SECTOR_SHIFT: i32 = 9;
/// `REQ_OP_MASK`.
const OPERATION: i32 = 0xff;

impl RequestField {
    /// Sets R3 to the field. R1 has the arguments; R2 to R5 are overwritten.
    pub(super) fn compute(self, code: &mut Assembler, at: &RequestLayout) {
        load_argument(code, R2, 0);
        match self {
            RequestField::Device => {
                // Without a disk, the loads from its place yield 0.
                code.load(AccessSize::B8, R2, R2, at.queue);
                code.load(AccessSize::B8, R2, R2, at.disk);
                code.load(AccessSize::B4, R3, R2, at.major);
                code.shift_left(R3, MINOR_BITS);
                code.load(AccessSize::B4, R4, R2, at.minor);
                code.or(R3, R4);
            }
            RequestField::Sector | RequestField::Sectors => {
                let [none, known] = [(); 2].map(|()| code.label());
                code.load(AccessSize::B4, R4, R2, at.flags);
                code.alu_constant(BpfAlu::And, R4, OPERATION);
                code.set(R3, 0);
                for operation in at.driver {
                    code.jump_if(JumpIf::Equal, R4, operation, known);
                }
                if self == RequestField::Sectors {
                    code.load(AccessSize::B4, R3, R2, at.bytes);
                    code.alu_constant(BpfAlu::ShiftRight, R3, SECTOR_SHIFT);
                    return code.place(known);
                }
                code.load(AccessSize::B8, R3, R2, at.sector);
                code.jump_if(JumpIf::Equal, R3, -1, none);
                code.jump(known);
                code.place(none);
                code.set(R3, 0);
                code.place(known);
            }
            RequestField::Kind => {
                let known = code.label();
                code.load(AccessSize::B4, R2, R2, at.flags);
                code.copy(R4, R2);
                code.alu_constant(BpfAlu::And, R4, at.preflush);
                code.set(R3, b'F'.into());
                code.jump_if(JumpIf::Unequal, R4, 0, known);
                code.alu_constant(BpfAlu::And, R2, OPERATION);
                for &(operation, letter) in &at.letters {
                    code.set(R3, letter.into());
                    code.jump_if(JumpIf::Equal, R2, operation, known);
                }
                code.set(R3, b'N'.into());
                code.place(known);
            }
        }
    }
}
