//! Prototypes of the kernel's functions and tracepoints, and their types, from BTF. Layout:
//! Documentation/bpf/btf.rst.

use std::cell::OnceCell;
use std::ops::Deref;

use super::{BtfType, parts, text_at, u32_at};
use crate::decode::ctypes::{
    BitField, FunctionParameter, ParameterLocation, Prototype, TypeMember, TypeShape, TypeTable,
};

/// BTF with an index of its types.
pub struct BtfTypes {
    bytes: Box<dyn Deref<Target = [u8]>>,
    /// Position of each type, from type 1 on.
    positions: Vec<u32>,
    /// Position of the strings.
    strings: usize,
    /// Types of the kind FUNC, sorted by name when one is first looked up.
    functions: OnceCell<Vec<u32>>,
}

/// The type of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointType {
    /// The identifier that the kernel knows it by: that of `btf_trace_NAME`.
    pub id: u32,
    /// The types of its arguments.
    pub arguments: Vec<u32>,
}

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const FLOAT: u32 = 16;
const ENUM64: u32 = 19;

/// Maximum number of types, and of qualifiers and typedefs of one.
const TYPES_MAX: usize = 1 << 22;
const STEPS_MAX: usize = 32;

impl BtfTypes {
    /// Indexes BTF in this machine's byte order, up to the first malformed type; None if it is not
    /// BTF.
    pub fn parse(bytes: impl Deref<Target = [u8]> + 'static) -> Option<BtfTypes> {
        let (types, strings) = parts(&bytes)?;
        let (mut at, end, strings) = (types.start, types.end, strings.start);
        // Most types take more than this.
        let mut positions = Vec::with_capacity(types.len() / 24);
        while positions.len() < TYPES_MAX
            && let Some(found) = bytes.get(at..end).and_then(BtfType::read)
            && at + found.size <= end
        {
            positions.push(u32::try_from(at).ok()?);
            at += found.size;
        }
        Some(BtfTypes { bytes: Box::new(bytes), positions, strings, functions: OnceCell::new() })
    }

    fn ids(&self) -> impl Iterator<Item = u32> {
        1..=self.positions.len() as u32
    }

    fn functions(&self) -> &[u32] {
        self.functions.get_or_init(|| {
            let mut functions: Vec<u32> =
                self.ids().filter(|id| self.kind(*id) == Some(FUNC)).collect();
            functions.sort_by_key(|id| self.name(*id));
            functions
        })
    }

    /// Returns the first type of a kind and a name.
    fn named(&self, kind: u32, name: &str) -> Option<u32> {
        let (name, strings) = ([name, "\0"].concat(), self.strings());
        // Compares the kind first: a name is elsewhere in memory, so reading it is slow.
        let is_named = |id: &u32| {
            let at = || strings.get(self.word(*id, 0)? as usize..);
            self.kind(*id) == Some(kind) && at().is_some_and(|own| own.starts_with(name.as_bytes()))
        };
        self.ids().find(is_named)
    }

    /// Returns the type of the tracepoint of this name, without its system; None if this BTF has
    /// none.
    pub fn tracepoint(&self, name: &str) -> Option<TracepointType> {
        let name = ["btf_trace_", name].concat();
        let id = self.named(TYPEDEF, &name)?;
        let pointer = self.word(id, 8).filter(|id| self.kind(*id) == Some(PTR))?;
        let prototype = self.word(pointer, 8).filter(|id| self.kind(*id) == Some(FUNC_PROTO))?;
        // The first parameter is the data of the probe.
        let arguments =
            (1..self.count(prototype)?).map(|index| self.word(prototype, 16 + 8 * index));
        Some(TracepointType { id, arguments: arguments.collect::<Option<_>>()? })
    }

    /// Returns the names and values of an enumeration of 4 bytes; empty if there is none.
    pub fn enumeration(&self, name: &str) -> Vec<(&[u8], i32)> {
        let member = |id: u32, index: usize| {
            let at = 12 + 8 * index;
            let name = text_at(self.strings(), self.word(id, at)?);
            Some((name, self.word(id, at + 4)?.cast_signed()))
        };
        let id = self.named(ENUM, name);
        let members = id.and_then(|id| Some((id, self.count(id)?)));
        members.map_or(Vec::new(), |(id, count)| {
            (0..count).map_while(|index| member(id, index)).collect()
        })
    }

