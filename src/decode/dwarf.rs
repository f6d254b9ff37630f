//! Prototypes of a program's functions, and their types, from DWARF.
//!
//! The debug information is untrusted: it is read within its bounds, and every walk has a limit.

use std::ops::Range;

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwAt, EndianSlice, NativeEndian, Unit, UnitOffset,
};

use super::ctypes::{Prototype, TypeMember, TypeShape, TypeTable};
use super::elf::{COMPRESSED, Elf};

type Bytes<'a> = EndianSlice<'a, NativeEndian>;
type Entry<'a> = DebuggingInformationEntry<Bytes<'a>>;

/// The compilation units of a file.
#[derive(Debug, Default)]
pub struct DwarfIndex {
    /// Addresses, and the offset of the unit in `.debug_info`.
    units: Vec<(Range<u64>, usize)>,
}

/// The debug information of the compilation unit with a function.
pub struct DwarfUnit<'a> {
    dwarf: gimli::Dwarf<Bytes<'a>>,
    unit: Unit<Bytes<'a>>,
}

/// Why a function has no prototype.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPrototype {
    /// There is no DWARF, or it does not have the function.
    #[error("the file has no debug information for this function; build it with -g")]
    NoDebugInfo,
    /// The sections are compressed.
    #[error("the debug information is compressed; decompress it with objcopy")]
    Compressed,
    /// The language does not define how arguments are passed.
    #[error("the source is not C or C++, so the registers of the arguments are not known")]
    Language,
    /// The compiler changed the calling convention.
    #[error("the compiler changed how this function gets its arguments")]
    Convention,
}

/// Maximum number of ranges of units, of entries of a unit, and of steps from one entry to another.
const UNITS_MAX: usize = 1 << 17;
const ENTRIES_MAX: usize = 1 << 22;
const STEPS_MAX: usize = 16;
/// Maximum number of members of a structure.
const MEMBERS_MAX: usize = 4096;

impl DwarfIndex {
    /// Reads which units a file has: some tenths of a second for the largest ones.
    ///
    /// # Errors
    /// There is no DWARF, or it is compressed.
    pub fn read(elf: Elf<'_>) -> Result<DwarfIndex, NoPrototype> {
        let dwarf = load(elf)?;
        let (mut units, mut headers) = (Vec::new(), dwarf.units());
        while units.len() < UNITS_MAX
            && let Ok(Some(header)) = headers.next()
        {
            let Some(at) = header.offset().to_debug_info_offset(&header) else { continue };
            let Ok(unit) = dwarf.unit(header) else { continue };
            let Ok(mut ranges) = dwarf.unit_ranges(&unit) else { continue };
            while units.len() < UNITS_MAX
                && let Ok(Some(range)) = ranges.next()
            {
                units.push((range.begin..range.end, at.0));
            }
        }
        Ok(DwarfIndex { units })
    }

    /// Returns the unit that has the function at an address before relocation, of the file that was
    /// indexed.
    ///
    /// # Errors
    /// There is no DWARF for this address.
    pub fn unit<'a>(&self, elf: Elf<'a>, address: u64) -> Result<DwarfUnit<'a>, NoPrototype> {
        let found = self.units.iter().find(|(range, _)| range.contains(&address));
        let (_, at) = found.ok_or(NoPrototype::NoDebugInfo)?;
        let dwarf = load(elf)?;
        let header = dwarf.unit_header(gimli::DebugInfoOffset(*at));
        let unit = header.and_then(|header| dwarf.unit(header));
        Ok(DwarfUnit { unit: unit.map_err(|_| NoPrototype::NoDebugInfo)?, dwarf })
    }
}

