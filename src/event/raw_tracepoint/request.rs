//! The layout of block requests, and the letters of their operations.

use super::{place, size_of};
use crate::bpf::argument_record::request::RequestLayout;
use crate::decode::btf::prototypes::BtfTypes;

/// First letters of `rwbs` by operation.
const OPERATIONS: &[(&str, u8)] = &[
    ("REQ_OP_READ", b'R'),
    ("REQ_OP_WRITE", b'W'),
    ("REQ_OP_FLUSH", b'F'),
    ("REQ_OP_DISCARD", b'D'),
    ("REQ_OP_SECURE_ERASE", b'D'),
];
/// Those of operations on zones. The change of the kernel that gave them letters also made `rwbs`
/// longer, to [`WITH_ZONES`] bytes.
const ZONE_OPERATIONS: &[(&str, u8)] = &[
    ("REQ_OP_ZONE_APPEND", b'Z'),
    ("REQ_OP_ZONE_RESET", b'Z'),
    ("REQ_OP_ZONE_RESET_ALL", b'Z'),
    ("REQ_OP_ZONE_FINISH", b'Z'),
    ("REQ_OP_ZONE_OPEN", b'Z'),
    ("REQ_OP_ZONE_CLOSE", b'Z'),
];
/// Least size of `rwbs` in bytes where operations on zones have letters.
const WITH_ZONES: usize = 10;

/// Returns the layout of the request to which a pointer of a type leads, for records whose `rwbs`
/// has this many bytes.
pub(super) fn layout(types: &BtfTypes, request: u32, rwbs_bytes: usize) -> Option<RequestLayout> {
    // Each with its size in bytes.
    let member = |pointer, name: &str, size| {
        let (at, type_) = place(types, pointer, name)?;
        (size_of(types, type_)? == size).then_some(at)
    };
    let (queue, to_queue) = place(types, request, "q")?;
    let (disk, to_disk) = place(types, to_queue, "disk")?;
    let operations = types.enumeration("req_op");
    let flags = types.enumeration("req_flag_bits");
    let zones: &[_] = if rwbs_bytes >= WITH_ZONES { ZONE_OPERATIONS } else { &[] };
    let letters = OPERATIONS.iter().chain(zones);
    let letters =
        letters.filter_map(|(name, letter)| Some((value_of(&operations, name)?, *letter)));
    let preflush = value_of(&flags, "__REQ_PREFLUSH")?;
    let driver =
        [value_of(&operations, "REQ_OP_DRV_IN")?, value_of(&operations, "REQ_OP_DRV_OUT")?];
    Some(RequestLayout {
        queue,
        disk,
        major: member(to_disk, "major", 4)?,
        minor: member(to_disk, "first_minor", 4)?,
        flags: member(request, "cmd_flags", 4)?,
        sector: member(request, "__sector", 8)?,
        bytes: member(request, "__data_len", 4)?,
        preflush: 1i32.checked_shl(preflush.try_into().ok()?)?,
        driver,
        letters: letters.collect(),
    })
}

fn value_of(enumeration: &[(&[u8], i32)], name: &str) -> Option<i32> {
    let found = enumeration.iter().find(|(own, _)| *own == name.as_bytes());
    found.map(|(_, value)| *value)
}
