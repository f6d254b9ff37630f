//! The debug information of a function: its unit, and those that it refers to.
//!
//! A link-time optimizer puts the code of a function into one unit and describes its parameters and
//! types in others.

use std::cell::RefCell;
use std::rc::Rc;

use gimli::{AttributeValue, DebuggingInformationEntry, DwAt, Unit, UnitOffset};

use super::NoPrototype;
use super::location::{Convention, Locations, REMOVED, is_caller_frame};
use super::sections::Bytes;
use crate::decode::ctypes::{
    BitField, FunctionParameter, ParameterLocation, Prototype, TypeMember, TypeShape, TypeTable,
};

/// The debug information of the compilation unit with a function.
pub struct DwarfUnit<'a> {
    dwarf: gimli::Dwarf<Bytes<'a>>,
    /// The sections of location lists before DWARF 5 and since.
    locations: [Bytes<'a>; 2],
    /// Offsets of all units in `.debug_info`, ascending.
    offsets: &'a [usize],
    /// The units that were read, first that of the function, each with its offset.
    units: RefCell<Vec<(usize, Rc<Unit<Bytes<'a>>>)>>,
}

/// Identifies an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId {
    /// Index of its unit among those that were read.
    unit: usize,
    at: UnitOffset,
}

/// An entry, and the index of its unit.
#[derive(Clone)]
struct Entry<'a> {
    unit: usize,
    die: DebuggingInformationEntry<Bytes<'a>>,
}

/// A value, and the index of the unit that it refers to.
type UnitValue<'a> = (usize, AttributeValue<Bytes<'a>>);

/// Maximum number of steps from one entry to another.
const STEPS_MAX: usize = 16;
/// Maximum number of attributes that one walk of entries reads: some tenths of a second.
const ATTRIBUTES_MAX: usize = 1 << 24;
/// Maximum number of members of a structure.
const MEMBERS_MAX: usize = 4096;
/// Maximum number of units that a function and its types are read from.
const UNITS_MAX: usize = 256;

impl<'a> DwarfUnit<'a> {
    /// Returns the unit at an offset in `.debug_info`; None if it cannot be read. `offsets` are
    /// those of all units.
    pub(super) fn open(
        dwarf: gimli::Dwarf<Bytes<'a>>,
        locations: [Bytes<'a>; 2],
        offsets: &'a [usize],
        at: usize,
    ) -> Option<DwarfUnit<'a>> {
        let unit = DwarfUnit { dwarf, locations, offsets, units: RefCell::default() };
        unit.read(at)?;
        Some(unit)
    }

    /// Returns the prototype of the function that begins at an address before relocation.
    /// `is_clone`: the compiler made it from another one and may pass other parameters.
    ///
    /// # Errors
    /// It is not described, or its language does not define how arguments are passed.
    pub fn prototype(
        &self,
        address: u64,
        is_clone: bool,
    ) -> Result<Prototype<EntryId>, NoPrototype> {
        let function = self.function(address).ok_or(NoPrototype::NoDebugInfo)?;
        if !self.is_c(self.origin(&function).unit).unwrap_or(false) {
            return Err(NoPrototype::Language);
        }
        let normal = AttributeValue::CallingConvention(gimli::DW_CC_normal);
        let convention = self.attr(&function, gimli::DW_AT_calling_convention);
        let base = function.die.attr_value(gimli::DW_AT_frame_base);
        let unit = self.unit(function.unit).ok_or(NoPrototype::NoDebugInfo)?;
        let described = self.reference(&function, gimli::DW_AT_abstract_origin);
        let convention = Convention {
            entry: address,
            is_changed: is_clone || convention.is_some_and(|(_, value)| value != normal),
            is_instance: described.is_some(),
            is_from_caller: base.is_some_and(|base| is_caller_frame(&base, &unit)),
        };
        let parameters = self.parameters(&function, described, convention);
        let parameters = parameters.ok_or(NoPrototype::NoDebugInfo)?;
        Ok(Prototype { parameters, result: self.type_of(&function) })
    }

