//! Locations of parameters at the first instruction of their function.
//!
//! Nothing of the function has run there: registers and the caller's part of the stack are as the
//! caller left them, and the function's own frame does not exist. A location in that frame, as
//! `gcc -O0` gives for each parameter, is therefore not valid yet; the parameter is where the
//! calling convention has it, unless the compiler changed that.
//!
//! Source: the DWARF 5 standard, 2.6 and 3.3; for lists with views of the source that share an
//! address, `DW_AT_GNU_locviews`, as `dwarf2out_maybe_output_loclist_view_pair()` of gcc writes it.

use gimli::{
    AttributeValue, DebuggingInformationEntry, Expression, Operation, RawLocListEntry, Reader as _,
    Unit,
};

use super::sections::Bytes;
use crate::decode::ctypes::ParameterLocation;

/// Why a parameter without a location has no value.
pub(super) const REMOVED: &str =
    "was optimized out of this function; read it in a caller, or build without optimization";
/// Why the position of a parameter does not lead to it.
const CHANGED: &str = "is passed in a way that the compiler changed and does not describe; read \
                       it in a caller, or build without optimization";
/// Why a location at the call cannot be read.
const COMPUTED: &str = "is in several registers or has to be computed; read it in a caller, or \
                        build without optimization";

/// Maximum number of ranges of a list that are read.
const LIST_MAX: usize = 4096;

/// How the parameters of a function are passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convention {
    /// Address of its first instruction before relocation.
    pub(super) entry: u64,
    /// Whether the compiler may have changed which parameters are passed.
    pub(super) is_changed: bool,
    /// Whether it is a copy of a function that is described elsewhere (`DW_AT_abstract_origin`).
    pub(super) is_instance: bool,
    /// Whether offsets in its frame are relative to the end of the caller's frame
    /// (`DW_OP_call_frame_cfa`).
    pub(super) is_from_caller: bool,
}

/// A range of a location list.
struct ListEntry<'a> {
    begin: u64,
    end: u64,
    expression: Expression<Bytes<'a>>,
}

/// Debug information that locations are read from.
pub(super) struct Locations<'a, 'b> {
    pub(super) dwarf: &'b gimli::Dwarf<Bytes<'a>>,
    /// The unit of the entries.
    pub(super) unit: &'b Unit<Bytes<'a>>,
    /// The sections of location lists before DWARF 5 and since.
    pub(super) lists: [Bytes<'a>; 2],
}

/// The description of a function or parameter.
type Description<'a> = DebuggingInformationEntry<Bytes<'a>>;

impl<'a> Locations<'a, '_> {
    /// Returns the address of the first instruction of a function. One with parts elsewhere
    /// (`f.cold`) has a list of ranges, of which the first one is its beginning.
    pub(super) fn begin(&self, entry: &Description<'a>) -> Option<u64> {
        match entry.attr_value(gimli::DW_AT_low_pc) {
            Some(low) => self.dwarf.attr_address(self.unit, low).ok()?,
            None => Some(self.dwarf.die_ranges(self.unit, entry).ok()?.next().ok()??.begin),
        }
    }

    /// Returns where a parameter is at the first instruction. `entry` is its description in the
    /// function, not in the source.
    pub(super) fn location(&self, entry: &Description<'a>, of: Convention) -> ParameterLocation {
        if let Some(value) = entry.attr_value(gimli::DW_AT_const_value) {
            return constant(&value);
        }
        match entry.attr_value(gimli::DW_AT_location) {
            None if of.is_instance || of.is_changed => ParameterLocation::Unknown(REMOVED),
            None => ParameterLocation::ByPosition,
            Some(AttributeValue::Exprloc(expression)) => match read(expression, self.unit, of) {
                // An address relative to a register is one of the function's frame, too.
                None | Some(ParameterLocation::Memory { .. }) if of.is_changed => {
                    ParameterLocation::Unknown(CHANGED)
                }
                None | Some(ParameterLocation::Memory { .. }) => ParameterLocation::ByPosition,
                Some(known) => known,
            },
            Some(list) => match self.first_of_list(entry, list, of.entry) {
                Some(Some(expression)) => {
                    read(expression, self.unit, of).unwrap_or(ParameterLocation::Unknown(CHANGED))
                }
                Some(None) => ParameterLocation::Unknown(REMOVED),
                None => ParameterLocation::Unknown(COMPUTED),
            },
        }
    }

