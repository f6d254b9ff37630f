//! How compiled handlers load an integer of a record: the pointer of Lua's FFI that `prelude/expression.lua` declares.

use crate::decode::c::Int;

/// The name of the pointer to integers of so many bytes, and their type in C; None for what is no integer of C.
pub(super) fn pointer(size: usize, signed: bool) -> Option<(&'static str, Int)> {
    let name = match (size, signed) {
        (1, true) => "I8",
        (1, false) => "U8",
        (2, true) => "I16",
        (2, false) => "U16",
        (4, true) => "I32",
        (4, false) => "U32",
        (8, true) => "I64",
        (8, false) => "U64",
        _ => return None,
    };
    Some((name, Int { bits: size as u8 * 8, signed }))
}