    /// Returns the parameters of a function in the order of the source. `described` is the
    /// description of the function if this is a copy of it, which may have fewer parameters in
    /// another order.
    fn parameters(
        &self,
        function: &Entry<'a>,
        described: Option<EntryId>,
        convention: Convention,
    ) -> Option<Vec<FunctionParameter<EntryId>>> {
        let unit = self.unit(function.unit)?;
        let locations = self.locations(&unit);
        let locate = |own: &Entry<'a>| locations.location(&own.die, convention);
        let mut own = self.children(function, gimli::DW_TAG_formal_parameter);
        let described = described.and_then(|id| self.entry(id));
        let in_source = described.map_or(Vec::new(), |described| {
            self.children(&described, gimli::DW_TAG_formal_parameter)
        });
        let mut all = Vec::new();
        for declared in in_source {
            let id = Some(EntryId { unit: declared.unit, at: declared.die.offset() });
            let is = |own: &Entry<'a>| self.reference(own, gimli::DW_AT_abstract_origin) == id;
            let location = match own.iter().position(is) {
                Some(at) => locate(&own.remove(at)),
                None => ParameterLocation::Unknown(REMOVED),
            };
            all.push((declared, location));
        }
        all.extend(own.into_iter().map(|own| {
            let location = locate(&own);
            (own, location)
        }));
        let parameter = |(entry, location): (Entry<'a>, ParameterLocation)| {
            let name = self.name(&entry).unwrap_or_default();
            Some(FunctionParameter { name, type_: self.type_of(&entry)?, location })
        };
        all.into_iter().map(parameter).collect()
    }

    /// Returns the index of the unit at an offset in `.debug_info`, which it reads if necessary.
    fn read(&self, at: usize) -> Option<usize> {
        let mut units = self.units.borrow_mut();
        if let Some(known) = units.iter().position(|(offset, _)| *offset == at) {
            return Some(known);
        }
        if units.len() >= UNITS_MAX {
            return None;
        }
        let header = self.dwarf.unit_header(gimli::DebugInfoOffset(at)).ok()?;
        units.push((at, Rc::new(self.dwarf.unit(header).ok()?)));
        Some(units.len() - 1)
    }

