//! Steps of a compiled format: literal text and conversions, and their output for a record.

use super::evaluate::{At, Evaluator};
use super::number::{self, Base, NumberLayout};
use super::pointer::Extension;
use super::template::ConversionFlags;
use super::value::{IntValue, PointerTarget};
use crate::base::text::escape;
use crate::base::text::unescape::until_nul;

/// A step of a compiled format.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PrintStep {
    Literal(Box<[u8]>),
    /// A decimal number without flags, width or precision; true if it is signed.
    Decimal(IntValue, bool),
    /// Text without flags, width or precision.
    Text(PointerTarget),
    /// Any other conversion.
    Conversion(Box<(Conversion, ConversionSpec)>),
}

/// A conversion and its argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Conversion {
    Number(IntValue, Base),
    Char(IntValue),
    Text(PointerTarget),
    Pointer(Extension, PointerTarget),
}

/// Flags, width and precision before evaluation for an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConversionSpec {
    pub(super) flags: ConversionFlags,
    pub(super) width: Option<IntValue>,
    pub(super) precision: Option<IntValue>,
}

impl PrintStep {
    /// Appends the output of the step.
    #[inline]
    pub(super) fn push<'a>(&'a self, out: &mut Vec<u8>, machine: &Evaluator<'a>) {
        match self {
            PrintStep::Literal(text) => out.extend_from_slice(text),
            PrintStep::Decimal(value, signed) => {
                let base = if *signed { Base::Signed } else { Base::Unsigned };
                number::push(out, machine.value(value), base, NumberLayout::default());
            }
            PrintStep::Text(place) => push_text(out, machine, place, None),
            PrintStep::Conversion(both) => both.0.push(out, machine, &both.1),
        }
    }
}

impl Conversion {
    fn push<'a>(&'a self, out: &mut Vec<u8>, machine: &Evaluator<'a>, spec: &'a ConversionSpec) {
        let layout = spec.layout(machine);
        match self {
            Conversion::Number(value, base) => {
                number::push(out, machine.value(value), *base, layout);
            }
            Conversion::Char(value) => {
                let shown = [machine.value(value) as u8];
                number::widen(out, layout, |out| {
                    escape::push_shown(out, &shown);
                });
            }
            Conversion::Text(place) => {
                number::widen(out, layout, |out| push_text(out, machine, place, layout.precision));
            }
            Conversion::Pointer(extension, place) => {
                extension.push(out, machine, place, layout, spec.width.is_some());
            }
        }
    }
}

impl ConversionSpec {
    /// A negative width means the flag `-`, a negative precision 0.
    fn layout<'a>(&'a self, machine: &Evaluator<'a>) -> NumberLayout {
        let amount = |value: &'a IntValue| machine.value(value).cast_signed();
        let width = self.width.as_ref().map_or(0, amount);
        let mut flags = self.flags;
        flags.left |= width < 0;
        let precision = self.precision.as_ref().map(amount);
        let most = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        NumberLayout {
            flags,
            width: most(width.unsigned_abs()),
            precision: precision.map(|n| most(n.max(0).cast_unsigned())),
        }
    }
}

/// Appends text up to its NUL, at most `most` bytes.
fn push_text<'a>(
    out: &mut Vec<u8>,
    machine: &Evaluator<'a>,
    place: &'a PointerTarget,
    most: Option<usize>,
) {
    let most = most.unwrap_or(usize::MAX);
    let until = |text: &'a [u8]| until_nul(text.get(..most).unwrap_or(text));
    let start = out.len();
    match machine.at(place) {
        At::Bytes(text) => {
            escape::push_shown(out, until(text));
            return;
        }
        At::Call(call) => call.push(out, machine),
        At::Address(0) => out.extend_from_slice(b"(null)"),
        At::Address(address) => match machine.kernel.text(address) {
            Some(text) => {
                escape::push_shown(out, text);
            }
            None => number::push_hex(out, address),
        },
    }
    out.truncate(start.saturating_add(most).min(out.len()));
}
