//! Types and prototypes of C, as debug information describes them: DWARF of programs, BTF of the
//! kernel.

/// Types by identifiers of the debug information.
pub trait TypeTable {
    /// Identifies a type.
    type Id: Copy + PartialEq;

    /// Returns what a type is, without qualifiers and typedefs; None if it cannot be read.
    fn shape(&self, id: Self::Id) -> Option<TypeShape<Self::Id>>;

    /// Returns the members of a structure or union.
    fn members(&self, id: Self::Id) -> Vec<TypeMember<Self::Id>>;
}

/// Kind of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeShape<Id> {
    /// An integer, enumeration or truth value of this many bytes.
    Int {
        /// Size in bytes.
        size: u64,
        /// Whether it is signed.
        signed: bool,
    },
    /// `char`, an element of text.
    Char {
        /// Whether it is signed.
        signed: bool,
    },
    /// A pointer or a reference; None if what it points to is not known, as with `void *`.
    Pointer(Option<Id>),
    /// A structure or union.
    Struct,
    /// An array of such elements.
    Array(Id),
    /// A floating-point number of at most 8 bytes.
    Float,
    /// Any other type.
    Other,
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMember<Id> {
    /// Its name; empty for an anonymous structure.
    pub name: String,
    /// Its offset in bytes.
    pub offset: u64,
    /// Its type.
    pub type_: Id,
    /// Its bits if it is a bit field.
    pub bits: Option<BitField>,
}

/// The bits of a member that is a bit field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// Its first bit, from the beginning of the structure; bit 0 is the least significant one of
    /// the first byte.
    pub start: u64,
    /// Number of bits; None if the debug information has an old form of bit fields.
    pub width: Option<u32>,
}

/// A function as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype<Id> {
    /// Its parameters, in the order of the source.
    pub parameters: Vec<FunctionParameter<Id>>,
    /// Type of its result; None if it has none.
    pub result: Option<Id>,
}

/// Name of the result of a function.
pub const RESULT: &str = "retval";

impl<Id: Copy> Prototype<Id> {
    /// Returns the result as a parameter, which the kernel finds at the return; None if there is
    /// none.
    pub fn result_parameter(&self) -> Option<FunctionParameter<Id>> {
        let (name, location) = (RESULT.to_owned(), ParameterLocation::Named);
        self.result.map(|type_| FunctionParameter { name, type_, location })
    }

    /// Returns the values at the return: the result.
    pub fn at_return(&self) -> Prototype<Id> {
        let parameters = self.result_parameter().into_iter().collect();
        Prototype { parameters, result: self.result }
    }
}

impl<Id> Prototype<Id> {
    /// Returns whether its parameters are in registers and in memory, instead of where the kernel
    /// finds them.
    pub fn has_registers(&self) -> bool {
        let is_found =
            |location| matches!(location, ParameterLocation::Argument | ParameterLocation::Named);
        !self.parameters.iter().any(|parameter| is_found(parameter.location))
    }
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionParameter<Id> {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its type.
    pub type_: Id,
    /// Where it is at the first instruction.
    pub location: ParameterLocation,
}

/// Where a parameter is at the first instruction of its function. Registers have the numbers of
/// DWARF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterLocation {
    /// Where the calling convention has a parameter of its type at its position.
    ByPosition,
    /// In a register.
    Register(u16),
    /// In memory, at an offset in bytes from the address in a register.
    Memory {
        /// The register.
        register: u16,
        /// The offset.
        offset: i64,
    },
    /// On the stack, at this offset in bytes from the end of the caller's frame: the value of the
    /// stack pointer before the call.
    CallerFrame(i64),
    /// Nowhere: it has this value in each call.
    Constant(i64),
    /// Where the calling convention has a parameter of its type at its position; the kernel finds
    /// it by its number, from 1: `$arg1`.
    Argument,
    /// Where the kernel finds the value with this name: `$retval`.
    Named,
    /// Not known; the reason and what to do, as text behind its name.
    Unknown(&'static str),
}

/// Levels of anonymous members that are searched.
const NESTED_MAX: usize = 8;

/// Returns a member of a structure, also one inside of an anonymous member.
pub fn member<T: TypeTable>(types: &T, id: T::Id, name: &str) -> Option<TypeMember<T::Id>> {
    nested_member(types, id, name, NESTED_MAX)
}

fn nested_member<T: TypeTable>(
    types: &T,
    id: T::Id,
    name: &str,
    levels: usize,
) -> Option<TypeMember<T::Id>> {
    let members = types.members(id);
    if let Some(found) = members.iter().find(|member| member.name == name) {
        return Some(found.clone());
    }
    let anonymous = members.iter().filter(|member| member.name.is_empty() && levels > 0);
    anonymous
        .filter_map(|outer| {
            let inner = nested_member(types, outer.type_, name, levels - 1)?;
            let start = |bits: BitField| bits.start.checked_add(outer.offset.checked_mul(8)?);
            let bits = match inner.bits {
                Some(bits) => Some(BitField { start: start(bits)?, ..bits }),
                None => None,
            };
            Some(TypeMember { offset: outer.offset.checked_add(inner.offset)?, bits, ..inner })
        })
        .next()
}

/// Returns the names of the members of a structure, also those inside of anonymous members.
pub fn member_names<T: TypeTable>(types: &T, id: T::Id) -> Vec<String> {
    let (mut names, mut left) = (Vec::new(), vec![(id, NESTED_MAX)]);
    while let Some((id, levels)) = left.pop() {
        for member in types.members(id) {
            match member.name.is_empty() {
                true if levels > 0 => left.push((member.type_, levels - 1)),
                true => {}
                false => names.push(member.name),
            }
        }
    }
    names
}
