//! FFI pointers with which compiled handlers load an integer of a record; their names are locals of
//! `prelude/expression.lua`.

use crate::decode::c::Int;

/// Returns the name of the pointer to integers of `size` bytes and their C type; None if C has no
/// integer of this size.
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