impl<'a> DwarfUnit<'a> {
    /// Returns the prototype of the function that begins at an address before relocation.
    ///
    /// # Errors
    /// It is not described, or its arguments are not where the ABI has them.
    pub fn prototype(&self, address: u64) -> Result<Prototype<UnitOffset>, NoPrototype> {
        if !self.is_c().unwrap_or(false) {
            return Err(NoPrototype::Language);
        }
        let function = self.function(address).ok_or(NoPrototype::NoDebugInfo)?;
        const NORMAL: u64 = 1;
        let convention = self.attr(&function, gimli::DW_AT_calling_convention);
        if convention.and_then(|value| value.udata_value()).is_some_and(|value| value != NORMAL) {
            return Err(NoPrototype::Convention);
        }
        let mut parameters = Vec::new();
        for child in self.children(&function, gimli::DW_TAG_formal_parameter) {
            let name = self.name(&child).unwrap_or_default();
            let type_ = self.type_of(&child).ok_or(NoPrototype::NoDebugInfo)?;
            parameters.push((name, type_));
        }
        Ok(Prototype { parameters, result: self.type_of(&function) })
    }

    /// Returns whether the source is C or C++.
    fn is_c(&self) -> Option<bool> {
        let root = self.unit.header.entries(&self.unit.abbreviations).next_dfs().ok()??.clone();
        let AttributeValue::Language(language) = root.attr_value(gimli::DW_AT_language)? else {
            return None;
        };
        Some(matches!(
            language,
            gimli::DW_LANG_C
                | gimli::DW_LANG_C89
                | gimli::DW_LANG_C99
                | gimli::DW_LANG_C11
                | gimli::DW_LANG_C17
                | gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20
        ))
    }