    /// Returns the prototype of the function of this name; None if there is none.
    pub fn prototype(&self, name: &str) -> Option<Prototype<u32>> {
        let functions = self.functions();
        let at = functions.partition_point(|id| self.name(*id) < name.as_bytes());
        let id = *functions.get(at).filter(|id| self.name(**id) == name.as_bytes())?;
        let prototype = self.word(id, 8).filter(|id| self.kind(*id) == Some(FUNC_PROTO))?;
        let mut parameters = Vec::new();
        for index in 0..self.count(prototype)? {
            let at = 12 + 8 * index;
            let name = text_at(self.strings(), self.word(prototype, at)?);
            let type_ = self.word(prototype, at + 4)?;
            // The last one, without a type, stands for `...`.
            if type_ != 0 {
                let name = String::from_utf8_lossy(name).into_owned();
                parameters.push(FunctionParameter {
                    name,
                    type_,
                    location: ParameterLocation::ByPosition,
                });
            }
        }
        Some(Prototype { parameters, result: self.word(prototype, 8).filter(|id| *id != 0) })
    }

    fn strings(&self) -> &[u8] {
        self.bytes.get(self.strings..).unwrap_or_default()
    }

    /// Returns the word at an offset in the description of a type.
    fn word(&self, id: u32, at: usize) -> Option<u32> {
        let position = *self.positions.get((id as usize).checked_sub(1)?)?;
        u32_at(&self.bytes, position as usize + at)
    }

    fn name(&self, id: u32) -> &[u8] {
        self.word(id, 0).map_or(&[], |at| text_at(self.strings(), at))
    }

    fn kind(&self, id: u32) -> Option<u32> {
        Some(self.word(id, 4)? >> 24 & 0x1f)
    }

    /// Returns the number of its members.
    fn count(&self, id: u32) -> Option<usize> {
        Some((self.word(id, 4)? & 0xffff) as usize)
    }

    /// Returns whether the flag of the kind is set.
    fn flag(&self, id: u32) -> bool {
        self.word(id, 4).is_some_and(|info| info >> 31 != 0)
    }

    /// Returns the type without qualifiers and typedefs; None for `void`.
    fn bare(&self, id: u32) -> Option<u32> {
        self.without(id, |kind| matches!(kind, TYPEDEF | 9..=11 | 18))
    }

    /// Returns whether a type is a typedef, perhaps with qualifiers.
    fn is_typedef(&self, id: u32) -> bool {
        let bare = self.without(id, |kind| matches!(kind, 9..=11 | 18));
        bare.and_then(|id| self.kind(id)) == Some(TYPEDEF)
    }

    /// Follows types of these kinds: TYPEDEF, or the qualifiers VOLATILE, CONST, RESTRICT and
    /// TYPE_TAG.
    fn without(&self, mut id: u32, is_skipped: impl Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..STEPS_MAX {
            match self.kind(id)? {
                kind if is_skipped(kind) => id = self.word(id, 8)?,
                _ => return Some(id),
            }
        }
        None
    }
}

impl TypeTable for BtfTypes {
    type Id = u32;

    fn shape(&self, id: u32) -> Option<TypeShape<u32>> {
        // Names are `unsigned char`, too (`struct qstr`); numbers are `u8`, a typedef of it.
        let is_plain = !self.is_typedef(id);
        let id = self.bare(id)?;
        let size = u64::from(self.word(id, 8)?);
        Some(match self.kind(id)? {
            INT => {
                let signed = self.word(id, 12)? >> 24 & 1 != 0;
                match self.name(id) {
                    b"char" => TypeShape::Char { signed },
                    b"unsigned char" if is_plain => TypeShape::Char { signed },
                    _ => TypeShape::Int { size, signed },
                }
            }
            ENUM | ENUM64 => TypeShape::Int { size, signed: self.flag(id) },
            PTR => TypeShape::Pointer(self.word(id, 8).filter(|id| *id != 0)),
            ARRAY => TypeShape::Array(self.word(id, 12)?),
            STRUCT | UNION => TypeShape::Struct,
            FLOAT if size <= 8 => TypeShape::Float,
            _ => TypeShape::Other,
        })
    }

