//! Debug information of one function with one parameter, byte by byte.

use gimli::{EndianSlice, NativeEndian, SectionId};

use super::unit::DwarfUnit;
use crate::decode::ctypes::ParameterLocation;

/// Abbreviations (DWARF 4, 7.5.3): a unit with a language, a function with an address and a calling
/// convention, a parameter with a name and a type, and a type with a size and an encoding.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x13, 0x0b, 0, 0, //
    2, 0x2e, 1, 0x11, 0x01, 0x36, 0x0b, 0, 0, //
    3, 0x05, 0, 0x03, 0x08, 0x49, 0x13, 0, 0, //
    4, 0x24, 0, 0x0b, 0x0b, 0x3e, 0x0b, 0, 0, //
    0,
];

/// Address of the function.
const ENTRY: u64 = 0x1000;

/// Returns a unit in C99 with the function `f(int n)`, without a location of `n`.
fn unit(convention: gimli::DwCc) -> Vec<u8> {
    let mut function = vec![2];
    function.extend(ENTRY.to_ne_bytes());
    function.push(convention.0);
    let header = [&4_u16.to_ne_bytes()[..], &0_u32.to_ne_bytes(), &[8]].concat();
    let before_type = 4 + header.len() + 2 + function.len() + 7 + 1;
    let parameter = [&b"\x03n\0"[..], &(before_type as u32).to_ne_bytes(), &[0]].concat();
    let body = [&header[..], &[1, 0x0c], &function, &parameter, &[4, 4, 5, 0]].concat();
    [&(body.len() as u32).to_ne_bytes()[..], &body].concat()
}

/// Returns where the parameter is.
fn location(convention: gimli::DwCc) -> ParameterLocation {
    let info = unit(convention);
    let section = |id| {
        let bytes = match id {
            SectionId::DebugInfo => info.as_slice(),
            SectionId::DebugAbbrev => ABBREVIATIONS,
            _ => &[],
        };
        EndianSlice::new(bytes, NativeEndian)
    };
    let dwarf = gimli::Dwarf::load(|id| Ok::<_, ()>(section(id))).unwrap();
    let lists = [SectionId::DebugLoc, SectionId::DebugLocLists].map(section);
    let unit = DwarfUnit::open(dwarf, lists, &[0], 0).unwrap();
    let mut prototype = unit.prototype(ENTRY, false).unwrap();
    prototype.parameters.pop().unwrap().location
}

#[test]
fn parameters_of_a_function_with_a_convention_of_its_own_are_not_where_the_usual_one_has_them() {
    assert!(matches!(location(gimli::DW_CC_normal), ParameterLocation::ByPosition));
    for convention in [gimli::DW_CC_nocall, gimli::DW_CC_lo_user] {
        assert!(matches!(location(convention), ParameterLocation::Unknown(_)), "{convention}");
    }
}