    fn unit(&self, index: usize) -> Option<Rc<Unit<Bytes<'a>>>> {
        Some(self.units.borrow().get(index)?.1.clone())
    }

    /// Returns whether the source of a unit is C or C++.
    fn is_c(&self, unit: usize) -> Option<bool> {
        let unit = self.unit(unit)?;
        let mut entries = unit.header.entries(&unit.abbreviations);
        let root = entries.next_dfs().ok()??;
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

    /// Returns the entry of the function that begins at an address.
    fn function(&self, address: u64) -> Option<Entry<'a>> {
        let unit = self.unit(0)?;
        let mut entries = unit.header.entries(&unit.abbreviations);
        let mut read = 0;
        while read < ATTRIBUTES_MAX {
            let entry = entries.next_dfs().ok()??;
            read += 1 + entry.attrs().len();
            if entry.tag() == gimli::DW_TAG_subprogram
                && self.locations(&unit).begin(entry) == Some(address)
            {
                return Some(Entry { unit: 0, die: entry.clone() });
            }
        }
        None
    }

    fn locations<'b>(&'b self, unit: &'b Unit<Bytes<'a>>) -> Locations<'a, 'b> {
        Locations { dwarf: &self.dwarf, unit, lists: self.locations }
    }

    /// Returns the children of an entry that have this tag.
    fn children(&self, parent: &Entry<'a>, tag: gimli::DwTag) -> Vec<Entry<'a>> {
        let mut found = Vec::new();
        let Some(unit) = self.unit(parent.unit) else { return found };
        let at = parent.die.offset();
        let Ok(mut entries) = unit.header.entries_at_offset(&unit.abbreviations, at) else {
            return found;
        };
        // The first one is the parent.
        if !matches!(entries.next_dfs(), Ok(Some(_))) {
            return found;
        }
        let top = entries.depth();
        let mut read = 0;
        while read < ATTRIBUTES_MAX
            && let Ok(Some(entry)) = entries.next_dfs()
        {
            if entry.depth() <= top || found.len() >= MEMBERS_MAX {
                break;
            }
            read += 1 + entry.attrs().len();
            if entry.depth() == top + 1 && entry.tag() == tag {
                found.push(Entry { unit: parent.unit, die: entry.clone() });
            }
        }
        found
    }

    /// Returns an attribute of an entry, or of the one that it is an instance or a definition of.
    fn attr(&self, entry: &Entry<'a>, name: DwAt) -> Option<UnitValue<'a>> {
        let mut entry = entry.clone();
        for _ in 0..STEPS_MAX {
            if let Some(value) = entry.die.attr_value(name) {
                return Some((entry.unit, value));
            }
            entry = self.described_by(&entry)?;
        }
        None
    }

    /// Returns the last of the entries that an entry is an instance or a definition of.
    fn origin(&self, entry: &Entry<'a>) -> Entry<'a> {
        let mut entry = entry.clone();
        for _ in 0..STEPS_MAX {
            let Some(next) = self.described_by(&entry) else { break };
            entry = next;
        }
        entry
    }

    fn described_by(&self, entry: &Entry<'a>) -> Option<Entry<'a>> {
        let origin = self.reference(entry, gimli::DW_AT_abstract_origin);
        let origin = origin.or_else(|| self.reference(entry, gimli::DW_AT_specification))?;
        self.entry(origin)
    }

    /// Returns the entry that an attribute of this very entry refers to.
    fn reference(&self, entry: &Entry<'a>, name: DwAt) -> Option<EntryId> {
        self.target((entry.unit, entry.die.attr_value(name)?))
    }

    fn entry(&self, id: EntryId) -> Option<Entry<'a>> {
        let unit = self.unit(id.unit)?;
        let die = unit.header.entry(&unit.abbreviations, id.at).ok()?;
        Some(Entry { unit: id.unit, die })
    }

    /// Returns the entry that a reference leads to, also if it is in another unit.
    fn target(&self, (unit, reference): UnitValue<'a>) -> Option<EntryId> {
        match reference {
            AttributeValue::UnitRef(at) => Some(EntryId { unit, at }),
            AttributeValue::DebugInfoRef(at) => {
                let behind = self.offsets.partition_point(|offset| *offset <= at.0);
                let unit = self.read(*self.offsets.get(behind.checked_sub(1)?)?)?;
                let at = at.to_unit_offset(&self.unit(unit)?.header)?;
                Some(EntryId { unit, at })
            }
            _ => None,
        }
    }

    fn type_of(&self, entry: &Entry<'a>) -> Option<EntryId> {
        self.target(self.attr(entry, gimli::DW_AT_type)?)
    }

    fn name(&self, entry: &Entry<'a>) -> Option<String> {
        let (unit, value) = self.attr(entry, gimli::DW_AT_name)?;
        let unit = self.unit(unit)?;
        let text = self.dwarf.attr_string(&unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    fn number(&self, entry: &Entry<'a>, name: DwAt) -> Option<u64> {
        self.attr(entry, name)?.1.udata_value()
    }

    fn integer(&self, entry: &Entry<'a>) -> TypeShape<EntryId> {
        let size = self.number(entry, gimli::DW_AT_byte_size).unwrap_or(0);
        let encoding = match entry.die.attr_value(gimli::DW_AT_encoding) {
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
    type Id = EntryId;

    fn shape(&self, id: EntryId) -> Option<TypeShape<EntryId>> {
        let mut entry = self.entry(id)?;
        for _ in 0..STEPS_MAX {
            return Some(match entry.die.tag() {
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

    fn members(&self, id: EntryId) -> Vec<TypeMember<EntryId>> {
        let mut structure = self.entry(id);
        for _ in 0..STEPS_MAX {
            let Some(entry) = &structure else { return Vec::new() };
            let is_named = matches!(
                entry.die.tag(),
                gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type
            );
            if !is_named {
                break;
            }
            structure = self.type_of(entry).and_then(|id| self.entry(id));
        }
        let Some(structure) = structure else { return Vec::new() };
        // The members of a base class are found as those of a member without a name. The place of a
        // virtual one is not a number.
        let [members, bases] = [gimli::DW_TAG_member, gimli::DW_TAG_inheritance]
            .map(|tag| self.children(&structure, tag));
        let member = |entry: &Entry<'a>| {
            let number = |name| entry.die.attr_value(name).and_then(|value| value.udata_value());
            // Before DWARF 4, the first bit was DW_AT_bit_offset, from the end of a container.
            let bits = match (number(gimli::DW_AT_bit_size), number(gimli::DW_AT_data_bit_offset)) {
                (None, None) => None,
                (width, Some(start)) => {
                    Some(BitField { start, width: width.and_then(|width| width.try_into().ok()) })
                }
                (Some(_), None) => Some(BitField { start: 0, width: None }),
            };
            Some(TypeMember {
                name: self.name(entry).unwrap_or_default(),
                offset: match entry.die.attr_value(gimli::DW_AT_data_member_location) {
                    Some(value) => value.udata_value()?,
                    // The members of a union have none.
                    None => 0,
                },
                type_: self.type_of(entry)?,
                bits,
            })
        };
        members.iter().chain(&bases).filter_map(member).collect()
    }
}