    /// Returns the location in a list that holds before the first instruction and before the first
    /// statement; `Some(None)` if there is none, and None if the list cannot be read.
    fn first_of_list(
        &self,
        entry: &Description<'a>,
        list: AttributeValue<Bytes<'a>>,
        address: u64,
    ) -> Option<Option<Expression<Bytes<'a>>>> {
        let offset = self.dwarf.attr_locations_offset(self.unit, list).ok()??;
        let mut entries = self.dwarf.raw_locations(self.unit, offset).ok()?;
        let mut views = match entry.attr_value(gimli::DW_AT_GNU_locviews) {
            Some(AttributeValue::SecOffset(at)) => {
                let mut section = self.lists[usize::from(self.unit.encoding().version >= 5)];
                section.skip(at).ok()?;
                Some(section)
            }
            _ => None,
        };
        let mut base = self.unit.low_pc;
        for _ in 0..LIST_MAX {
            let Some(raw) = entries.next().ok()? else { return Some(None) };
            let Some(found) = self.list_entry(&raw, &mut base)? else { continue };
            let first_view = match &mut views {
                Some(views) => {
                    let (first, _) = (views.read_uleb128().ok()?, views.read_uleb128().ok()?);
                    first
                }
                None => 0,
            };
            // An empty range holds until the first statement, which has the same address.
            let holds = found.begin == address || (found.begin..found.end).contains(&address);
            if holds {
                let is_passed = found.begin < address || first_view == 0;
                return Some(is_passed.then_some(found.expression));
            }
        }
        None
    }

    /// Returns a range of a list; `Some(None)` for an entry that only sets the base of others, and
    /// None if it cannot be read.
    fn list_entry(
        &self,
        raw: &RawLocListEntry<Bytes<'a>>,
        base: &mut u64,
    ) -> Option<Option<ListEntry<'a>>> {
        let address = |index| self.dwarf.address(self.unit, index).ok();
        let (begin, end, expression) = match *raw {
            RawLocListEntry::BaseAddress { addr } => {
                *base = addr;
                return Some(None);
            }
            RawLocListEntry::BaseAddressx { addr } => {
                *base = address(addr)?;
                return Some(None);
            }
            RawLocListEntry::AddressOrOffsetPair { begin, end, data }
            | RawLocListEntry::OffsetPair { begin, end, data } => {
                (base.wrapping_add(begin), base.wrapping_add(end), data)
            }
            RawLocListEntry::StartxEndx { begin, end, data } => {
                (address(begin)?, address(end)?, data)
            }
            RawLocListEntry::StartxLength { begin, length, data } => {
                let begin = address(begin)?;
                (begin, begin.wrapping_add(length), data)
            }
            RawLocListEntry::StartEnd { begin, end, data } => (begin, end, data),
            RawLocListEntry::StartLength { begin, length, data } => {
                (begin, begin.wrapping_add(length), data)
            }
            RawLocListEntry::DefaultLocation { data } => (0, u64::MAX, data),
        };
        Some(Some(ListEntry { begin, end, expression }))
    }
}

/// Returns whether a frame base is the end of the caller's frame.
pub(super) fn is_caller_frame(base: &AttributeValue<Bytes<'_>>, unit: &Unit<Bytes<'_>>) -> bool {
    let AttributeValue::Exprloc(expression) = base else { return false };
    matches!(operations(*expression, unit).as_deref(), Some([Operation::CallFrameCFA]))
}

/// Returns the location that an expression describes; None if it is in the function's own frame.
fn read(
    expression: Expression<Bytes<'_>>,
    unit: &Unit<Bytes<'_>>,
    of: Convention,
) -> Option<ParameterLocation> {
    let operations = operations(expression, unit).unwrap_or_default();
    Some(match &operations[..] {
        [Operation::Register { register }] => ParameterLocation::Register(register.0),
        [Operation::EntryValue { expression }, Operation::StackValue] => {
            match self::operations(Expression(*expression), unit).as_deref() {
                Some([Operation::Register { register }]) => ParameterLocation::Register(register.0),
                _ => ParameterLocation::Unknown(COMPUTED),
            }
        }
        [Operation::RegisterOffset { register, offset: 0, .. }, Operation::StackValue] => {
            ParameterLocation::Register(register.0)
        }
        [Operation::RegisterOffset { register, offset, .. }] => {
            ParameterLocation::Memory { register: register.0, offset: *offset }
        }
        [Operation::FrameOffset { offset: offset @ 0.. }] if of.is_from_caller => {
            ParameterLocation::CallerFrame(*offset)
        }
        [Operation::FrameOffset { .. }, ..] => return None,
        [Operation::UnsignedConstant { value }, Operation::StackValue] => {
            ParameterLocation::Constant(value.cast_signed())
        }
        [Operation::SignedConstant { value }, Operation::StackValue] => {
            ParameterLocation::Constant(*value)
        }
        [Operation::ImplicitValue { data }] => constant(&AttributeValue::Block(*data)),
        [] | [Operation::ParameterRef { .. } | Operation::ImplicitPointer { .. }, ..] => {
            ParameterLocation::Unknown(REMOVED)
        }
        _ => ParameterLocation::Unknown(COMPUTED),
    })
}

/// Maximum number of operations that are read; each expression that is understood has at most 2.
const OPERATIONS_MAX: usize = 4;

fn operations<'a>(
    expression: Expression<Bytes<'a>>,
    unit: &Unit<Bytes<'a>>,
) -> Option<Vec<Operation<Bytes<'a>>>> {
    let (mut all, mut left) = (Vec::new(), expression.operations(unit.encoding()));
    while let Some(operation) = left.next().ok()? {
        if all.len() >= OPERATIONS_MAX {
            return None;
        }
        all.push(operation);
    }
    Some(all)
}

/// Returns the location of a parameter whose value is in the debug information.
fn constant(value: &AttributeValue<Bytes<'_>>) -> ParameterLocation {
    let value = match value {
        AttributeValue::Sdata(value) => Some(*value),
        AttributeValue::Block(bytes) if bytes.len() <= size_of::<i64>() => {
            let mut word = [0; size_of::<i64>()];
            word[..bytes.len()].copy_from_slice(bytes.slice());
            Some(i64::from_le_bytes(word))
        }
        value => value.udata_value().map(u64::cast_signed),
    };
    value.map_or(ParameterLocation::Unknown(COMPUTED), ParameterLocation::Constant)
}
