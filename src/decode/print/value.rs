//! Compiled expressions: integers, targets of pointers, and calls of the kernel's printing
//! functions.
//!
//! A value has 64 bits, extended according to the sign of its type; [`Int::wrap`] converts it to
//! another type.

use super::arithmetic::binary;
use crate::decode::c::{Binary, Int, Unary};

/// An integer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum IntValue {
    Const(u64),
    /// An integer at a fixed offset in the record.
    Load(usize, Int),
    /// An integer at the start of a region.
    LoadAt(Box<PointerTarget>, Int),
    Unary(Unary, Int, Box<IntValue>),
    /// Both operands and the result have this type, except the count of a shift and the result of a
    /// comparison.
    Binary(Binary, Int, Box<(IntValue, IntValue)>),
    Cast(Int, Box<IntValue>),
    /// Swapped bytes.
    Swap(Int, Box<IntValue>),
    Choice(Box<(IntValue, IntValue, IntValue)>),
}

/// The target of a pointer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PointerTarget {
    /// A string literal.
    Literal(Box<[u8]>),
    /// Bytes of the record.
    Field {
        offset: usize,
        size: usize,
    },
    /// The data of a location word at `offset`, relative to `base`.
    Dynamic {
        offset: usize,
        base: usize,
    },
    /// A kernel address; 0 is NULL.
    Address(IntValue),
    /// A region, starting at this offset in another region.
    Behind(Box<(PointerTarget, IntValue)>),
    Choice(Box<(IntValue, PointerTarget, PointerTarget)>),
    /// The output of one of the kernel's printing functions.
    Call(Box<Call>),
}

/// A call of a printing function.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    /// `__print_symbolic`
    Symbolic(IntValue, SymbolicNames),
    /// `__print_flags`
    Flags(IntValue, FlagNames),
    /// `__print_hex`, and `__print_hex_str`, which joins the bytes.
    Hex { at: PointerTarget, len: IntValue, joined: bool },
    /// `__print_hex_dump`
    Dump(Dump),
    /// `__print_array`, of elements of this type.
    Array { at: PointerTarget, count: IntValue, int: Int },
    /// `__get_bitmask`
    Bitmask(PointerTarget),
}

/// A value or bits, and their name.
pub(super) type NamedValue = (u64, Box<[u8]>);

/// Names of values, sorted by value; the first name of a value takes precedence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SymbolicNames(Box<[NamedValue]>);

impl SymbolicNames {
    pub(super) fn new(mut names: Vec<NamedValue>) -> SymbolicNames {
        names.sort_by_key(|(value, _)| *value);
        names.dedup_by_key(|(value, _)| *value);
        SymbolicNames(names.into())
    }

    /// Returns the name of a value.
    pub(super) fn of(&self, value: u64) -> Option<&[u8]> {
        let at = self.0.binary_search_by_key(&value, |(value, _)| *value).ok()?;
        Some(&self.0.get(at)?.1)
    }
}

/// Names of bits in format order, and their separator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FlagNames {
    pub(super) delimiter: Box<[u8]>,
    pub(super) names: Box<[NamedValue]>,
}

/// `__print_hex_dump(prefix, kind, row, group, buffer, length, text)`
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dump {
    pub(super) prefix: Box<[u8]>,
    /// Whether each row begins with its offset.
    pub(super) offsets: bool,
    /// Bytes per row: 16 or 32.
    pub(super) row: usize,
    /// Bytes per number: 1, 2, 4 or 8.
    pub(super) group: usize,
    pub(super) at: PointerTarget,
    pub(super) len: IntValue,
    /// Whether each row ends with its bytes as text.
    pub(super) text: bool,
}

impl PointerTarget {
    /// Returns whether the target is in the record or a literal, not at a kernel address.
    pub(super) fn is_in_record(&self) -> bool {
        match self {
            PointerTarget::Literal(_)
            | PointerTarget::Field { .. }
            | PointerTarget::Dynamic { .. } => true,
            PointerTarget::Address(_) | PointerTarget::Call(_) => false,
            PointerTarget::Behind(both) => both.0.is_in_record(),
            PointerTarget::Choice(all) => all.1.is_in_record() && all.2.is_in_record(),
        }
    }

    /// Returns a value that is 0 if the pointer is NULL.
    pub(super) fn truth(self) -> IntValue {
        match self {
            PointerTarget::Address(value) => value,
            PointerTarget::Choice(all) => {
                let (condition, a, b) = *all;
                IntValue::Choice(Box::new((condition, a.truth(), b.truth())))
            }
            _ => IntValue::Const(1),
        }
    }
}

/// Converts a value from one type to another.
pub(super) fn convert(value: IntValue, from: Int, to: Int) -> IntValue {
    let keeps = to.bits == 64
        || from == to
        || (from.bits < to.bits && from.bits > 1 && (to.signed || !from.signed))
        || from == Int::BOOL;
    match value {
        IntValue::Const(value) => IntValue::Const(to.wrap(value)),
        value if keeps => value,
        value => IntValue::Cast(to, Box::new(value)),
    }
}

/// Returns an operation, evaluated now if both operands are constant.
pub(super) fn operate(op: Binary, int: Int, a: IntValue, b: IntValue) -> IntValue {
    match (a, b) {
        (IntValue::Const(a), IntValue::Const(b)) => IntValue::Const(binary(op, int, a, b)),
        (a, b) => IntValue::Binary(op, int, Box::new((a, b))),
    }
}

/// Returns `!a`.
pub(super) fn not(value: IntValue) -> IntValue {
    match value {
        IntValue::Const(value) => IntValue::Const(u64::from(value == 0)),
        value => IntValue::Unary(Unary::Not, Int::INT, Box::new(value)),
    }
}
