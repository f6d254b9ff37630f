//! Access to the elements of maps from a program.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfHelper};
use super::expression::CGROUP_AT;

/// Bytes of a word.
pub(super) const WORD: usize = 8;
/// Offset from R10 of the key of an array, 4 bytes.
pub(super) const INDEX_AT: i16 = CGROUP_AT - 8;
/// Offset from R10 of the index of the table in use, 4 bytes.
pub(super) const TABLE_AT: i16 = INDEX_AT + 4;
/// Flag of an update: only if the key is not there.
pub(super) const NO_EXIST: i32 = 1;

/// Sets R0 to an element of an array.
pub(super) fn look_up(code: &mut Assembler, map: i32, index: i32) {
    code.store_constant(AccessSize::B4, R10, INDEX_AT, index);
    look_up_at(code, map, INDEX_AT);
}

/// Sets R0 to the element of an array whose index is at an offset from R10.
pub(super) fn look_up_at(code: &mut Assembler, map: i32, index_at: i16) {
    code.set_map(R1, map);
    code.copy(R2, R10);
    code.add_constant(R2, index_at.into());
    code.call(BpfHelper::MapLookup);
}

/// Sets R1 to the table in R8, and R2 to the key at an offset from R10.
pub(super) fn table_key(code: &mut Assembler, key_at: i16) {
    code.copy(R1, R8);
    code.copy(R2, R10);
    code.add_constant(R2, key_at.into());
}