    fn members(&self, id: u32) -> Vec<TypeMember<u32>> {
        let Some(id) = self.bare(id) else { return Vec::new() };
        if !matches!(self.kind(id), Some(STRUCT | UNION)) {
            return Vec::new();
        }
        let member = |index: usize| {
            let at = 12 + 12 * index;
            let (name, place) = (self.word(id, at)?, self.word(id, at + 8)?);
            // With the flag, the upper byte is the size of a bit field.
            let (start, width) = match self.flag(id) {
                true => (place & 0xff_ffff, Some(place >> 24).filter(|width| *width > 0)),
                false => (place, None),
            };
            let is_bit_field = width.is_some() || start % 8 != 0;
            Some(TypeMember {
                name: String::from_utf8_lossy(text_at(self.strings(), name)).into_owned(),
                offset: u64::from(start / 8),
                type_: self.word(id, at + 4)?,
                bits: is_bit_field.then_some(BitField { start: start.into(), width }),
            })
        };
        (0..self.count(id).unwrap_or(0)).map_while(member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::btf;
    use super::*;
    use crate::decode::ctypes::member;
    use proptest::prelude::*;

    /// `int f(struct s *p, const char *t, ...)` with `struct s { struct { char c; }; int n : 3; }`.
    fn example() -> BtfTypes {
        let strings = "\0int\0char\0f\0p\0t\0c\0n\0s\0btf_trace_e\0op\0A\0B\0";
        let at = |name: &str| strings.find(&format!("\0{name}\0")).unwrap() as u32 + 1;
        let kind = |kind: u32, members: u32| kind << 24 | members;
        let types: Vec<u32> = [
            vec![at("int"), kind(INT, 0), 4, 1 << 24 | 32],
            vec![at("char"), kind(INT, 0), 1, 1 << 24 | 8],
            vec![0, kind(10, 0), 2],
            vec![0, kind(PTR, 0), 3],
            vec![0, kind(STRUCT, 1), 1, at("c"), 2, 0],
            vec![at("s"), 1 << 31 | kind(STRUCT, 2), 8, 0, 5, 32, at("n"), 1, 3 << 24 | 40],
            vec![0, kind(PTR, 0), 6],
            vec![0, kind(FUNC_PROTO, 3), 1, at("p"), 7, at("t"), 4, 0, 0],
            vec![at("f"), kind(FUNC, 0), 8],
            vec![0, kind(PTR, 0), 0],
            // `typedef void (*btf_trace_e)(void *, struct s *)`
            vec![at("btf_trace_e"), kind(TYPEDEF, 0), 12],
            vec![0, kind(PTR, 0), 13],
            vec![0, kind(FUNC_PROTO, 2), 0, 0, 10, 0, 7],
            vec![at("op"), kind(ENUM, 2), 4, at("A"), 5, at("B"), -2_i32 as u32],
        ]
        .concat();
        BtfTypes::parse(btf(&types, strings)).unwrap()
    }

    #[test]
    fn a_function_has_its_parameters_and_their_types() {
        let types = example();
        let prototype = types.prototype("f").unwrap();
        let parameters: Vec<_> =
            prototype.parameters.iter().map(|one| (one.name.as_str(), one.type_)).collect();
        assert_eq!(parameters, [("p", 7), ("t", 4)]);
        assert_eq!(
            types.shape(prototype.result.unwrap()),
            Some(TypeShape::Int { size: 4, signed: true })
        );
        assert_eq!(types.shape(7), Some(TypeShape::Pointer(Some(6))));
        assert_eq!(types.shape(3), Some(TypeShape::Char { signed: true }));
        assert_eq!(types.shape(10), Some(TypeShape::Pointer(None)));
        let nested = member(&types, 6, "c").unwrap();
        assert_eq!((nested.offset, nested.type_, nested.bits), (4, 2, None));
        let bits = BitField { start: 40, width: Some(3) };
        assert_eq!(member(&types, 6, "n").unwrap().bits, Some(bits));
        assert_eq!(types.prototype("g"), None);
        assert_eq!((types.shape(0), types.shape(99)), (None, None));
        assert!(BtfTypes::parse(&b"none"[..]).is_none());
    }

    #[test]
    fn a_tracepoint_has_its_arguments_without_the_data_of_the_probe() {
        let types = example();
        let tracepoint = TracepointType { id: 11, arguments: vec![7] };
        assert_eq!(types.tracepoint("e"), Some(tracepoint));
        assert_eq!((types.tracepoint("s"), types.tracepoint("")), (None, None));
    }

    #[test]
    fn an_enumeration_has_the_values_of_its_enumerators() {
        let types = example();
        assert_eq!(types.enumeration("op"), [(&b"A"[..], 5), (&b"B"[..], -2)]);
        assert_eq!(types.enumeration("s"), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(words: Vec<u32>, id in 0u32..20) {
            if let Some(types) = BtfTypes::parse(btf(&words, "\0btf_trace_f\0")) {
                let _ = (types.prototype("f"), types.shape(id), member(&types, id, "f"));
                let _ = (types.tracepoint("f"), types.enumeration("f"));
            }
        }
    }
}
