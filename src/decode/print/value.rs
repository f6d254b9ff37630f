//! Compiled expressions, and their evaluation for a record.
//!
//! A value has 64 bits, extended according to the sign of its type; [`Int::wrap`] converts it to
//! another type. Cases that are undefined in C are defined: division by zero returns 0, a shift
//! count is modulo the width, as in hardware. A read outside its region returns 0 and marks the
//! record as too short.

use std::cell::Cell;

use super::call::Call;
use super::{KernelData, TEXT_MAX};
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
    /// Both operands have this type, except the count of a shift. So does the result, except for a
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

/// The evaluated target of a pointer.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Bytes(&'a [u8]),
    Address(u64),
    Call(&'a Call),
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

/// Evaluates expressions for one record.
pub(super) struct Evaluator<'a> {
    pub(super) raw: &'a [u8],
    pub(super) kernel: &'a dyn KernelData,
    /// Whether a read was outside the record.
    pub(super) short: Cell<bool>,
    /// Start of this event's text in the buffer.
    pub(super) start: usize,
}

impl<'a> Evaluator<'a> {
    /// Evaluates an expression.
    pub(super) fn value(&self, value: &'a IntValue) -> u64 {
        match value {
            IntValue::Const(value) => *value,
            IntValue::Load(offset, int) => self.load(self.raw.get(*offset..), *int),
            IntValue::LoadAt(place, int) => self.load(self.bytes(place), *int),
            IntValue::Unary(op, int, a) => unary(*op, *int, self.value(a)),
            IntValue::Binary(Binary::AndAnd, _, both) => {
                u64::from(self.value(&both.0) != 0 && self.value(&both.1) != 0)
            }
            IntValue::Binary(Binary::OrOr, _, both) => {
                u64::from(self.value(&both.0) != 0 || self.value(&both.1) != 0)
            }
            IntValue::Binary(op, int, both) => {
                binary(*op, *int, self.value(&both.0), self.value(&both.1))
            }
            IntValue::Cast(int, a) => int.wrap(self.value(a)),
            IntValue::Swap(int, a) => swap(self.value(a), *int),
            IntValue::Choice(all) => match self.value(&all.0) {
                0 => self.value(&all.2),
                _ => self.value(&all.1),
            },
        }
    }

    /// Evaluates the target of a pointer.
    pub(super) fn at(&self, place: &'a PointerTarget) -> At<'a> {
        match place {
            PointerTarget::Literal(text) => At::Bytes(text),
            PointerTarget::Field { offset, size } => {
                let end = offset.saturating_add(*size);
                At::Bytes(self.within(self.raw.get(*offset..end)))
            }
            PointerTarget::Dynamic { offset, base } => {
                let word = self.load(self.raw.get(*offset..), Int::UINT);
                let start = (word & 0xffff) as usize + base;
                let end = start + (word >> 16) as usize;
                At::Bytes(self.within(self.raw.get(start..end)))
            }
            PointerTarget::Address(value) => At::Address(self.value(value)),
            PointerTarget::Behind(both) => {
                let by = self.value(&both.1);
                match self.at(&both.0) {
                    At::Bytes(bytes) => {
                        let behind = usize::try_from(by).ok().and_then(|by| bytes.get(by..));
                        At::Bytes(self.within(behind))
                    }
                    At::Address(address) => At::Address(address.wrapping_add(by)),
                    call => call,
                }
            }
            PointerTarget::Choice(all) => match self.value(&all.0) {
                0 => self.at(&all.2),
                _ => self.at(&all.1),
            },
            PointerTarget::Call(call) => At::Call(call),
        }
    }

    /// Returns the bytes at a pointer; None for a kernel address or a call.
    pub(super) fn bytes(&self, place: &'a PointerTarget) -> Option<&'a [u8]> {
        match self.at(place) {
            At::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the first `len` bytes of a region, or fewer if it is shorter.
    pub(super) fn first(&self, place: &'a PointerTarget, len: usize) -> &'a [u8] {
        let bytes = self.within(self.bytes(place));
        self.short.set(self.short.get() | (bytes.len() < len));
        bytes.get(..len).unwrap_or(bytes)
    }

    /// Returns whether the text has reached its limit, so that loops can stop.
    pub(super) fn is_full(&self, out: &[u8]) -> bool {
        out.len().saturating_sub(self.start) > TEXT_MAX
    }

    fn within(&self, bytes: Option<&'a [u8]>) -> &'a [u8] {
        self.short.set(self.short.get() | bytes.is_none());
        bytes.unwrap_or_default()
    }

    fn load(&self, bytes: Option<&[u8]>, int: Int) -> u64 {
        read(bytes.unwrap_or_default(), int).unwrap_or_else(|| {
            self.short.set(true);
            0
        })
    }
}

/// Reads the integer at the start of `bytes`.
pub(super) fn read(bytes: &[u8], int: Int) -> Option<u64> {
    let value = match int.bits {
        64 => u64::from_ne_bytes(*bytes.first_chunk()?),
        32 => u32::from_ne_bytes(*bytes.first_chunk()?).into(),
        16 => u16::from_ne_bytes(*bytes.first_chunk()?).into(),
        _ => (*bytes.first()?).into(),
    };
    Some(int.wrap(value))
}

pub(super) fn unary(op: Unary, int: Int, a: u64) -> u64 {
    match op {
        Unary::Minus => int.wrap(a.wrapping_neg()),
        Unary::Complement => int.wrap(!a),
        Unary::Not => u64::from(a == 0),
        Unary::Plus | Unary::Deref | Unary::Address => a,
    }
}

pub(super) fn binary(op: Binary, int: Int, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a as i64, b as i64);
    let compared = if int.signed { sa.cmp(&sb) } else { a.cmp(&b) };
    let by = (b as u32) & (u32::from(int.bits.max(32)) - 1);
    let value = match op {
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div | Binary::Rem if b == 0 => 0,
        Binary::Div if int.signed => sa.wrapping_div(sb) as u64,
        Binary::Div => a / b,
        Binary::Rem if int.signed => sa.wrapping_rem(sb) as u64,
        Binary::Rem => a % b,
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Shl => a << by,
        Binary::Shr if int.signed => (sa >> by) as u64,
        Binary::Shr => a >> by,
        Binary::And => a & b,
        Binary::Xor => a ^ b,
        Binary::Or => a | b,
        Binary::AndAnd => return u64::from(a != 0 && b != 0),
        Binary::OrOr => return u64::from(a != 0 || b != 0),
        Binary::Lt => return compared.is_lt().into(),
        Binary::Le => return compared.is_le().into(),
        Binary::Gt => return compared.is_gt().into(),
        Binary::Ge => return compared.is_ge().into(),
        Binary::Eq | Binary::Glob => return u64::from(a == b),
        Binary::Ne => return u64::from(a != b),
    };
    int.wrap(value)
}

/// Swaps the bytes of a value.
pub(super) fn swap(value: u64, int: Int) -> u64 {
    match int.bits {
        16 => u64::from((value as u16).swap_bytes()),
        32 => u64::from((value as u32).swap_bytes()),
        _ => value.swap_bytes(),
    }
}
