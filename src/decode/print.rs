//! Compiles a tracepoint's `print fmt` and evaluates it for each record as the kernel does.
//!
//! [`PrintProgram::compile`] resolves everything that does not depend on the event: field
//! positions, tables of names, the layout of each conversion. [`PrintProgram::push`] then appends
//! an event's text to the caller's buffer: it does not allocate other memory, is bounded by
//! [`TEXT_MAX`], and accepts any bytes.
//!
//! The text equals the text after the event's name in tracefs' `trace`, with these differences:
//! - `%p` and `%pK` print the address with 16 digits, as with the trace option `nohash-ptr`,
//!   instead of a hash of it.
//! - The base of the array of pages (`vmemmap_base`) is known only to the kernel: `page=` is `?`,
//!   and `pfn=` next to it identifies the page. [`PrintProgram::unknown`] returns the missing name.
//! - Terminal control characters in the text of a record are escaped; tabs of the format itself are
//!   kept.
//! - A kernel string to which a record only points is the result of [`KernelData::text`], or else
//!   its address.
//! - A newline at the end is omitted.
//! - Events of `syscalls` have a `print fmt`, but `trace` uses a separate printer for them
//!   (`sys_close(fd: 3)`); here the format is used (`fd: 0x00000003`), as in perf.

mod call;
mod compile;
mod expression;
mod functions;
mod network;
mod number;
mod operand;
mod pointer;
mod template;
#[cfg(test)]
mod tests;
mod value;

use std::cell::Cell;

use super::format::{Format, TooShort};
use crate::base::text::escape;
pub use compile::parse;
use number::{Base, NumberLayout};
use pointer::Extension;
use template::ConversionFlags;
use value::{At, Evaluator, IntValue, PointerTarget};

/// Maximum length of an event's text in bytes, which is the kernel's limit for a line. Longer text
/// is truncated.
pub const TEXT_MAX: usize = 8 << 10;

/// Data of the running kernel that a text may need in addition to the record.
pub trait KernelData {
    /// Returns the ticks per second, for times in jiffies; 0 if unknown. Called when a format is
    /// compiled.
    fn hz(&self) -> u32;
    /// Returns the value of an enumerator in a format. Called when a format is compiled.
    fn enumerator(&self, name: &str) -> Option<i64>;
    /// Returns the function or variable at an address; None if unknown, which prints the address.
    fn symbol(&self, address: u64) -> Option<Symbol<'_>>;
    /// Returns the text at an address in the kernel (listed in `printk_formats` of tracefs).
    fn text(&self, address: u64) -> Option<&[u8]>;
}

/// A symbol of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Offset of the address in the symbol, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its module; None for the kernel itself.
    pub module: Option<&'a str>,
}

/// A kernel without data: addresses are printed as numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl KernelData for Unknown {
    fn hz(&self) -> u32 {
        0
    }
    fn enumerator(&self, _: &str) -> Option<i64> {
        None
    }
    fn symbol(&self, _: u64) -> Option<Symbol<'_>> {
        None
    }
    fn text(&self, _: u64) -> Option<&[u8]> {
        None
    }
}

/// Why a format cannot be evaluated; its events are printed as `name=value`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnsupportedFormat(pub String);

/// A compiled `print fmt`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintProgram {
    steps: Box<[PrintStep]>,
    /// Minimum size of a record in bytes.
    fixed_size: usize,
    /// The name that only the kernel knows and that is printed as `?`.
    unknown: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
enum PrintStep {
    Literal(Box<[u8]>),
    /// A decimal number without flags, width or precision; true if it is signed.
    Decimal(IntValue, bool),
    /// Text without flags, width or precision.
    Text(PointerTarget),
    /// Any other conversion.
    Conversion(Box<(Conversion, ConversionSpec)>),
}

#[derive(Clone, Debug, PartialEq)]
enum Conversion {
    Number(IntValue, Base),
    Char(IntValue),
    Text(PointerTarget),
    Pointer(Extension, PointerTarget),
}

/// Flags, width and precision before evaluation for an event.
#[derive(Clone, Debug, PartialEq)]
struct ConversionSpec {
    flags: ConversionFlags,
    width: Option<IntValue>,
    precision: Option<IntValue>,
}

impl PrintProgram {
    /// Compiles the `print fmt` of a format.
    ///
    /// # Errors
    /// The format cannot be evaluated: it uses a name that only the kernel knows, or follows a
    /// pointer into kernel memory.
    pub fn compile(
        format: &Format,
        kernel: &dyn KernelData,
    ) -> Result<PrintProgram, UnsupportedFormat> {
        let steps =
            compile::steps(format, kernel).map_err(|fault| UnsupportedFormat(fault.message))?;
        let (steps, unknown) = (steps.all.into(), steps.unknown);
        Ok(PrintProgram { steps, fixed_size: format.fixed_size, unknown })
    }

    /// Returns the name that a conversion needs and only the kernel knows; the conversion prints
    /// `?`.
    pub fn unknown(&self) -> Option<&'static str> {
        self.unknown
    }

    /// Appends the text of a raw record.
    ///
    /// # Errors
    /// The record is shorter than its format or its own location words require; nothing is appended
    /// then.
    pub fn push(
        &self,
        out: &mut Vec<u8>,
        raw: &[u8],
        kernel: &dyn KernelData,
    ) -> Result<(), TooShort> {
        if raw.len() < self.fixed_size {
            return Err(TooShort);
        }
        let start = out.len();
        let machine = Evaluator { raw, kernel, short: Cell::new(false), start };
        for step in &self.steps {
            match step {
                PrintStep::Literal(text) => out.extend_from_slice(text),
                PrintStep::Decimal(value, signed) => {
                    let base = if *signed { Base::Signed } else { Base::Unsigned };
                    number::push(out, machine.value(value), base, NumberLayout::default());
                }
                PrintStep::Text(place) => push_text(out, &machine, place, None),
                PrintStep::Conversion(both) => both.0.push(out, &machine, &both.1),
            }
            if machine.is_full(out) {
                break;
            }
        }
        if machine.short.get() {
            out.truncate(start);
            return Err(TooShort);
        }
        out.truncate(start.saturating_add(TEXT_MAX).min(out.len()));
        Ok(())
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
    let until = |text: &'a [u8]| {
        let text = text.get(..most).unwrap_or(text);
        text.iter().position(|byte| *byte == 0).map_or(text, |end| &text[..end])
    };
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