    fn function(&self, address: u64) -> Option<Entry<'a>> {
        let mut entries = self.unit.header.entries(&self.unit.abbreviations);
        for _ in 0..ENTRIES_MAX {
            let entry = entries.next_dfs().ok()??;
            if entry.tag() == gimli::DW_TAG_subprogram
                && let Some(low) = entry.attr_value(gimli::DW_AT_low_pc)
                && self.dwarf.attr_address(&self.unit, low).ok()? == Some(address)
            {
                return Some(entry.clone());
            }
        }
        None
    }

    /// Returns the children of an entry that have this tag.
    fn children(&self, parent: &Entry<'a>, tag: gimli::DwTag) -> Vec<Entry<'a>> {
        let mut found = Vec::new();
        let abbreviations = &self.unit.abbreviations;
        let Ok(mut entries) = self.unit.header.entries_at_offset(abbreviations, parent.offset())
        else {
            return found;
        };
        // The first one is the parent.
        if !matches!(entries.next_dfs(), Ok(Some(_))) {
            return found;
        }
        let top = entries.depth();
        for _ in 0..ENTRIES_MAX {
            let Ok(Some(entry)) = entries.next_dfs() else { break };
            if entry.depth() <= top || found.len() >= MEMBERS_MAX {
                break;
            }
            if entry.depth() == top + 1 && entry.tag() == tag {
                found.push(entry.clone());
            }
        }
        found
    }

    /// Returns an attribute of an entry, or of the one that it is an instance or a definition of.
    fn attr(&self, entry: &Entry<'a>, name: DwAt) -> Option<AttributeValue<Bytes<'a>>> {
        let mut entry = entry.clone();
        for _ in 0..STEPS_MAX {
            if let Some(value) = entry.attr_value(name) {
                return Some(value);
            }
            let origin = entry
                .attr_value(gimli::DW_AT_abstract_origin)
                .or_else(|| entry.attr_value(gimli::DW_AT_specification))?;
            entry = self.entry(self.offset(origin)?)?;
        }
        None
    }

    fn entry(&self, at: UnitOffset) -> Option<Entry<'a>> {
        self.unit.header.entry(&self.unit.abbreviations, at).ok()
    }

    /// Returns the entry that a reference leads to, if it is in this unit.
    fn offset(&self, reference: AttributeValue<Bytes<'a>>) -> Option<UnitOffset> {
        match reference {
            AttributeValue::UnitRef(at) => Some(at),
            AttributeValue::DebugInfoRef(at) => at.to_unit_offset(&self.unit.header),
            _ => None,
        }
    }

    fn type_of(&self, entry: &Entry<'a>) -> Option<UnitOffset> {
        self.offset(self.attr(entry, gimli::DW_AT_type)?)
    }

    fn name(&self, entry: &Entry<'a>) -> Option<String> {
        let value = self.attr(entry, gimli::DW_AT_name)?;
        let text = self.dwarf.attr_string(&self.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    fn number(&self, entry: &Entry<'a>, name: DwAt) -> Option<u64> {
        self.attr(entry, name)?.udata_value()
    }

    fn integer(&self, entry: &Entry<'a>) -> TypeShape<UnitOffset> {
        let size = self.number(entry, gimli::DW_AT_byte_size).unwrap_or(0);
        let encoding = match entry.attr_value(gimli::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => encoding,
            _ => return TypeShape::Other,
        };
        match encoding {
            gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char
                if size == 1 && self.name(entry).as_deref() == Some("char") =>
            {
                TypeShape::Char { signed: encoding == gimli::DW_ATE_signed_char }
            }
            gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => {
                TypeShape::Int { size, signed: true }
            }
            gimli::DW_ATE_unsigned
            | gimli::DW_ATE_unsigned_char
            | gimli::DW_ATE_boolean
            | gimli::DW_ATE_UTF => TypeShape::Int { size, signed: false },
            gimli::DW_ATE_float if size <= 8 => TypeShape::Float,
            _ => TypeShape::Other,
        }
    }
}

impl<'a> TypeTable for DwarfUnit<'a> {
    type Id = UnitOffset;

    fn shape(&self, id: UnitOffset) -> Option<TypeShape<UnitOffset>> {
        let mut entry = self.entry(id)?;
        for _ in 0..STEPS_MAX {
            return Some(match entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => {
                    entry = self.entry(self.type_of(&entry)?)?;
                    continue;
                }
                gimli::DW_TAG_base_type => self.integer(&entry),
                gimli::DW_TAG_enumeration_type => {
                    let of = self.type_of(&entry).and_then(|id| self.entry(id));
                    let signed = of.is_some_and(|of| {
                        matches!(self.integer(&of), TypeShape::Int { signed: true, .. })
                    });
                    let size = self.number(&entry, gimli::DW_AT_byte_size)?;
                    TypeShape::Int { size, signed }
                }
                gimli::DW_TAG_pointer_type
                | gimli::DW_TAG_reference_type
                | gimli::DW_TAG_rvalue_reference_type => TypeShape::Pointer(self.type_of(&entry)),
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type => TypeShape::Struct,
                gimli::DW_TAG_array_type => TypeShape::Array(self.type_of(&entry)?),
                _ => TypeShape::Other,
            });
        }
        None
    }

    fn members(&self, id: UnitOffset) -> Vec<TypeMember<UnitOffset>> {
        let mut structure = self.entry(id);
        for _ in 0..STEPS_MAX {
            let Some(entry) = &structure else { return Vec::new() };
            let is_named = matches!(
                entry.tag(),
                gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type
            );
            if !is_named {
                break;
            }
            structure = self.type_of(entry).and_then(|id| self.entry(id));
        }
        let Some(structure) = structure else { return Vec::new() };
        let members = self.children(&structure, gimli::DW_TAG_member);
        let member = |entry: &Entry<'a>| {
            let is_bit_field = [gimli::DW_AT_bit_size, gimli::DW_AT_data_bit_offset]
                .iter()
                .any(|name| entry.attr(*name).is_some());
            Some(TypeMember {
                name: self.name(entry).unwrap_or_default(),
                offset: match entry.attr_value(gimli::DW_AT_data_member_location) {
                    Some(value) => value.udata_value()?,
                    // The members of a union have none.
                    None => 0,
                },
                type_: self.type_of(entry)?,
                is_bit_field,
            })
        };
        members.iter().filter_map(member).collect()
    }
}

/// Returns the debug information of a file, of which parts may be missing.
fn load(elf: Elf<'_>) -> Result<gimli::Dwarf<Bytes<'_>>, NoPrototype> {
    let sections: Vec<_> =
        elf.sections().filter(|(name, _)| name.starts_with(b".debug_")).collect();
    if sections.iter().any(|(_, section)| section.flags & COMPRESSED != 0) {
        return Err(NoPrototype::Compressed);
    }
    gimli::Dwarf::load(|id| {
        let found = sections.iter().find(|(name, _)| *name == id.name().as_bytes());
        let bytes = found.and_then(|(_, section)| section.bytes).unwrap_or_default();
        Ok(EndianSlice::new(bytes, NativeEndian))
    })
}
