//! Evaluation of compiled expressions for a record. A read outside its region returns 0 and marks
//! the record as too short.

use std::cell::Cell;

use super::arithmetic::{binary, read, swap, unary};
use super::kernel_data::KernelData;
use super::number::TEXT_MAX;
use super::value::{Call, IntValue, PointerTarget};
use crate::decode::c::{Binary, Int};

/// The evaluated target of a pointer.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Bytes(&'a [u8]),
    Address(u64),
    Call(&'a Call),
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
