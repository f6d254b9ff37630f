//! Compiled expressions, and what they are in one record.
//!
//! A value is kept in 64 bits, extended by the sign of its type; [`Int::wrap`] takes it to another. What C
//! leaves undefined is defined: dividing by zero gives 0, a shift counts modulo the width as the machine's does.
//! A read outside of its region gives 0 and marks the record as too short.

use std::cell::Cell;

use super::call::Call;
use super::{Kernel, TEXT_MAX};
use crate::decode::c::{Binary, Int, Unary};

/// An integer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Const(u64),
    /// An integer at a fixed place of the record.
    Load(usize, Int),
    /// An integer at the start of a region.
    LoadAt(Box<Place>, Int),
    Unary(Unary, Int, Box<Value>),
    /// Both operands in this type, which comparisons and shifts keep of the left one.
    Binary(Binary, Int, Box<(Value, Value)>),
    Cast(Int, Box<Value>),
    /// The bytes in the other order.
    Swap(Int, Box<Value>),
    Choice(Box<(Value, Value, Value)>),
}

/// Where a pointer leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// A string literal.
    Literal(Box<[u8]>),
    /// Bytes of the record.
    Field {
        offset: usize,
        size: usize,
    },
    /// What a location word at `offset` leads to, counted from `base`.
    Dynamic {
        offset: usize,
        base: usize,
    },
    /// An address of the kernel; 0 is NULL.
    Address(Value),
    /// A region from so many bytes behind its start.
    Behind(Box<(Place, Value)>),
    Choice(Box<(Value, Place, Place)>),
    /// What one of the kernel's printing functions writes.
    Call(Box<Call>),
}

/// Where a pointer led to.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Bytes(&'a [u8]),
    Address(u64),
    Call(&'a Call),
}

impl Place {
    /// Whether it leads into the record or a literal, not to an address of the kernel.
    pub(super) fn is_in_record(&self) -> bool {
        match self {
            Place::Literal(_) | Place::Field { .. } | Place::Dynamic { .. } => true,
            Place::Address(_) | Place::Call(_) => false,
            Place::Behind(both) => both.0.is_in_record(),
            Place::Choice(all) => all.1.is_in_record() && all.2.is_in_record(),
        }
    }

    /// Whether it is no NULL.
    pub(super) fn truth(self) -> Value {
        match self {
            Place::Address(value) => value,
            Place::Choice(all) => {
                let (condition, a, b) = *all;
                Value::Choice(Box::new((condition, a.truth(), b.truth())))
            }
            _ => Value::Const(1),
        }
    }
}

/// A value of one type in another.
pub(super) fn convert(value: Value, from: Int, to: Int) -> Value {
    let keeps = to.bits == 64
        || from == to
        || (from.bits < to.bits && from.bits > 1 && (to.signed || !from.signed))
        || from == Int::BOOL;
    match value {
        Value::Const(value) => Value::Const(to.wrap(value)),
        value if keeps => value,
        value => Value::Cast(to, Box::new(value)),
    }
}

/// An operation, done now where both operands are constant.
pub(super) fn operate(op: Binary, int: Int, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Const(a), Value::Const(b)) => Value::Const(binary(op, int, a, b)),
        (a, b) => Value::Binary(op, int, Box::new((a, b))),
    }
}

/// `!a`
pub(super) fn not(value: Value) -> Value {
    match value {
        Value::Const(value) => Value::Const(u64::from(value == 0)),
        value => Value::Unary(Unary::Not, Int::INT, Box::new(value)),
    }
}

/// One record under evaluation.
pub(super) struct Machine<'a> {
    pub(super) raw: &'a [u8],
    pub(super) kernel: &'a dyn Kernel,
    /// Whether something lay outside of the record.
    pub(super) short: Cell<bool>,
    /// Where in the buffer this event's text begins.
    pub(super) start: usize,
}

impl<'a> Machine<'a> {
    /// What an expression is here.
    pub(super) fn value(&self, value: &'a Value) -> u64 {
        match value {
            Value::Const(value) => *value,
            Value::Load(offset, int) => self.load(self.raw.get(*offset..), *int),
            Value::LoadAt(place, int) => self.load(self.bytes(place), *int),
            Value::Unary(op, int, a) => unary(*op, *int, self.value(a)),
            Value::Binary(Binary::AndAnd, _, both) => {
                u64::from(self.value(&both.0) != 0 && self.value(&both.1) != 0)
            }
            Value::Binary(Binary::OrOr, _, both) => {
                u64::from(self.value(&both.0) != 0 || self.value(&both.1) != 0)
            }
            Value::Binary(op, int, both) => {
                binary(*op, *int, self.value(&both.0), self.value(&both.1))
            }
            Value::Cast(int, a) => int.wrap(self.value(a)),
            Value::Swap(int, a) => swap(self.value(a), *int),
            Value::Choice(all) => match self.value(&all.0) {
                0 => self.value(&all.2),
                _ => self.value(&all.1),
            },
        }
    }

    /// Where a pointer leads to here.
    pub(super) fn at(&self, place: &'a Place) -> At<'a> {
        match place {
            Place::Literal(text) => At::Bytes(text),
            Place::Field { offset, size } => {
                let end = offset.saturating_add(*size);
                At::Bytes(self.within(self.raw.get(*offset..end)))
            }
            Place::Dynamic { offset, base } => {
                let word = self.load(self.raw.get(*offset..), Int::UINT);
                let start = (word & 0xffff) as usize + base;
                let end = start + (word >> 16) as usize;
                At::Bytes(self.within(self.raw.get(start..end)))
            }
            Place::Address(value) => At::Address(self.value(value)),
            Place::Behind(both) => {
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
            Place::Choice(all) => match self.value(&all.0) {
                0 => self.at(&all.2),
                _ => self.at(&all.1),
            },
            Place::Call(call) => At::Call(call),
        }
    }

    /// The bytes that a pointer leads to; none when they are not in the record.
    pub(super) fn bytes(&self, place: &'a Place) -> Option<&'a [u8]> {
        match self.at(place) {
            At::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The first `len` bytes of a region, as many as there are.
    pub(super) fn first(&self, place: &'a Place, len: usize) -> &'a [u8] {
        let bytes = self.within(self.bytes(place));
        self.short.set(self.short.get() | (bytes.len() < len));
        bytes.get(..len).unwrap_or(bytes)
    }

    /// Whether the text has reached its bound, so that loops can end.
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

/// The integer at the start of some bytes.
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

/// A value with its bytes in the other order.
pub(super) fn swap(value: u64, int: Int) -> u64 {
    match int.bits {
        16 => u64::from((value as u16).swap_bytes()),
        32 => u64::from((value as u32).swap_bytes()),
        _ => value.swap_bytes(),
    }
}
